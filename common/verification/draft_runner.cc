#include "common/verification/draft_runner.h"

#include <utility>

#include "common/base/check.h"

namespace outrider {

std::span<const TokenId> DraftRunner::Execute(DraftJob job, const Cancellation& cancellation) {
  Session& session = Find(job);
  Tell(job, session.history);
  nodes_.clear();
  chain_.clear();
  uint32_t parent = DraftedNode::kRoot;
  double chance = 1;
  while (session.drafter && chain_.size() < job.token_count_max) {
    const Drafter::Context context = {parent, 1};
    const absl::Status status =
        session.drafter->Propose(session.history, nodes_, {&context, 1}, proposals_, cancellation);
    if (!status.ok()) break;
    const std::span<const Proposal> children = proposals_.children().front();
    if (children.empty()) break;
    chance *= children.front().confidence;
    if (chance < job.least_chance) break;
    nodes_.push_back({children.front().token, parent});
    chain_.push_back(children.front().token);
    parent = static_cast<uint32_t>(nodes_.size() - 1);
  }
  return chain_;
}

DraftRunner::Session& DraftRunner::Find(DraftJob& job) {
  const auto found = sessions_.find(job.session);
  if (found != sessions_.end()) return found->second;
  OUTRIDER_CHECK(job.chooser.has_value(), "a session's first job says how it chooses");
  auto drafter = new_drafter_(*job.chooser);
  TokenHistory history({.vocabulary_size = job.chooser->vocabulary_size(),
                        .capacity = size_t{context_length_} + 1,
                        .counts_tokens = job.chooser->options().penalizes()});
  return sessions_
      .emplace(job.session,
               Session{drafter.ok() ? *std::move(drafter) : nullptr, std::move(history)})
      .first->second;
}

void DraftRunner::Tell(const DraftJob& job, TokenHistory& history) {
  OUTRIDER_CHECK_OK(history.Truncate(job.known_count));
  std::span<const TokenId> tokens = job.tokens;
  if (job.reply_begin >= history.size()) {
    const size_t before = job.reply_begin - history.size();
    OUTRIDER_CHECK_OK(history.Append(tokens.first(before)));
    history.StartReply();
    tokens = tokens.subspan(before);
  }
  OUTRIDER_CHECK_OK(history.Append(tokens));
}

}  // namespace outrider
