#include "server/front_door.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "server/listening_sockets.h"
#include "server/security/origin.h"

namespace outrider {
namespace {

// What a process has open besides connections: the model, its caches, logs, the operators' port.
constexpr rlim_t kOtherDescriptors = 256;
constexpr rlim_t kDescriptorsPerConnection = 2;
// When the system has no descriptor or memory for another connection.
constexpr std::chrono::milliseconds kShortOfDescriptors(50);

// What an event is of: sockets that listen have the lowest numbers, connections those above.
constexpr uint64_t kStop = 0;
constexpr uint64_t kFirstSocket = 1;
constexpr uint64_t kFirstConnection = uint64_t{1} << 16;

void Watch(int events, int descriptor, uint64_t number, uint32_t what) {
  epoll_event event = {.events = what, .data = {.u64 = number}};
  OUTRIDER_CHECK(epoll_ctl(events, EPOLL_CTL_ADD, descriptor, &event) == 0,
                 "what is open can be watched");
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::Listen(const NetworkAddress& where) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<FileDescriptor> sockets, ListenOn(where, "--listen"));
  const uint16_t port = PortOf(sockets.front());
  return std::unique_ptr<FrontDoor>(new FrontDoor(std::move(sockets), port));
}

FrontDoor::FrontDoor(std::vector<FileDescriptor> sockets, uint16_t port)
    : sockets_(std::move(sockets)),
      port_(port),
      events_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC)) {
  OUTRIDER_CHECK(events_.is_open() && stop_.is_open(), "a process that starts has descriptors");
}

FrontDoor::~FrontDoor() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void FrontDoor::Open(const Limits& limits, std::function<void(int descriptor)> let_in,
                     EntranceLog& entrance) {
  limits_ = limits;
  let_in_ = std::move(let_in);
  entrance_ = &entrance;
  Watch(events_.get(), stop_.get(), kStop, EPOLLIN);
  for (size_t i = 0; i < sockets_.size(); ++i) {
    Watch(events_.get(), sockets_[i].get(), kFirstSocket + i, EPOLLIN);
  }
  thread_ = std::thread([this] { Run(); });
}

void FrontDoor::Run() {
  while (Await()) {
  }
  connections_.clear();
  entrance_->SetConnectionCount(0);
}

// Those who leave make room for those who come.
bool FrontDoor::Await() {
  std::array<epoll_event, 64> events;
  const int count = epoll_wait(events_.get(), events.data(), events.size(), /*timeout=*/-1);
  const auto happened = std::span(events).first(static_cast<size_t>(std::max(0, count)));
  for (const epoll_event& event : happened) {
    if (event.data.u64 == kStop) return false;
    if (event.data.u64 >= kFirstConnection) Leave(event.data.u64);
  }
  for (const epoll_event& event : happened) {
    if (event.data.u64 >= kFirstConnection) continue;
    AcceptAll(sockets_[event.data.u64 - kFirstSocket].get());
  }
  entrance_->SetConnectionCount(connections_.size());
  return true;
}

// Not for ever, lest a flood keep it from those who leave.
void FrontDoor::AcceptAll(int socket) {
  constexpr int kAtOnce = 64;
  for (int i = 0; i < kAtOnce; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    FileDescriptor accepted(accept4(socket, reinterpret_cast<sockaddr*>(&address), &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted.is_open()) {
      const bool is_short =
          errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (is_short) std::this_thread::sleep_for(kShortOfDescriptors);
      if (errno == ECONNABORTED || errno == EINTR) continue;
      return;
    }
    std::string origin = OriginOf(address);
    if (MayEnter(origin)) Enter(std::move(accepted), std::move(origin));
  }
}

bool FrontDoor::MayEnter(const std::string& origin) {
  if (connections_.size() >= limits_.connection_count_max) {
    entrance_->Refused(Refusal::kConnections, "", origin);
    return false;
  }
  const auto found = count_of_origin_.find(origin);
  if (found != count_of_origin_.end() && found->second >= limits_.connection_count_of_origin_max) {
    entrance_->Refused(Refusal::kConnectionsOfAddress, "", origin);
    return false;
  }
  return true;
}

// What is watched is watched before it is handed over: nothing that happens is missed.
void FrontDoor::Enter(FileDescriptor socket, std::string origin) {
  const int yes = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  const int theirs = fcntl(socket.get(), F_DUPFD_CLOEXEC, 0);
  if (theirs < 0) return;
  const uint64_t number = kFirstConnection + last_number_++;
  Watch(events_.get(), socket.get(), number, 0);  // of a hang-up one is told anyway
  ++count_of_origin_[origin];
  connections_.emplace(number, Connection{std::move(socket), std::move(origin)});
  let_in_(theirs);
}

void FrontDoor::Leave(uint64_t number) {
  const auto connection = connections_.find(number);
  const auto origin = count_of_origin_.find(connection->second.origin);
  if (--origin->second == 0) count_of_origin_.erase(origin);
  // Not with the descriptor alone: of the socket gRPC may still have another.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, connection->second.socket.get(), nullptr);
  connections_.erase(connection);
}

uint32_t ConnectionsThatFit(uint32_t wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return wanted;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    getrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur == RLIM_INFINITY) return wanted;
  const rlim_t left = limit.rlim_cur > kOtherDescriptors ? limit.rlim_cur - kOtherDescriptors : 0;
  const rlim_t fit = std::max<rlim_t>(1, left / kDescriptorsPerConnection);
  return static_cast<uint32_t>(std::min<rlim_t>(wanted, fit));
}

}  // namespace outrider
