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
#include <chrono>
#include <ctime>
#include <deque>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kReadBytes = 1 << 16;
constexpr size_t kUnderWayMax = 1 << 20;

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

// Until a socket is ready, or `until`, or for no reason at all.
void Await(std::vector<pollfd>& sockets, std::optional<MonotonicTime> until) {
  timespec left = {};
  if (until) {
    const Duration wait = std::max(*until - RealClock().Now(), Duration(0));
    const auto nanoseconds = std::chrono::nanoseconds(wait).count();
    left = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  }
  if (ppoll(sockets.data(), sockets.size(), until ? &left : nullptr, nullptr) >= 0) return;
  for (pollfd& socket : sockets) socket.revents = 0;
}

}  // namespace

// One way of a connection.
class LinkEmulator::Flow {
 public:
  Flow(LinkEmulator& link, Way way, const FileDescriptor& from, const FileDescriptor& to)
      : link_(link), way_(way), from_(from.get()), to_(to.get()) {}

  // Moves what moves without waiting. False: the connection is broken.
  bool Move(MonotonicTime now) {
    if (wants_bytes() && !Receive(now)) return false;
    return Deliver(now);
  }

  bool wants_bytes() const { return !has_last_ && bytes_under_way_ < kUnderWayMax; }
  bool wants_room() const { return wants_room_; }
  bool ended() const { return has_last_ && under_way_.empty(); }
  // When something under way arrives by itself.
  std::optional<MonotonicTime> next_arrival() const {
    if (under_way_.empty() || wants_room_) return std::nullopt;
    return under_way_.front().due;
  }

 private:
  struct Packet {
    enum class Then { kMore, kEnd, kBreak };
    MonotonicTime due;
    std::string bytes;
    Then then = Then::kMore;
  };

  bool Receive(MonotonicTime now) {
    char buffer[kReadBytes];
    const ssize_t count = recv(from_, buffer, sizeof(buffer), MSG_DONTWAIT);
    if (count < 0) return CanComeLater(errno);
    const std::string_view bytes(buffer, static_cast<size_t>(count));
    Packet packet = {now + link_.options_.delay, std::string(bytes, 0, link_.Admit(way_, bytes))};
    if (packet.bytes.size() < bytes.size()) packet.then = Packet::Then::kBreak;
    if (count == 0) packet.then = Packet::Then::kEnd;
    has_last_ = packet.then != Packet::Then::kMore;
    bytes_under_way_ += packet.bytes.size();
    under_way_.push_back(std::move(packet));
    return true;
  }

  bool Deliver(MonotonicTime now) {
    while (!under_way_.empty() && under_way_.front().due <= now) {
      Packet& packet = under_way_.front();
      const ssize_t count =
          send(to_, packet.bytes.data(), packet.bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count < 0 && !CanComeLater(errno)) return false;
      const auto sent = static_cast<size_t>(std::max<ssize_t>(count, 0));
      bytes_under_way_ -= sent;
      wants_room_ = sent < packet.bytes.size();
      packet.bytes.erase(0, sent);
      if (wants_room_) return true;
      if (packet.then == Packet::Then::kBreak) return false;
      if (packet.then == Packet::Then::kEnd && shutdown(to_, SHUT_WR) != 0) return false;
      under_way_.pop_front();
    }
    return true;
  }

  LinkEmulator& link_;
  const Way way_;
  const int from_;
  const int to_;
  std::deque<Packet> under_way_;
  size_t bytes_under_way_ = 0;
  bool has_last_ = false;    // nothing is received after it
  bool wants_room_ = false;  // what has arrived is not taken
};

struct LinkEmulator::Connection {
  Connection(LinkEmulator& link, FileDescriptor client_end, FileDescriptor server_end)
      : client(std::move(client_end)),
        server(std::move(server_end)),
        up(link, Way::kUp, client, server),
        down(link, Way::kDown, server, client) {}

  // False: it is over.
  bool Move(MonotonicTime now) {
    return up.Move(now) && down.Move(now) && !(up.ended() && down.ended());
  }

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
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC)), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sockaddr_in address = Loopback(0);
  socklen_t length = sizeof(address);
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (!listener.is_open() || !stop.is_open() || !wake.is_open() ||
      bind(listener.get(), generic, length) != 0 || listen(listener.get(), SOMAXCONN) != 0 ||
      getsockname(listener.get(), generic, &length) != 0) {
    return ErrnoStatus(errno, "cannot listen on a port of 127.0.0.1");
  }
  return std::unique_ptr<LinkEmulator>(new LinkEmulator(
      options, std::move(listener), std::move(stop), std::move(wake), ntohs(address.sin_port)));
}

LinkEmulator::LinkEmulator(const Options& options, FileDescriptor listener, FileDescriptor stop,
                           FileDescriptor wake, uint16_t port)
    : options_(options),
      listener_(std::move(listener)),
      stop_(std::move(stop)),
      wake_(std::move(wake)),
      port_(port),
      thread_([this] { Run(); }) {}

LinkEmulator::~LinkEmulator() {
  OUTRIDER_CHECK(eventfd_write(stop_.get(), 1) == 0, "a counter at zero can be raised");
  thread_.join();
}

void LinkEmulator::Set(State state) {
  {
    MutexLock lock(mu_);
    state_ = state;
  }
  OUTRIDER_CHECK(eventfd_write(wake_.get(), 1) == 0, "a counter can be raised");
}

LinkEmulator::State LinkEmulator::state() const {
  MutexLock lock(mu_);
  return state_;
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
    const bool is_silent = state() == State::kSilent;
    awaited = {{stop_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::optional<MonotonicTime> arrival;
    for (const auto& connection : connections) {
      if (is_silent) break;
      const auto& [client, server, up, down] = *connection;
      awaited.push_back(Connection::Awaited(client, up, down));
      awaited.push_back(Connection::Awaited(server, down, up));
      for (const auto due : {up.next_arrival(), down.next_arrival()}) {
        if (due) arrival = std::min(arrival.value_or(*due), *due);
      }
    }
    Await(awaited, arrival);
    if (awaited[0].revents != 0) return;
    eventfd_t ignored;
    if (awaited[1].revents != 0) eventfd_read(wake_.get(), &ignored);
    const State now_is = state();
    if (now_is == State::kBroken) connections.clear();
    const MonotonicTime now = RealClock().Now();
    if (now_is != State::kSilent) {
      std::erase_if(connections, [&](const auto& connection) { return !connection->Move(now); });
    }
    if (awaited[2].revents == 0) continue;
    auto connection = Accept();
    if (connection && now_is != State::kBroken) connections.push_back(std::move(connection));
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
