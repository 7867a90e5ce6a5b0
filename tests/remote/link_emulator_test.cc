#include "bench/emulators/link_emulator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "common/base/clock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

using Way = LinkEmulator::Way;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

FileDescriptor ConnectTo(uint16_t port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  const sockaddr_in address = Loopback(port);
  EXPECT_EQ(connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  return socket;
}

void SendAll(const FileDescriptor& socket, const std::string& bytes) {
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t count =
        send(socket.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) return;
    sent += static_cast<size_t>(count);
  }
}

// Until the other end says that this was all, or the connection breaks.
std::string ReadAll(const FileDescriptor& socket) {
  std::string all;
  char bytes[4096];
  for (ssize_t count; (count = recv(socket.get(), bytes, sizeof(bytes), 0)) > 0;) {
    all.append(bytes, static_cast<size_t>(count));
  }
  return all;
}

// The other end of the link, as a test holds it.
class Server {
 public:
  Server() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = Loopback(0);
    socklen_t length = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), generic, length), 0);
    EXPECT_EQ(listen(listener_.get(), 5), 0);
    EXPECT_EQ(getsockname(listener_.get(), generic, &length), 0);
    port_ = ntohs(address.sin_port);
  }

  uint16_t port() const { return port_; }
  FileDescriptor Accept() { return FileDescriptor(accept(listener_.get(), nullptr, nullptr)); }

 private:
  const FileDescriptor listener_;
  uint16_t port_;
};

std::string Bytes(size_t count) {
  std::string bytes;
  while (bytes.size() < count) bytes.push_back(static_cast<char>('a' + bytes.size() * 7 % 26));
  return bytes;
}

TEST(LinkEmulatorTest, WithoutACutEveryByteArrivesAndSoDoesTheEnd) {
  Server server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port()}));
  FileDescriptor client = ConnectTo(link->port());
  FileDescriptor accepted = server.Accept();
  // More than all buffers hold: the writers must wait for the readers.
  const std::string up = Bytes(20 << 20);
  const std::string down = Bytes(3);
  std::thread writer([&] {
    SendAll(client, up);
    shutdown(client.get(), SHUT_WR);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LT(link->passed(Way::kUp), up.size());
  EXPECT_TRUE(ReadAll(accepted) == up);
  // One way has ended; the other has not.
  SendAll(accepted, down);
  shutdown(accepted.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(client), down);
  writer.join();
  EXPECT_EQ(link->passed(Way::kUp), up.size());
  EXPECT_EQ(link->passed(Way::kDown), down.size());
  EXPECT_EQ(link->passed_before_cut(), std::nullopt);
}

TEST(LinkEmulatorTest, ACutLetsItsBytesPassAndBreaksWhatBringsOneMore) {
  for (const Way way : {Way::kUp, Way::kDown}) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{1000}, size_t{100000}}) {
      Server server;
      const auto link =
          OrDie(LinkEmulator::Start({.server_port = server.port(), .cut = {{way, bytes}}}));
      FileDescriptor client = ConnectTo(link->port());
      FileDescriptor accepted = server.Accept();
      const FileDescriptor& from = way == Way::kUp ? client : accepted;
      const FileDescriptor& to = way == Way::kUp ? accepted : client;
      const std::string sent = Bytes(bytes + 1);
      std::thread writer([&] {
        SendAll(from, sent.substr(0, bytes));
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_EQ(link->passed_before_cut(), std::nullopt);
        SendAll(from, sent.substr(bytes));
      });
      EXPECT_EQ(ReadAll(to), sent.substr(0, bytes));
      writer.join();
      EXPECT_EQ(ReadAll(from), "");  // it has broken for the writer, too
      EXPECT_EQ(link->passed_before_cut(), sent.substr(0, bytes));

      // The next one is whole.
      FileDescriptor again = ConnectTo(link->port());
      FileDescriptor accepted_again = server.Accept();
      SendAll(again, sent + sent);
      shutdown(again.get(), SHUT_WR);
      EXPECT_EQ(ReadAll(accepted_again), sent + sent);
    }
  }
}

TEST(LinkEmulatorTest, BytesArriveADelayAfterTheyCame) {
  constexpr Duration kDelay = std::chrono::milliseconds(40);
  Server server;
  const auto link = OrDie(LinkEmulator::Start({.server_port = server.port(), .delay = kDelay}));
  FileDescriptor client = ConnectTo(link->port());
  FileDescriptor accepted = server.Accept();
  const MonotonicTime begin = RealClock().Now();
  std::thread echo([&] {
    SendAll(accepted, ReadAll(accepted));
    shutdown(accepted.get(), SHUT_WR);
  });
  SendAll(client, Bytes(1000));
  shutdown(client.get(), SHUT_WR);
  EXPECT_EQ(ReadAll(client), Bytes(1000));
  const Duration took = RealClock().Now() - begin;
  echo.join();
  EXPECT_GE(took, 2 * kDelay);
  EXPECT_LT(took, 20 * kDelay);  // of a busy machine
}

TEST(LinkEmulatorTest, WhereNobodyListensConnectionsEnd) {
  uint16_t port;
  {
    const Server gone;
    port = gone.port();
  }
  const auto link = OrDie(LinkEmulator::Start({.server_port = port}));
  EXPECT_EQ(ReadAll(ConnectTo(link->port())), "");
}

}  // namespace
}  // namespace outrider
