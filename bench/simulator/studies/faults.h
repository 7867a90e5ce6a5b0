// Simulations with one random fault each: whatever breaks, the text is what the target alone
// writes, nothing is repeated or lost, and nobody gets at somebody else's session.
//
//   FaultTrials trials;
//   for (uint64_t seed = 0; seed < 100'000; ++seed) Report(trials.Run(seed));
//   trials.Run(4711, &journal);      // the one that failed, written down
//
// A seed decides everything: policy, draft, exits, link, sampling, sessions, turns, and the fault.
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
  kStall,        // the device stops reading
  kAhead,        // cut, and the device writes on alone
  kThief,        // somebody else uses the session's own token
  kReplay,       // the device's key with a token that was used up
};

inline constexpr size_t kFaultCount = 12;

std::string_view NameOf(Fault fault);

class FaultTrials {
 public:
  struct Result {
    Fault fault;
    bool happened;  // a cut at a byte that was never written does not
    absl::Status status;
  };

  FaultTrials();

  Result Run(uint64_t seed, Journal* journal = nullptr) const;
  // With this fault.
  Result Run(uint64_t seed, Fault fault, Journal* journal = nullptr) const;

 private:
  // Greedy and sampled, with three kinds of exits each.
  std::array<std::unique_ptr<World>, 6> worlds_;
};

}  // namespace outrider
