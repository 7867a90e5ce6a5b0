// The hints of the running pass that have come to the device: each outcome once, and which of them is
// believed first.
//
//   LiveHints hints(HintBelief::kNewest);
//   hints.Take(hint);
//   hints.first()                 // what the odds go by (outcome_posterior.h)
//   hints.Forget();               // its verdict is there
//
// A server sends hints in an order of its own (--exit-order); here is what becomes of them once they
// are there, which is what the FSD paper's client has a queue for. An outcome that is hinted again is
// there in the words of the deepest exit, and keeps its place in the order of arrival. When there are
// more than kMax, the one that would be believed last goes.
//
// Memory:  kMax hints.
// Threads: as a vector.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/tokens/sketch.h"

namespace outrider {

struct LiveHint {
  NodeId leaf;
  TokenId next;
  double probability;
  uint32_t exit = 0;  // by depth
};

// Which of the hints that are there is believed.
enum class HintBelief : uint8_t {
  kNewest,       // that of the deepest exit, of one exit the last
  kProbability,  // the most probable, by what the server says
  kArrival,      // the first that came
  kRandom,       // any: what the others are compared with
};

class LiveHints {
 public:
  static constexpr size_t kMax = 8;

  explicit LiveHints(HintBelief belief = HintBelief::kNewest) : belief_(belief) {}

  // Returns its rank, above 0 unless its probability is 0, and the higher the sooner it is drafted
  // for where several are.
  double Take(const LiveHint& hint);
  void Forget() { count_ = 0; }

  bool empty() const { return count_ == 0; }
  // There is one.
  const LiveHint& first() const;

 private:
  struct Kept {
    LiveHint hint;
    uint32_t place;  // of the pass's outcomes, in the order in which they came
    double chance;   // uniform between 0 and 1
    uint64_t told;   // when it was said last, in hints
  };

  bool GoesBefore(const Kept& a, const Kept& b) const;
  double RankOf(const Kept& kept) const;

  HintBelief belief_;
  std::array<Kept, kMax + 1> kept_;  // the first count_
  size_t count_ = 0;
  uint32_t outcome_count_ = 0;  // of the pass
  uint64_t told_count_ = 0;     // hints, ever
};

}  // namespace outrider
