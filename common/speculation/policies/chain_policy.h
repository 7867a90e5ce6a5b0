// Vanilla speculative decoding: gamma tokens in a row, each the draft's most probable, and then the
// verdict is awaited (FSD, section 2; the baseline "SD" of all the papers).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class ChainPolicy : public TreePolicy {
 public:
  explicit ChainPolicy(uint32_t gamma);

  std::string_view name() const override { return "chain"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;

 private:
  const uint32_t gamma_;
};

}  // namespace outrider
