#include "bench/simulator/sources/synthetic_target.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

uint32_t PagesOf(const SyntheticTarget::Options& options) {
  const uint64_t pages = PagesFor(options.context_length) + PagesFor(options.node_count_max);
  return static_cast<uint32_t>(options.sequence_count_max * pages);
}

}  // namespace

SyntheticTarget::SyntheticTarget(const Options& options, const Text& text)
    : info_{.model_name = "synthetic",
            .numerics_id = {},
            .vocabulary_size = static_cast<uint32_t>(text.vocabulary_size()),
            .context_length = options.context_length,
            .node_count_max = options.node_count_max,
            .sequence_count_max = options.sequence_count_max,
            .page_groups = {{.page_count = PagesOf(options)}},
            .forks_share_pages = true},
      text_(text) {}

absl::StatusOr<SequenceId> SyntheticTarget::CreateSequence() {
  if (sequences_.size() == info_.sequence_count_max) {
    return ResourceExhausted("the target has all of its ", info_.sequence_count_max, " sequences");
  }
  const SequenceId id{++last_id_};
  sequences_[last_id_] = std::make_unique<Sequence>(Sequence{
      TokenHistory({.vocabulary_size = text_.vocabulary_size(), .capacity = info_.context_length}),
      {},
      false});
  return id;
}

absl::StatusOr<SequenceId> SyntheticTarget::Fork(SequenceId sequence, uint32_t length) {
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId id, CreateSequence());
  OUTRIDER_RETURN_IF_ERROR(Find(id).history.Append(Find(sequence).history.tokens().first(length)));
  return id;
}

absl::Status SyntheticTarget::Close(SequenceId sequence) {
  OUTRIDER_CHECK(sequences_.erase(static_cast<uint64_t>(sequence)) == 1,
                 "a sequence is closed once");
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> SyntheticTarget::Truncate(SequenceId sequence, uint32_t length) {
  Sequence& here = Find(sequence);
  here.has_pass = false;
  OUTRIDER_RETURN_IF_ERROR(here.history.Truncate(length));
  return length > 0 ? length - 1 : 0;
}

absl::StatusOr<uint32_t> SyntheticTarget::Length(SequenceId sequence) const {
  return static_cast<uint32_t>(Find(sequence).history.size());
}

void SyntheticTarget::Run(std::span<Reading> readings, std::span<const Pass> passes,
                          std::span<PassResult> results) {
  for (Reading& reading : readings) {
    Sequence& here = Find(reading.sequence);
    if (!reading.tokens.empty()) here.has_pass = false;
    reading.status = here.history.Append(reading.tokens);
  }
  for (size_t i = 0; i < passes.size(); ++i) results[i].status = RunOne(passes[i], results[i]);
}

absl::Status SyntheticTarget::RunOne(const Pass& pass, PassResult& result) {
  Sequence& here = Find(pass.sequence);
  OUTRIDER_CHECK(here.history.hash() == pass.history->hash() && here.history.size() > 0,
                 "a pass is about the tokens that the sequence has");
  OUTRIDER_CHECK(pass.nodes.size() <= info_.node_count_max, "a pass is no larger than it may be");
  here.nodes.assign(pass.nodes.begin(), pass.nodes.end());
  here.has_pass = true;
  uint64_t hash = pass.history->hash();
  size_t length = 0;
  const auto choose = [&](uint32_t, std::span<const TokenId> path) -> absl::StatusOr<TokenId> {
    if (path.size() > length) hash = TokenHistory::Extend(hash, path.back());
    length = path.size();
    return text_.After({{*pass.history, path}, hash}, *pass.chooser);
  };
  OUTRIDER_ASSIGN_OR_RETURN(result.outcome, WalkDown(pass.nodes, path_, choose));
  return absl::OkStatus();
}

absl::Status SyntheticTarget::Commit(SequenceId sequence, const Outcome& outcome) {
  Sequence& here = Find(sequence);
  OUTRIDER_CHECK(here.has_pass, "what is committed was found by a pass");
  here.has_pass = false;
  path_.clear();
  for (uint32_t node = outcome.node; node != DraftedNode::kRoot; node = here.nodes[node].parent) {
    OUTRIDER_CHECK(node < here.nodes.size(), "a node of the pass is committed");
    path_.push_back(here.nodes[node].token);
  }
  std::reverse(path_.begin(), path_.end());
  path_.push_back(outcome.next);
  return here.history.Append(path_);
}

SyntheticTarget::Sequence& SyntheticTarget::Find(SequenceId sequence) const {
  const auto found = sequences_.find(static_cast<uint64_t>(sequence));
  OUTRIDER_CHECK(found != sequences_.end(), "a sequence that there is");
  return *found->second;
}

}  // namespace outrider
