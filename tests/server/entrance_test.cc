// Who is let in, who is not, and that operators see it and are seen to.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/file_descriptor.h"
#include "common/base/network_address.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "netinet/in.h"
#include "server/operations/admin_port.h"
#include "server/operations/entrance_log.h"
#include "server/operations/event_log.h"
#include "server/security/gatekeeper.h"
#include "server/security/origin.h"
#include "tests/base/scratch_dir.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// What a log has written.
class LogFile {
 public:
  std::string Text() {
    log_.Flush();
    std::rewind(file_);
    std::string text(1 << 20, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }
  EventLog& log() { return log_; }

 private:
  FILE* const file_ = std::tmpfile();
  EventLog log_{EventLog::Form::kText, fileno(file_)};
};

TEST(EntranceLog, CountsAFloodAndWritesALineOfIt) {
  LogFile file;
  EntranceLog entrance(file.log());
  for (int i = 0; i < 10'000; ++i) entrance.Refused(Refusal::kUnknownKey, "", "ipv4:192.0.2.7");
  entrance.Refused(Refusal::kStreamsOfKey, "robot-7", "");
  EXPECT_EQ(entrance.stats().refused[static_cast<size_t>(Refusal::kUnknownKey)], 10'000u);
  EXPECT_EQ(entrance.stats().refused[static_cast<size_t>(Refusal::kStreamsOfKey)], 1u);
  const std::string text = file.Text();
  EXPECT_LE(std::ranges::count(text, '\n'), 5) << "one a second for each reason";
  EXPECT_THAT(text, HasSubstr("refused reason=unknown_key origin=ipv4:192.0.2.7"));
  EXPECT_THAT(text, HasSubstr("reason=streams_of_key origin=\"\" key=robot-7 times=1"));
}

TEST(Origin, OfASocketIsThatOfItsPeersName) {
  sockaddr_storage four{};
  auto& four_in = reinterpret_cast<sockaddr_in&>(four);
  four_in.sin_family = AF_INET;
  four_in.sin_addr.s_addr = htonl(0xC0000207);
  EXPECT_EQ(OriginOf(four), OriginOf("ipv4:192.0.2.7:41234"));
  sockaddr_storage six{};
  auto& six_in = reinterpret_cast<sockaddr_in6&>(six);
  six_in.sin6_family = AF_INET6;
  six_in.sin6_addr.s6_addr[0] = 0x20;
  six_in.sin6_addr.s6_addr[1] = 0x01;
  six_in.sin6_addr.s6_addr[7] = 2;
  six_in.sin6_addr.s6_addr[15] = 9;
  EXPECT_EQ(OriginOf(six), OriginOf("ipv6:%5B2001:0:0:2::1%5D:1"));
  // IPv4 at a socket that hears of both.
  const uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 192, 0, 2, 7};
  std::copy(mapped, mapped + 16, six_in.sin6_addr.s6_addr);
  EXPECT_EQ(OriginOf(six), OriginOf(four));
}

// --- keys ---

class GatekeeperTest : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  ScratchDir dir_;
  const std::string path_ = dir_.File("keys");
};

// Else a stream that is opened just then would outlive its key.
TEST_F(GatekeeperTest, WhoIsToldOfIsToldOfBeforeHisKeyIsSaidToBeGone) {
  const std::string key = NewKey();
  Write(LineOf("robot", key));
  const auto gate = OrDie(Gatekeeper::Open(path_));
  Write(LineOf("other", NewKey()));
  std::vector<std::string> order;
  std::thread reloader;
  const absl::Status status = gate->LetIn("Bearer " + key, [&](const Gatekeeper::Caller& caller) {
    reloader = std::thread([&] {
      const std::vector<Keys::Key> gone = OrDie(gate->Reload());
      for (const Keys::Key& key_gone : gone) order.push_back("gone " + key_gone.identity());
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    order.push_back("told " + caller.identity);
  });
  reloader.join();
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(order.size(), 2u);
  EXPECT_THAT(order[0], HasSubstr("told robot/"));
  EXPECT_EQ(order[0].substr(5), order[1].substr(5)) << "it is that caller who is gone";
  EXPECT_FALSE(gate->LetIn("Bearer " + key, [](const Gatekeeper::Caller&) {}).ok());
}

TEST_F(GatekeeperTest, AnotherKeyOfTheSameNameIsAnotherCaller) {
  const std::string old_key = NewKey();
  const std::string new_key = NewKey();
  Write(LineOf("robot", old_key));
  const auto gate = OrDie(Gatekeeper::Open(path_));
  Write(LineOf("robot", new_key) + " streams=3");
  const std::vector<Keys::Key> revoked = OrDie(gate->Reload());
  ASSERT_EQ(revoked.size(), 1u);
  std::string identity;
  EXPECT_TRUE(gate->LetIn("Bearer " + new_key,
                          [&](const Gatekeeper::Caller& caller) {
                            identity = caller.identity;
                            EXPECT_EQ(caller.terms.streams_max, 3u);
                          })
                  .ok());
  EXPECT_NE(identity, revoked[0].identity());
  EXPECT_EQ(NameIn(identity), "robot");
  EXPECT_EQ(NameIn(revoked[0].identity()), "robot");
}

// --- the operators' port ---

class AdminTest : public testing::Test {
 protected:
  // A connection on which this has been said.
  FileDescriptor Say(const std::string& text) const {
    const NetworkAddress where = OrDie(NetworkAddress::Parse(port_->address()));
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(where.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(send(socket.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
    return socket;
  }

  // All that comes, until it is hung up on, or nothing has come for so long.
  static std::string Hear(const FileDescriptor& socket, int wait_ms) {
    std::string text;
    char bytes[4096];
    pollfd polled = {.fd = socket.get(), .events = POLLIN, .revents = 0};
    while (poll(&polled, 1, wait_ms) > 0) {
      const ssize_t count = recv(socket.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) return text + "|";
      text.append(bytes, static_cast<size_t>(count));
    }
    return text;
  }

  LogFile file_;
  EntranceLog entrance_{file_.log()};
  const std::unique_ptr<AdminPort> port_ = OrDie(AdminPort::Open("127.0.0.1:0", entrance_));
};

TEST_F(AdminTest, WhoeverIsSlowKeepsNobodyElseWaiting) {
  std::vector<FileDescriptor> slow;
  for (size_t i = 0; i < 3 * AdminPort::kConnectionsMax; ++i) slow.push_back(Say("GET /metr"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_THAT(Hear(Say("GET /health/live HTTP/1.1\r\n\r\n"), 3000), HasSubstr(" 200 OK"));
  }
  EXPECT_EQ(Hear(slow.front(), 3000), "|") << "the oldest make room";
  EXPECT_EQ(Hear(slow.back(), 1000 * (AdminPort::kSecondsMax + 3)), "|") << "its time is over";
}

TEST_F(AdminTest, AnswersInOneAndHangsUp) {
  EXPECT_THAT(
      Hear(Say("GET /health/ready HTTP/1.1\r\nHost: x\r\n\r\n"), 3000),
      testing::AllOf(HasSubstr(" 503 "), HasSubstr("Loading model"), testing::EndsWith("|")));
  EXPECT_THAT(Hear(Say("GET /metrics?a=b HTTP/1.1\r\n\r\n"), 3000), HasSubstr("outrider:ready 0"));
  EXPECT_THAT(Hear(Say("POST /metrics HTTP/1.1\r\n\r\n"), 3000), HasSubstr(" 404 "));
  EXPECT_THAT(Hear(Say("GET /" + std::string(9000, 'x')), 3000), HasSubstr(" 431 "));
}

}  // namespace
}  // namespace outrider
