// Who was not let in: counted by why, for metrics, and a line in the log, of which there is one a
// second for each reason at the most. The next one says how many it stands for, so a flood of
// strangers is seen and fills no disk:
//
//   2026-01-31T12:00:00.123Z refused reason=unknown_key origin=ipv4:192.0.2.7 key="" times=3120
//
// And how many connections there are.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "server/operations/event_log.h"

namespace outrider {

enum class Refusal : uint8_t {
  kNoKey,
  kUnknownKey,
  kStreams,
  kStreamsOfKey,
  kStreamsOfAddress,
  kSilentCalls,  // of which nothing but headers has come
  kSilentCallsOfAddress,
  kConnections,
  kConnectionsOfAddress,
  kDescriptors,  // this process may have no more of them; he waits until it may
  kTraffic,      // a connection had too much on it that is no message
  kOpen,         // for what he said first; faults_total has its kind
};
inline constexpr size_t kRefusals = static_cast<size_t>(Refusal::kOpen) + 1;

// As metrics and the log have it: "unknown_key".
const char* NameOf(Refusal why);

struct EntranceStats {
  uint64_t connections = 0;
  std::array<uint64_t, kRefusals> refused{};  // by Refusal
};

class EntranceLog {
 public:
  explicit EntranceLog(EventLog& log) : log_(log) {}

  // `key` is a name, and empty where there is none. `detail` is what more there is to say.
  void Refused(Refusal why, std::string_view key, std::string_view origin,
               std::string_view detail = {});
  void SetConnectionCount(uint64_t count) { connections_ = count; }

  EntranceStats stats() const;

 private:
  struct Count {
    uint64_t all = 0;
    uint64_t said = 0;  // of those, what lines stand for
    std::optional<MonotonicTime> last_said = {};
  };

  EventLog& log_;
  std::atomic<uint64_t> connections_ = 0;
  mutable Mutex mu_;
  std::array<Count, kRefusals> counts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace outrider
