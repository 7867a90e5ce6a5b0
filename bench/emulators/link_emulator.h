// A network between two programs on this machine: a proxy, to which the client connects in place of
// the server.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LinkEmulator> link,
//                             LinkEmulator::Start({.server_port = 7373}));
//   ... connect to 127.0.0.1:link->port() ...
//
// Bytes arrive a delay after they came, both ways; connections are made at once. A cut counts the
// bytes of one way, of all connections together: so many pass, and the connection that brings one
// more breaks when they have arrived, both ways, with whatever it still carries. What connects
// after that is left alone.
//
// A link can be broken and mended by hand, too: then nobody can connect until it is; or be made
// silent, so that what is sent arrives only when it is mended.
//
// Memory:  each way of a connection carries a mebibyte at the most. When it does nothing more is
//          read, so a reader that has stalled is felt by the writer.
// Threads: one of its own; any may ask what has passed.
// Errors:  where no server listens, a connection ends as soon as it is made.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"

namespace outrider {

class LinkEmulator {
 public:
  enum class Way { kUp, kDown };  // from the client to the server; back

  struct Cut {
    Way way;
    uint64_t bytes;
  };
  struct Options {
    uint16_t server_port;
    Duration delay{0};  // one way
    std::optional<Cut> cut = std::nullopt;
  };

  // An error when this machine has no port or descriptor left.
  static absl::StatusOr<std::unique_ptr<LinkEmulator>> Start(const Options& options);
  ~LinkEmulator();  // breaks what is connected

  enum class State { kWhole, kBroken, kSilent };
  void Set(State state);

  uint16_t port() const { return port_; }
  uint64_t passed(Way way) const;
  // All that had passed in the way of the cut when it came; nothing while it has not.
  std::optional<std::string> passed_before_cut() const;

 private:
  struct Connection;
  class Flow;

  LinkEmulator(const Options& options, FileDescriptor listener, FileDescriptor stop,
               FileDescriptor wake, uint16_t port);

  void Run();
  State state() const;
  std::unique_ptr<Connection> Accept();
  size_t Admit(Way way, std::string_view bytes);

  const Options options_;
  const FileDescriptor listener_;
  const FileDescriptor stop_;  // an eventfd
  const FileDescriptor wake_;  // likewise: its state has changed
  const uint16_t port_;
  mutable Mutex mu_;
  std::array<uint64_t, 2> passed_ ABSL_GUARDED_BY(mu_) = {};
  std::string before_cut_ ABSL_GUARDED_BY(mu_);
  bool has_cut_ ABSL_GUARDED_BY(mu_) = false;
  State state_ ABSL_GUARDED_BY(mu_) = State::kWhole;
  std::thread thread_;  // last: it starts when all above exists
};

}  // namespace outrider
