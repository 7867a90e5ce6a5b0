#include "bench/simulator/sources/exits.h"

#include <algorithm>
#include <optional>

#include "bench/simulator/cli/parse.h"
#include "bench/simulator/world/chance.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr std::string_view kLying = "lying:";
constexpr double kLiarsProbability = 0.99;

bool IsChild(std::span<const DraftedNode> nodes, uint32_t parent, TokenId token) {
  return std::any_of(nodes.begin(), nodes.end(), [&](const DraftedNode& node) {
    return node.parent == parent && node.token == token;
  });
}

}  // namespace

absl::StatusOr<SyntheticExits> SyntheticExits::Parse(std::string_view text, uint64_t seed,
                                                     int32_t vocabulary_size) {
  SyntheticExits exits(seed, vocabulary_size);
  if (text == "none") return exits;
  exits.lies_ = text.starts_with(kLying);
  if (exits.lies_) text.remove_prefix(kLying.size());
  for (const std::string_view part : SplitAt(text, ',')) {
    const size_t colon = part.find(':');
    const bool has_match = colon != part.npos;
    const std::optional<double> depth = ParseNumber(part.substr(0, colon));
    const std::optional<double> match =
        has_match && !exits.lies_ ? ParseNumber(part.substr(colon + 1)) : 0;
    if (!depth || !match || has_match == exits.lies_ || *depth <= 0 || *depth >= 1 || *match < 0 ||
        *match > 1) {
      return InvalidArgument("'", part,
                             "' is no exit: exits are written DEPTH:MATCH, both between ",
                             "0 and 1, as in 0.5:0.4,0.75:0.7, or lying:0.5,0.75, or none");
    }
    if (!exits.depths_.empty() && *depth <= exits.depths_.back()) {
      return InvalidArgument("the depths of the exits '", text, "' do not rise");
    }
    exits.depths_.push_back(*depth);
    exits.matches_.push_back(*match);
  }
  return exits;
}

Exits::Hint SyntheticExits::Guess(size_t index, const Place& root,
                                  std::span<const DraftedNode> nodes,
                                  const Outcome& outcome) const {
  OUTRIDER_CHECK(index < depths_.size(), "an exit that there is");
  const double probability = lies_ ? kLiarsProbability : matches_[index];
  if (Draw(seed_, root.hash).Happens(matches_[index])) return {outcome, probability};
  Draw draw(seed_ + index + 1, root.hash);
  for (;;) {
    const uint64_t place = draw.Below(nodes.size() + 1);
    const uint32_t node = place == nodes.size() ? DraftedNode::kRoot : static_cast<uint32_t>(place);
    const TokenId next = static_cast<TokenId>(draw.Below(static_cast<uint64_t>(vocabulary_size_)));
    const bool is_right = node == outcome.node && next == outcome.next;
    if (!is_right && !IsChild(nodes, node, next)) return {{node, next}, probability};
  }
}

}  // namespace outrider
