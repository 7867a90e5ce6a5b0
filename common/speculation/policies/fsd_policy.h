// FSD (Fast and Cost-effective Speculative Edge-Cloud Decoding with Early Exits): the chain, and
// while its verdict is awaited, pre-drafts for the outcomes that early exits hint at (section 3,
// steps 3 to 6, and algorithm 1).
//
// The paper's client pops the most confident hint, drafts gamma tokens after it into a cache keyed
// by outcome, and sends the cached chain at once when the verdict is in the cache. Here the cache
// is the held part of the sketch: the outcome's node and the chain below it. A verdict leaves of it
// what was under its own outcome, and a hit is that something is left.
//
//   paper                                here
//   a thread for each hint               one batch over the tips of the best few hints
//   a pre-draft runs to its end          a verdict finds it half done, and it is drafted on
//   PreDraft when "not in C"             the same outcome is the same node
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class FsdPolicy : public TreePolicy {
 public:
  explicit FsdPolicy(uint32_t gamma);

  std::string_view name() const override { return "fsd"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;

 private:
  const uint32_t gamma_;
  std::vector<uint32_t> outcomes_;  // scratch
};

}  // namespace outrider
