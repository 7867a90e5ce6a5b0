#include "common/engine/target_rules.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {

namespace {

// Whether the way from the root down to `end` comes by `node`.
bool IsOnTheWay(std::span<const DraftedNode> nodes, uint32_t node, uint32_t end) {
  while (end != node && end != DraftedNode::kRoot) end = nodes[end].parent;
  return end == node;
}

}  // namespace

TargetRules::TargetRules(const TargetInfo& info) : info_(info) {
  depths_.reserve(info.node_count_max);
  path_.reserve(info.node_count_max);
}

absl::Status TargetRules::CheckTokens(const TargetInfo& info, std::span<const TokenId> tokens) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || static_cast<uint32_t>(tokens[i]) >= info.vocabulary_size) {
      return InvalidArgument("token ", i, " is ", tokens[i], ", and the vocabulary of ",
                             info.model_name, " has ", info.vocabulary_size, " tokens");
    }
  }
  return absl::OkStatus();
}

absl::Status TargetRules::CheckPrompt(const TargetInfo& info, size_t before,
                                      std::span<const TokenId> tokens) {
  OUTRIDER_RETURN_IF_ERROR(CheckTokens(info, tokens));
  if (tokens.size() > info.context_length || before > info.context_length - tokens.size()) {
    return InvalidArgument("a sequence of ", before, " tokens and a prompt of ", tokens.size(),
                           " do not fit into a context of ", info.context_length,
                           "; shorten the prompt, truncate the sequence, or make the target for a "
                           "longer context");
  }
  return absl::OkStatus();
}

absl::Status TargetRules::CheckReading(const Reading& reading,
                                       const TargetSequence& sequence) const {
  if (ReadsInThisCall(sequence)) {
    return InvalidArgument("a sequence can have one reading at a time, and this one has two");
  }
  return CheckPrompt(info_, sequence.tokens.size(), reading.tokens);
}

void TargetRules::AdmitReading(const Reading& reading, TargetSequence& sequence) const {
  sequence.tokens.insert(sequence.tokens.end(), reading.tokens.begin(), reading.tokens.end());
  sequence.has_pass = false;
  sequence.last_reading = calls_;
}

absl::Status TargetRules::Truncate(TargetSequence& sequence, uint32_t length) {
  if (length > sequence.tokens.size()) {
    return InvalidArgument("a sequence of ", sequence.tokens.size(),
                           " tokens cannot be truncated to ", length);
  }
  sequence.tokens.resize(length);
  sequence.has_pass = false;
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TargetRules::CheckPass(const Pass& pass, const TargetSequence& sequence) {
  if (sequence.last_pass == calls_) {
    return InvalidArgument("a sequence can have one pass at a time, and this one has two");
  }
  if (sequence.tokens.empty()) {
    return InvalidArgument("a sequence without tokens has no root; give it a prompt first");
  }
  if (pass.chooser == nullptr || pass.history == nullptr) {
    return InvalidArgument("a pass needs a chooser and the history it goes by");
  }
  if (pass.chooser->vocabulary_size() != static_cast<int32_t>(info_.vocabulary_size)) {
    return InvalidArgument("the chooser is for a vocabulary of ", pass.chooser->vocabulary_size(),
                           " tokens, and ", info_.model_name, " has ", info_.vocabulary_size);
  }
  if (pass.chooser->options().penalizes() && !pass.history->counts_tokens()) {
    return InvalidArgument("the chooser penalises tokens, and the history does not count them");
  }
  if (pass.history->size() != sequence.tokens.size()) {
    return InvalidArgument("the history has ", pass.history->size(), " tokens, the sequence ",
                           sequence.tokens.size());
  }
  return CheckNodes(sequence, pass.nodes);
}

absl::StatusOr<uint32_t> TargetRules::CheckNodes(const TargetSequence& sequence,
                                                 std::span<const DraftedNode> nodes) {
  if (nodes.size() > info_.node_count_max) {
    return InvalidArgument("a pass of ", nodes.size(), " nodes is larger than the ",
                           info_.node_count_max, " this target takes");
  }
  const size_t root_position = sequence.tokens.size() - 1;
  if (root_position >= info_.context_length) {
    return InvalidArgument("the context of ", info_.context_length,
                           " tokens is full; truncate the sequence to go on");
  }
  depths_.clear();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const DraftedNode& node = nodes[i];
    const bool below_root = node.parent == DraftedNode::kRoot;
    if (!below_root && node.parent >= i) {
      return InvalidArgument("node ", i, " has node ", node.parent,
                             " as its parent, which does not come before it");
    }
    if (absl::Status status = CheckTokens(info_, {&node.token, 1}); !status.ok()) {
      return InvalidArgument("node ", i, " is token ", node.token, ", and the vocabulary of ",
                             info_.model_name, " has ", info_.vocabulary_size, " tokens");
    }
    depths_.push_back(below_root ? 1 : depths_[node.parent] + 1);
    if (root_position + depths_.back() >= info_.context_length) {
      return InvalidArgument("node ", i, " is at position ", root_position + depths_.back(),
                             ", and the context ends at ", info_.context_length,
                             "; draft no deeper than that");
    }
  }
  return depths_.empty() ? 0 : *std::ranges::max_element(depths_);
}

void TargetRules::AdmitPass(TargetSequence& sequence) const {
  sequence.has_pass = false;
  sequence.last_pass = calls_;
}

void TargetRules::Keep(const Pass& pass, const Outcome& outcome, TargetSequence& sequence) {
  sequence.drafted.assign(pass.nodes.begin(), pass.nodes.end());
  sequence.deepest.reset();
  if (pass.pruning == Pruning::kOn) sequence.deepest = outcome.node;
  sequence.has_pass = true;
}

absl::StatusOr<std::span<const uint32_t>> TargetRules::Commit(TargetSequence& sequence,
                                                              const Outcome& outcome) {
  if (!sequence.has_pass) {
    return FailedPrecondition("there is no pass to commit; run one first");
  }
  const std::vector<DraftedNode>& drafted = sequence.drafted;
  if (outcome.node != DraftedNode::kRoot && outcome.node >= drafted.size()) {
    return InvalidArgument("node ", outcome.node, " is none of the ", drafted.size(),
                           " of the last pass");
  }
  OUTRIDER_RETURN_IF_ERROR(CheckTokens(info_, {&outcome.next, 1}));
  if (sequence.deepest && !IsOnTheWay(drafted, outcome.node, *sequence.deepest)) {
    return InvalidArgument("node ", outcome.node,
                           " is not on the way to the outcome of the last pass, which was pruned");
  }

  path_.clear();
  for (uint32_t node = outcome.node; node != DraftedNode::kRoot; node = drafted[node].parent) {
    path_.push_back(node);
  }
  std::ranges::reverse(path_);
  for (const uint32_t node : path_) sequence.tokens.push_back(drafted[node].token);
  sequence.tokens.push_back(outcome.next);
  sequence.has_pass = false;
  return path_;
}

}  // namespace outrider
