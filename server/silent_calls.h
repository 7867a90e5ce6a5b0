// Calls that have begun and of which no message has come: each takes gRPC some 12 KB, and whoever
// sends headers alone has them for nothing. So there are few of one origin and few in all. A caller
// sends what he wants together with his headers, so whoever has been silent for longest makes room,
// and those who come meanwhile find some. And nobody is silent for longer than `longest`.
//
//   const uint64_t number = silent.Begin(call, peer, SilentCalls::Ends::kHere);
//   silent.End(number);          // a message has come, or the call is over
//
// Memory:  an entry for each of them, which keeps gRPC's call.
// Threads: any, and one of its own, for those whose time is over.
// Errors:  ResourceExhausted and DeadlineExceeded, to who calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "grpc/grpc.h"
#include "server/operations/entrance_log.h"

namespace outrider {

class SilentCalls {
 public:
  // Of an origin 6 MB, of all 12: devices behind one proxy may all begin at once.
  static constexpr uint32_t kOfOriginMax = 512;
  static constexpr uint32_t kMax = 1024;

  // Who ends one whose time is over.
  enum class Ends : uint8_t {
    kHere,
    kInMachine,  // which allows as long, and has its own words for it
  };

  // The log outlives it, and it outlives all calls.
  SilentCalls(Duration longest, EntranceLog& entrance);
  ~SilentCalls();
  SilentCalls(const SilentCalls&) = delete;
  SilentCalls& operator=(const SilentCalls&) = delete;

  // `peer` is gRPC's name for it.
  uint64_t Begin(grpc_call* call, const std::string& peer, Ends ends);
  void End(uint64_t number);

 private:
  struct Unref {
    void operator()(grpc_call* call) const { grpc_call_unref(call); }
  };
  struct Silent {
    std::unique_ptr<grpc_call, Unref> call;
    std::string origin;
    MonotonicTime since;
    Ends ends;
  };
  using ByAge = std::map<uint64_t, Silent>;

  struct Refused {
    Silent call;
    Refusal why;
  };
  std::optional<Refused> TakeSurplus(const std::string& newest_origin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  Silent Take(ByAge::iterator silent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<Silent> AwaitOverdue();  // none: it is to stop
  void EndOverdue();

  const Duration longest_;
  EntranceLog& entrance_;

  Mutex mu_;
  CondVar changed_;                                                            // to or from none
  ByAge silent_ ABSL_GUARDED_BY(mu_);                                          // the oldest first
  absl::flat_hash_map<std::string, uint32_t> by_origin_ ABSL_GUARDED_BY(mu_);  // none is 0
  uint64_t last_number_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_closing_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
