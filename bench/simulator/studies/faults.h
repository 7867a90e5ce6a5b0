// Simulations with one random fault each: whatever breaks, the text is what the target alone
// writes, nothing is repeated or lost, and nobody gets at somebody else's session.
//
//   FaultTrials trials;
//   for (uint64_t seed = 0; seed < 100'000; ++seed) Report(trials.Run(seed));
//   trials.Run(4711, &journal);      // the one that failed, written down
//
// A seed decides everything: policy, draft, exits, link, sampling, sessions, turns, and the fault.
// Where a fault has come to nothing (a cut at a byte that was never written, a restart after the
// end) another simulation is tried, up to 16 of them; it has happened when it was seen in what the
// sessions did.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "bench/simulator/world/journal.h"
#include "bench/simulator/world/scenario.h"

namespace outrider {

enum class Fault {
  kCutUp,        // the link, at any byte up
  kCutDown,      // at any byte down: an answer or a verdict is lost, and the device is behind
  kSilentCut,    // at any byte, and nobody is told
  kUnreachable,  // cut, and every new connection as well, for a while
  kSlowAnswer,   // so late that the device asks again: an Open or Resume after the next one
  kRestart,      // the server loses all it knows
  kDrain,        // the server stops in good order, and another one starts
  kEviction,     // memory for one session, and several want it
  kStall,        // the device stops reading, until the server is held up
  kAhead,        // cut, and the device writes on alone
  kThief,        // the device's key, and a token that is wrong in one bit
  kStranger,     // another key, and the session's own token
  kReplay,       // the device's key with a token that was used up
};

inline constexpr size_t kFaultCount = 13;

std::string_view NameOf(Fault fault);

class FaultTrials {
 public:
  struct Result {
    Fault fault;
    bool happened;        // and was seen
    absl::Status status;  // of all that was tried
  };

  FaultTrials();

  Result Run(uint64_t seed, Journal* journal = nullptr) const;
  // With this fault.
  Result Run(uint64_t seed, Fault fault, Journal* journal = nullptr) const;

 private:
  Result Try(uint64_t seed, uint64_t attempt, Fault fault, Journal* journal) const;

  // Greedy and sampled, with three kinds of exits each.
  std::array<std::unique_ptr<World>, 6> worlds_;
};

}  // namespace outrider
