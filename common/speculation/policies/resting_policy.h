// Grows nothing: the target writes alone.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class RestingPolicy final : public TreePolicy {
 public:
  std::string_view name() const override { return "resting"; }
  void Join(const DraftView& /*draft*/, std::vector<uint32_t>& /*candidates*/) override {}
  void Expand(const DraftView& /*draft*/, std::vector<Expansion>& /*batch*/) override {}
  Sending Send(const DraftView& /*draft*/, bool /*drafting*/) override { return Sending::kHold; }
};

}  // namespace outrider
