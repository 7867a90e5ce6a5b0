#include "common/speculation/drafting/drafter.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

void Proposals::Clear(size_t list_count, size_t proposal_count) {
  all_.clear();
  children_.clear();
  all_.reserve(proposal_count);
  children_.reserve(list_count);
}

void Proposals::Add(std::span<const Proposal> list) {
  OUTRIDER_CHECK(list.size() <= all_.capacity() - all_.size(), "lists point to where they lie");
  const size_t begin = all_.size();
  all_.insert(all_.end(), list.begin(), list.end());
  children_.push_back(std::span(all_).subspan(begin));
}

absl::Status CheckRequest(std::span<const DraftedNode> nodes,
                          std::span<const Drafter::Context> contexts, int32_t vocabulary_size) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    const DraftedNode& node = nodes[i];
    if (node.parent != DraftedNode::kRoot && node.parent >= i) {
      return InvalidArgument("node ", i, " has node ", node.parent,
                             " as its parent, which does not come before it");
    }
    if (node.token < 0 || node.token >= vocabulary_size) {
      return InvalidArgument("node ", i, " is token ", node.token, ", and the vocabulary has ",
                             vocabulary_size, " tokens");
    }
  }
  for (const Drafter::Context& context : contexts) {
    if (context.node != DraftedNode::kRoot && context.node >= nodes.size()) {
      return InvalidArgument("children are asked for of node ", context.node, ", which is none of ",
                             nodes.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace outrider
