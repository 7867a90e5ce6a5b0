#include "server/front_door.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "server/listening_sockets.h"
#include "server/security/origin.h"

namespace outrider {
namespace {

// What a process has open besides connections: the model, its caches, logs, the operators' port.
constexpr rlim_t kOtherDescriptors = 256;
constexpr rlim_t kDescriptorsPerConnection = 2;
// A connection on which something has come is not looked at again before that, nor is a socket that
// listens where there is room for nobody.
constexpr std::chrono::milliseconds kTick(20);
constexpr std::chrono::seconds kBetweenSweeps(1);  // of origins that nothing is remembered of
// Of what an address may begin in a second it begins this part at once, and the rest evenly: what
// comes with connections, and what is to be done when all of them break at once, is many calls.
constexpr double kConnectsAtOnce = 1.0 / 16;
// Of what a connection may send a second besides messages (--overhead-bytes, which is the flag of all
// of these), so many times that at once, and messages that nobody has read yet: of a stranger one,
// which may come before his call is looked at.
constexpr int kAtOnceOfStrangers = 4;
constexpr int kMessagesOfStrangers = 1;
constexpr int kAtOnce = 16;
constexpr int kMessages = 4;
// Calls of an origin that are refused at once: hundreds of devices behind one address may all ask for
// sessions that a server does not know any more, or for more of them than an address may have. As many
// come back in a second as a connection has.
constexpr uint32_t kRefusedAtOnce = 256;

// What an event is of: sockets that listen have the lowest numbers, connections those above.
constexpr uint64_t kStop = 0;
constexpr uint64_t kFirstSocket = 1;
constexpr uint64_t kFirstConnection = uint64_t{1} << 16;

// Once.
void Watch(int events, int operation, int descriptor, uint64_t number) {
  epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = number}};
  OUTRIDER_CHECK(epoll_ctl(events, operation, descriptor, &event) == 0,
                 "what is open can be watched");
}

// All that has come, whether or not it has been read.
uint64_t BytesReceived(int socket) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
  return info.tcpi_bytes_received;
}

bool IsShortOfSomething(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
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
  {
    MutexLock lock(mu_);
    is_closing_ = true;
    entering_changed_.NotifyAll();
  }
  usher_.join();  // while those who would never let it go are still hung up on
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void FrontDoor::Open(const Limits& limits, std::function<void(int descriptor)> let_in,
                     ConnectionBook& book, EntranceLog& entrance) {
  limits_ = limits;
  let_in_ = std::move(let_in);
  book_ = &book;
  entrance_ = &entrance;
  Watch(events_.get(), EPOLL_CTL_ADD, stop_.get(), kStop);
  for (size_t i = 0; i < sockets_.size(); ++i) {
    Watch(events_.get(), EPOLL_CTL_ADD, sockets_[i].get(), kFirstSocket + i);
  }
  thread_ = std::thread([this] { Run(); });
  usher_ = std::thread([this] { HandOver(); });
}

void FrontDoor::Run() {
  while (Await()) {
  }
  while (!connections_.empty()) Leave(connections_.begin()->first);
  waiting_.clear();
  entrance_->SetConnectionCount(0);
}

// Those who leave make room for those who come.
bool FrontDoor::Await() {
  std::array<epoll_event, 64> events;
  const bool is_idle = resting_.empty() && waiting_.empty();
  const int count = epoll_wait(events_.get(), events.data(), events.size(),
                               is_idle ? -1 : static_cast<int>(kTick.count()));
  now_ = RealClock().Now();
  const auto happened = std::span(events).first(static_cast<size_t>(std::max(0, count)));
  for (const bool is_of_connection : {true, false}) {
    for (const epoll_event& event : happened) {
      if (event.data.u64 == kStop) return false;
      if ((event.data.u64 >= kFirstConnection) == is_of_connection) {
        Happened(event.data.u64, event.events);
      }
    }
  }
  if (now_ >= next_tick_) Tick();
  entrance_->SetConnectionCount(connections_.size() + waiting_.size());
  return true;
}

void FrontDoor::Tick() {
  next_tick_ = now_ + kTick;
  for (const uint64_t number : std::exchange(resting_, {})) WatchAgain(number);
  for (auto next = waiting_.begin(); next != waiting_.end();) {
    const auto connection = next++;
    if (!MayEnter(*connection)) continue;
    Enter(std::move(*connection));
    waiting_.erase(connection);
  }
  if (now_ < next_sweep_) return;
  next_sweep_ = now_ + kBetweenSweeps;
  std::erase_if(origins_, [this](const auto& entry) {
    const Origin& origin = entry.second;
    return origin.connection_count == 0 &&
           origin.connects.used(limits_.connects_per_second, now_) == 0 &&
           origin.refused.used(RefusedPerSecond(), now_) == 0;
  });
}

void FrontDoor::Happened(uint64_t number, uint32_t what) {
  if (number < kFirstConnection) {
    if (AcceptSome(sockets_[number - kFirstSocket].get())) return WatchAgain(number);
  } else {
    // Of one that gRPC has had enough of, too: else he would come again at once.
    Connection& connection = connections_.at(number);
    if (IsTooMuch(connection) && !connection.is_hung_up) HangUpOn(connection);
    if ((what & (EPOLLHUP | EPOLLERR)) != 0) return Leave(number);
  }
  resting_.push_back(number);
}

void FrontDoor::WatchAgain(uint64_t number) {
  const auto connection = connections_.find(number);
  if (number >= kFirstConnection && connection == connections_.end()) return;  // has left since
  const FileDescriptor& descriptor =
      number < kFirstConnection ? sockets_[number - kFirstSocket] : connection->second.socket;
  Watch(events_.get(), EPOLL_CTL_MOD, descriptor.get(), number);
}

// --- who comes ---

// Not for ever, lest a flood keep it from those who leave.
bool FrontDoor::AcceptSome(int socket) {
  constexpr int kAtATime = 64;
  for (int i = 0; i < kAtATime; ++i) {
    sockaddr_storage address{};
    socklen_t size = sizeof(address);
    FileDescriptor accepted(accept4(socket, reinterpret_cast<sockaddr*>(&address), &size,
                                    SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!accepted.is_open()) {
      if (errno == ECONNABORTED || errno == EINTR) continue;
      if (!IsShortOfSomething(errno)) return true;
      entrance_->Refused(Refusal::kDescriptors, "", "", std::strerror(errno));
      return false;
    }
    Connection connection = {std::move(accepted), OriginOf(address), PeerOf(address)};
    if (!HasRoom(connection.origin)) return false;
    if (!HasRoomFor(connection.origin)) continue;  // others' connections wait behind it
    ++origins_[connection.origin].connection_count;
    if (waiting_.empty() && MayEnter(connection)) {
      Enter(std::move(connection));
    } else {
      waiting_.push_back(std::move(connection));
    }
  }
  return true;
}

bool FrontDoor::HasRoom(const std::string& origin) {
  if (connections_.size() + waiting_.size() < limits_.connection_count_max) return true;
  entrance_->Refused(Refusal::kConnections, "", origin);
  return false;
}

bool FrontDoor::HasRoomFor(const std::string& origin) {
  const auto found = origins_.find(origin);
  if (found == origins_.end() ||
      found->second.connection_count < limits_.connection_count_of_origin_max) {
    return true;
  }
  entrance_->Refused(Refusal::kConnectionsOfAddress, "", origin);
  return false;
}

bool FrontDoor::MayEnter(const Connection& connection) const {
  const Budget& connects = origins_.at(connection.origin).connects;
  return connects.used(limits_.connects_per_second, now_) + 1 <= ConnectsAtOnce();
}

double FrontDoor::ConnectsAtOnce() const {
  return std::max(1.0, kConnectsAtOnce * limits_.connects_per_second);
}

// What is watched is watched before it is handed over: nothing that happens is missed.
void FrontDoor::Enter(Connection connection) {
  const int yes = 1;
  setsockopt(connection.socket.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  origins_.at(connection.origin).connects.Use(1, limits_.connects_per_second, now_);
  FileDescriptor theirs(fcntl(connection.socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!theirs.is_open()) {
    entrance_->Refused(Refusal::kDescriptors, "", connection.origin, std::strerror(errno));
    --origins_.at(connection.origin).connection_count;
    return;
  }
  const uint64_t number = kFirstConnection + last_number_++;
  Watch(events_.get(), EPOLL_CTL_ADD, connection.socket.get(), number);
  connection.entry = book_->Add(connection.peer);
  connections_.emplace(number, std::move(connection));
  MutexLock lock(mu_);
  entering_.push_back(std::move(theirs));
  entering_changed_.NotifyAll();
}

void FrontDoor::HandOver() {
  for (;;) {
    FileDescriptor next;
    {
      MutexLock lock(mu_);
      while (entering_.empty() && !is_closing_) entering_changed_.Wait(mu_);
      if (is_closing_) return;
      next = std::move(entering_.front());
      entering_.pop_front();
    }
    let_in_(next.Release());
  }
}

// --- who is there ---

// Both are counted, whatever comes of the other.
bool FrontDoor::IsTooMuch(Connection& connection) {
  const bool sends_too_much = SendsTooMuch(connection);
  return IsRefusedTooOften(connection) || sends_too_much;
}

// What is explained is asked for first: a message that comes meanwhile has come, and is not.
bool FrontDoor::SendsTooMuch(Connection& connection) const {
  const int64_t explained = connection.entry->explained();
  const int64_t overhead = static_cast<int64_t>(BytesReceived(connection.socket.get())) - explained;
  const auto per_second = static_cast<double>(limits_.overhead_bytes_per_second);
  const auto more = static_cast<double>(overhead - connection.overhead_before);
  connection.overhead_before = overhead;
  connection.overhead.Use(more, per_second, now_);
  const bool is_stranger = !connection.entry->was_let_in();
  const double at_once =
      (is_stranger ? kAtOnceOfStrangers : kAtOnce) * per_second +
      (is_stranger ? kMessagesOfStrangers : kMessages) * static_cast<double>(limits_.message_bytes);
  return connection.overhead.used(per_second, now_) > at_once;
}

bool FrontDoor::IsRefusedTooOften(Connection& connection) {
  const uint32_t refused = connection.entry->refused();
  const uint32_t more = refused - std::exchange(connection.refused_before, refused);
  Budget& of_origin = origins_.at(connection.origin).refused;
  of_origin.Use(more, RefusedPerSecond(), now_);
  return more > 0 && of_origin.used(RefusedPerSecond(), now_) > kRefusedAtOnce;
}

double FrontDoor::RefusedPerSecond() const {
  return static_cast<double>(limits_.overhead_bytes_per_second) / ConnectionBook::Entry::kRefused;
}

// gRPC is told as if he had hung up. He comes again, but not at once.
void FrontDoor::HangUpOn(Connection& connection) {
  connection.is_hung_up = true;
  entrance_->Refused(Refusal::kTraffic, "", connection.origin);
  const double per_second = limits_.connects_per_second;
  const double seconds = std::chrono::duration<double>(limits_.shut_out).count();
  Budget& connects = origins_.at(connection.origin).connects;
  connects.Use(ConnectsAtOnce() + per_second * seconds - connects.used(per_second, now_),
               per_second, now_);
  shutdown(connection.socket.get(), SHUT_RDWR);
}

void FrontDoor::Leave(uint64_t number) {
  const auto connection = connections_.find(number);
  const std::string origin = connection->second.origin;
  book_->Remove(connection->second.peer, connection->second.entry);
  // Not with the descriptor alone: of the socket gRPC may still have another.
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, connection->second.socket.get(), nullptr);
  connections_.erase(connection);
  --origins_.at(origin).connection_count;
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
