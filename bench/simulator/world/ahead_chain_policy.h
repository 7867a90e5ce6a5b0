// A chain that drafts on while it waits: below the most probable outcome of the pass that runs, the
// next chain is drafted, and kept if that is what the verdict says. What anybody would try first
// against a round trip who has a chain; it needs no exits, no trees, and nothing new on the wire.
//
//   root - a - b - c - d          sent, in the pass
//              |       |
//              e       f           outcomes: the text leaves the chain after b, or runs through it
//                                  all. The more probable is drafted on from, held back, and gone if
//                                  the verdict says otherwise
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class AheadChainPolicy final : public TreePolicy {
 public:
  // Tokens in a row, 1 or more.
  explicit AheadChainPolicy(uint32_t gamma) : gamma_(gamma) {}

  std::string_view name() const override { return "ahead"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override;
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override;
  Sending Send(const DraftView& draft, bool drafting) override;

 private:
  std::optional<uint32_t> Top(const DraftView& draft) const;
  bool IsShort(const DraftView& draft, uint32_t top) const;

  const uint32_t gamma_;
};

}  // namespace outrider
