// The sockets that devices connect to, and how many connections there may be: in all, and from one
// address.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FrontDoor> door, FrontDoor::Listen(where));
//   door->Open({.connection_count_max = 4096, .connection_count_of_origin_max = 256},
//              [&](int descriptor) { ... it is gRPC's now ... }, entrance);
//
// A port of gRPC's own takes whoever comes, counts nobody, and when there is no descriptor left for
// one of them it never accepts another. So they are accepted here, and whom there is no room for is
// hung up on at once, before anything is spent on him. gRPC does not say when a connection is over;
// but it shuts a socket down before it closes it, and a descriptor of the same socket that stays here
// is told of that.
//
// Memory:  per connection two descriptors and an entry.
// Threads: one of its own, from Open() until it goes.
// Errors:  Unavailable when the address cannot be had.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/network_address.h"
#include "server/operations/entrance_log.h"

namespace outrider {

class FrontDoor {
 public:
  struct Limits {
    uint32_t connection_count_max;
    uint32_t connection_count_of_origin_max;  // origin.h
  };

  // At all that the host's name stands for; port 0 is any free one. Nobody is accepted yet.
  static absl::StatusOr<std::unique_ptr<FrontDoor>> Listen(const NetworkAddress& where);
  ~FrontDoor();
  FrontDoor(const FrontDoor&) = delete;
  FrontDoor& operator=(const FrontDoor&) = delete;

  uint16_t port() const { return port_; }

  // Once. `let_in` is called on its thread, and closes what it is given.
  void Open(const Limits& limits, std::function<void(int descriptor)> let_in,
            EntranceLog& entrance);

 private:
  struct Connection {
    FileDescriptor socket;
    std::string origin;
  };

  FrontDoor(std::vector<FileDescriptor> sockets, uint16_t port);

  void Run();
  bool Await();  // false: it is to stop
  void AcceptAll(int socket);
  bool MayEnter(const std::string& origin);
  void Enter(FileDescriptor socket, std::string origin);
  void Leave(uint64_t number);

  const std::vector<FileDescriptor> sockets_;  // that listen
  const uint16_t port_;
  const FileDescriptor events_;  // epoll's
  const FileDescriptor stop_;    // an eventfd
  Limits limits_{};
  std::function<void(int)> let_in_;
  EntranceLog* entrance_ = nullptr;

  std::map<uint64_t, Connection> connections_;       // its thread only
  std::map<std::string, uint32_t> count_of_origin_;  // its thread only
  uint64_t last_number_ = 0;                         // its thread only
  std::thread thread_;                               // last: starts when all above exists
};

// As many connections as there are to be, or fewer where this process may not have descriptors for
// so many; it may have all that the system lets it have from here on.
uint32_t ConnectionsThatFit(uint32_t wanted);

}  // namespace outrider
