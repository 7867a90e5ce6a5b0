// The sockets that devices connect to; how many connections there may be, in all and from one
// address; how many of that may begin a second; and what one may send besides messages.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FrontDoor> door, FrontDoor::Listen(where));
//   door->Open(limits, [&](int descriptor) { ... it is gRPC's now ... }, book, entrance);
//
// A port of gRPC's own takes whoever comes, counts nobody, and when there is no descriptor left for
// one of them it never accepts another. So they are accepted here, and whom there is no room for is
// hung up on at once, before anything is spent on him. gRPC does not say when a connection is over;
// but it shuts a socket down before it closes it, and a descriptor of the same socket that stays
// here is told of that.
//
// gRPC keeps what it is sent before it knows whose it is: headers without an end, calls that are
// reset as soon as they are made, answers to pings. So that descriptor is also asked how much has
// come, and whoever sends more than a library would besides the messages of his calls
// (connection_book.h) is hung up on, TLS or not. So is he who has one call after the other refused, on
// however many connections, each of which is over before it has sent too much. Who begins connections
// faster than he may is accepted, and waits.
//
// Memory:  per connection two descriptors and an entry.
// Threads: two of its own, from Open() until it goes: gRPC has whoever hands it a connection do its
//          work, and read for as long as something comes, so the one that watches hands over none.
// Errors:  Unavailable when the address cannot be had.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/base/network_address.h"
#include "server/budget.h"
#include "server/connection_book.h"
#include "server/operations/entrance_log.h"

namespace outrider {

class FrontDoor {
 public:
  struct Limits {
    uint32_t connection_count_max;
    uint32_t connection_count_of_origin_max;  // origin.h
    uint32_t connects_per_second;             // of an origin, evenly
    // Of a connection, besides messages that are read: four times as many at once and a message,
    // sixteen times and four messages where a call was let in.
    uint64_t overhead_bytes_per_second;
    // Who was hung up on for it begins no connection for so long, nor does anybody at his address.
    Duration shut_out;
    uint64_t message_bytes = 0;  // of one at the most
  };

  // At all that the host's name stands for; port 0 is any free one. Nobody is accepted yet.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Listen(const NetworkAddress& where);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  uint16_t port() const { return port_; }

  // Once. `let_in` is called on a thread of its own, and closes what it is given. The book and the
  // log outlive the door.
  void Open(const Limits& limits, std::function<void(int descriptor)> let_in, ConnectionBook& book,
            EntranceLog& entrance);

 private:
  struct Connection {
    FileDescriptor socket;
    std::string origin;
    std::string peer;
    std::shared_ptr<ConnectionBook::Entry> entry = {};  // once gRPC has it
    Budget overhead = {};
    int64_t overhead_before = 0;  // bytes, when it was last looked at
    uint32_t refused_before = 0;  // calls, then
    bool is_hung_up = false;      // by us
  };
  struct Origin {
    uint32_t connection_count = 0;
    Budget connects = {};
    Budget refused = {};  // calls
  };

  FrontDoor(std::vector<FileDescriptor> sockets, uint16_t port);

  void Run();
  bool Await();  // false: it is to stop
  void Tick();
  void Happened(uint64_t number, uint32_t what);
  bool AcceptSome(int socket);              // false: there is room for nobody
  bool HasRoom(const std::string& origin);  // who comes from there is told of if not
  bool HasRoomFor(const std::string& origin);
  bool MayEnter(const Connection& connection) const;
  double ConnectsAtOnce() const;
  void Enter(Connection connection);
  bool IsTooMuch(Connection& connection);
  bool SendsTooMuch(Connection& connection) const;
  bool IsRefusedTooOften(Connection& connection);
  double RefusedPerSecond() const;
  void HangUpOn(Connection& connection);
  void Leave(uint64_t number);
  void WatchAgain(uint64_t number);
  void HandOver();

  const std::vector<FileDescriptor> sockets_;  // that listen
  const uint16_t port_;
  const FileDescriptor events_;  // epoll's
  const FileDescriptor stop_;    // an eventfd
  Limits limits_{};
  std::function<void(int)> let_in_;
  ConnectionBook* book_ = nullptr;
  EntranceLog* entrance_ = nullptr;

  // Of the thread that watches only.
  std::map<uint64_t, Connection> connections_;  // that gRPC has
  std::list<Connection> waiting_;               // in the order they came
  std::map<std::string, Origin> origins_;       // of both, and those that began some just now
  std::vector<uint64_t> resting_;               // not watched until the next tick
  MonotonicTime next_tick_{};
  MonotonicTime next_sweep_{};
  MonotonicTime now_{};
  uint64_t last_number_ = 0;

  Mutex mu_;
  CondVar entering_changed_;
  std::deque<FileDescriptor> entering_ ABSL_GUARDED_BY(mu_);
  bool is_closing_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // last: these start when all above exists
  std::thread usher_;
};

// As many connections as there are to be, or fewer where this process may not have descriptors for
// so many; it may have all that the system lets it have from here on.
uint32_t ConnectionsThatFit(uint32_t wanted);

}  // namespace outrider
