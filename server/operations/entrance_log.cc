#include "server/operations/entrance_log.h"

#include <chrono>

#include "common/base/clock.h"

namespace outrider {
namespace {

constexpr std::chrono::seconds kBetweenLines(1);

}  // namespace

const char* NameOf(Refusal why) {
  switch (why) {
    case Refusal::kNoKey:
      return "no_key";
    case Refusal::kUnknownKey:
      return "unknown_key";
    case Refusal::kStreams:
      return "streams";
    case Refusal::kStreamsOfKey:
      return "streams_of_key";
    case Refusal::kStreamsOfAddress:
      return "streams_of_address";
    case Refusal::kSilentCalls:
      return "silent_calls";
    case Refusal::kSilentCallsOfAddress:
      return "silent_calls_of_address";
    case Refusal::kConnections:
      return "connections";
    case Refusal::kConnectionsOfAddress:
      return "connections_of_address";
    case Refusal::kDescriptors:
      return "descriptors";
    case Refusal::kTraffic:
      return "traffic";
    case Refusal::kOpen:
      return "open";
  }
  return "";
}

void EntranceLog::Refused(Refusal why, std::string_view key, std::string_view origin,
                          std::string_view detail) {
  const MonotonicTime now = RealClock().Now();
  uint64_t times = 0;
  {
    MutexLock lock(mu_);
    Count& count = counts_[static_cast<size_t>(why)];
    ++count.all;
    if (count.last_said && now < *count.last_said + kBetweenLines) return;
    times = count.all - count.said;
    count.said = count.all;
    count.last_said = now;
  }
  log_.Write("refused", {{"reason", NameOf(why)},
                         {"origin", origin},
                         {"key", key},
                         {"times", times},
                         {"why", detail}});
}

EntranceStats EntranceLog::stats() const {
  EntranceStats stats = {.connections = connections_};
  MutexLock lock(mu_);
  for (size_t i = 0; i < kRefusals; ++i) stats.refused[i] = counts_[i].all;
  return stats;
}

}  // namespace outrider
