#include "bench/emulators/link_emulator.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kBufferBytes = 1 << 16;

sockaddr_in Loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

FileDescriptor NewSocket() {
  return FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

// Small messages must not wait for one another.
void SendAtOnce(const FileDescriptor& socket) {
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
}

bool CanComeLater(int error_number) {
  return error_number == EAGAIN || error_number == EWOULDBLOCK || error_number == EINTR;
}

}  // namespace

// One way of a connection.
class LinkEmulator::Flow {
 public:
  Flow(LinkEmulator& link, Way way, const FileDescriptor& from, const FileDescriptor& to)
      : link_(link), way_(way), from_(from.get()), to_(to.get()) {}

  bool wants_bytes() const { return waiting_.empty() && !ended_; }
  bool wants_room() const { return !waiting_.empty(); }
  bool ended() const { return ended_; }

  // Moves what moves without waiting. False: the connection is broken.
  bool Move() {
    if (wants_bytes() && !Receive()) return false;
    return Deliver();
  }

 private:
  bool Receive() {
    buffer_.resize(kBufferBytes);
    const ssize_t count = recv(from_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (count < 0) return CanComeLater(errno);
    if (count == 0) {
      ended_ = true;
      return shutdown(to_, SHUT_WR) == 0;
    }
    const std::string_view bytes(buffer_.data(), static_cast<size_t>(count));
    waiting_ = bytes.substr(0, link_.Admit(way_, bytes));
    breaks_after_ = waiting_.size() < bytes.size();
    return true;
  }

  bool Deliver() {
    while (!waiting_.empty()) {
      const ssize_t count =
          send(to_, waiting_.data(), waiting_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0) return CanComeLater(errno);
      waiting_.remove_prefix(static_cast<size_t>(count));
    }
    return !breaks_after_;
  }

  LinkEmulator& link_;
  const Way way_;
  const int from_;
  const int to_;
  std::string buffer_;
  std::string_view waiting_;  // of the buffer, received and not yet sent
  bool breaks_after_ = false;
  bool ended_ = false;
};

struct LinkEmulator::Connection {
  Connection(LinkEmulator& link, FileDescriptor client_end, FileDescriptor server_end)
      : client(std::move(client_end)),
        server(std::move(server_end)),
        up(link, Way::kUp, client, server),
        down(link, Way::kDown, server, client) {}

  // False: it is over.
  bool Move() { return up.Move() && down.Move() && !(up.ended() && down.ended()); }

  static pollfd Awaited(const FileDescriptor& socket, const Flow& out, const Flow& in) {
    const int events = (out.wants_bytes() ? POLLIN : 0) | (in.wants_room() ? POLLOUT : 0);
    return {events != 0 ? socket.get() : -1, static_cast<short>(events), 0};
  }

  const FileDescriptor client;
  const FileDescriptor server;
  Flow up;
  Flow down;
};

absl::StatusOr<std::unique_ptr<LinkEmulator>> LinkEmulator::Start(const Options& options) {
  FileDescriptor listener = NewSocket();
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC));
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.is_open() || !stop.is_open() || bind(listener.get(), generic, length) != 0 ||
      listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), generic, &length) != 0) {
    return ErrnoStatus(errno, "cannot listen on a port of 127.0.0.1");
  }
  return std::unique_ptr<LinkEmulator>(
      new LinkEmulator(options, std::move(listener), std::move(stop), ntohs(address.sin_port)));
}

LinkEmulator::LinkEmulator(const Options& options, FileDescriptor listener, FileDescriptor stop,
                           uint16_t port)
    : options_(options),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      port_(port),
      thread_([this] { Run(); }) {}

LinkEmulator::~LinkEmulator() {
  OUTRIDER_CHECK(eventfd_write(stop_.get(), 1) == 0, "a counter at zero can be raised");
  thread_.join();
}

uint64_t LinkEmulator::passed(Way way) const {
  MutexLock lock(mu_);
  return passed_[static_cast<size_t>(way)];
}

std::optional<std::string> LinkEmulator::passed_before_cut() const {
  MutexLock lock(mu_);
  return has_cut_ ? std::optional(before_cut_) : std::nullopt;
}

// How many of them may pass.
size_t LinkEmulator::Admit(Way way, std::string_view bytes) {
  MutexLock lock(mu_);
  uint64_t& passed = passed_[static_cast<size_t>(way)];
  if (options_.cut && options_.cut->way == way && !has_cut_) {
    const std::string_view admitted = bytes.substr(0, options_.cut->bytes - passed);
    has_cut_ = admitted.size() < bytes.size();
    before_cut_ += admitted;
    bytes = admitted;
  }
  passed += bytes.size();
  return bytes.size();
}

// --- its thread ---

void LinkEmulator::Run() {
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<pollfd> awaited;
  for (;;) {
    awaited = {{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    for (const auto& connection : connections) {
      const auto& [client, server, up, down] = *connection;
      awaited.push_back(Connection::Awaited(client, up, down));
      awaited.push_back(Connection::Awaited(server, down, up));
    }
    if (poll(awaited.data(), awaited.size(), /*timeout=*/-1) < 0) continue;  // a signal
    if (awaited[0].revents != 0) return;
    std::erase_if(connections, [](const auto& connection) { return !connection->Move(); });
    if (awaited[1].revents == 0) continue;
    if (auto connection = Accept()) connections.push_back(std::move(connection));
  }
}

// None where there is no server: what has come is turned away.
std::unique_ptr<LinkEmulator::Connection> LinkEmulator::Accept() {
  FileDescriptor client(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  FileDescriptor server = NewSocket();
  const sockaddr_in address = Loopback(options_.server_port);
  if (!client.is_open() || !server.is_open() ||
      connect(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return nullptr;
  }
  SendAtOnce(client);
  SendAtOnce(server);
  return std::make_unique<Connection>(*this, std::move(client), std::move(server));
}

}  // namespace outrider
