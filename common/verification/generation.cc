#include "common/verification/generation.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/verdict_message.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Generation>> Generation::Create(const v1::GenerateRequest& request,
                                                               uint64_t nonce,
                                                               int32_t vocabulary_size,
                                                               uint32_t context_length,
                                                               const NewDrafter& new_drafter) {
  if (request.draft() && !new_drafter) {
    return FailedPrecondition(
        "this server has no draft; ask for its target alone, or start it with --draft");
  }
  std::vector<TokenId> prompt;
  OUTRIDER_RETURN_IF_ERROR(ReadPrompt(request.open(), vocabulary_size, prompt));
  if (prompt.size() > context_length || request.open().reply_tokens() > prompt.size()) {
    return InvalidArgument("a prompt of ", prompt.size(), " tokens, ",
                           request.open().reply_tokens(),
                           " of them the reply's, does not fit: ", context_length, " are the most");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const SamplingOptions sampling, FromWire(request.open().sampling()));
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create(sampling, vocabulary_size));

  std::unique_ptr<Generation> generation(
      new Generation(request.open(), context_length, vocabulary_size));
  v1::Open& open = generation->open_;
  open.set_nonce(nonce);
  open.set_attempt(1);
  open.set_hints(false);
  open.set_pass_nodes(kChain);
  open.set_dry_policy(request.draft() ? v1::DRY_POLICY_WAIT : v1::DRY_POLICY_ALONE);
  const std::span<const TokenId> tokens = prompt;
  const size_t reply_begin = tokens.size() - open.reply_tokens();
  OUTRIDER_RETURN_IF_ERROR(generation->history_.Append(tokens.first(reply_begin)));
  generation->history_.StartReply();
  OUTRIDER_RETURN_IF_ERROR(generation->history_.Append(tokens.subspan(reply_begin)));
  if (request.draft()) {
    OUTRIDER_ASSIGN_OR_RETURN(generation->drafter_, new_drafter(chooser));
  }
  return generation;
}

Generation::Generation(v1::Open open, uint32_t context_length, int32_t vocabulary_size)
    : open_(std::move(open)),
      history_({.vocabulary_size = vocabulary_size,
                .capacity = size_t{context_length} + 1,
                .counts_tokens = true}) {}

std::optional<v1::ClientMessage> Generation::NextUp() {
  v1::ClientMessage message;
  if (!std::exchange(opened_, true)) {
    *message.mutable_open() = open_;
    return message;
  }
  if (closing_) {
    if (std::exchange(closed_, true)) return std::nullopt;
    message.mutable_close();
    return message;
  }
  return std::exchange(growth_, std::nullopt);
}

// --- what the machine says ---

bool Generation::Hear(const v1::ServerMessage& message) {
  response_.Clear();
  switch (message.kind_case()) {
    case v1::ServerMessage::kOpened:
      length_max_ = message.opened().length_max();
      RootKnown(message.opened().finish());
      return message.opened().finish() != v1::FINISH_NONE;
    case v1::ServerMessage::kProgress:
      *response_.mutable_progress() = message.progress();
      return true;
    case v1::ServerMessage::kVerdict:
      HearVerdict(message.verdict());
      return true;
    default:
      return false;  // a fault: the stream ends with the same words
  }
}

// The chain's nodes down to the leaf are committed, and what comes next.
void Generation::HearVerdict(const v1::Verdict& verdict) {
  ++verdict_;
  const std::optional<NodeId> leaf = LeafOf(verdict);
  const auto first_id = last_id_ + 1 - static_cast<uint32_t>(chain_.size());
  const uint32_t taken = !leaf || *leaf < first_id ? 0 : *leaf + 1 - first_id;
  OUTRIDER_CHECK(taken <= chain_.size(), "a leaf is a node that was grown");
  for (uint32_t i = 0; i < taken; ++i) Commit(chain_[i].token);
  Commit(static_cast<TokenId>(verdict.next()));
  response_.set_nodes(verdict.nodes());
  response_.set_pass_us(verdict.pass_us());
  RootKnown(verdict.finish());
}

void Generation::Commit(TokenId token) {
  OUTRIDER_CHECK_OK(history_.Append({&token, 1}));
  response_.add_tokens(static_cast<uint32_t>(token));
}

void Generation::RootKnown(v1::Finish finish) {
  response_.set_finish(finish);
  chain_.clear();
  closing_ = closing_ || finish != v1::FINISH_NONE;
  // At the last root of the context there is no room for a node, and the target does not wait.
  const bool has_room = history_.size() < length_max_;
  wants_draft_ = drafter_ != nullptr && !closing_ && has_room;
}

// --- drafts ---

// A draft that fails, or knows nothing more, ends the chain where it is.
void Generation::Draft() {
  wants_draft_ = false;
  const uint32_t first_id = last_id_ + 1;
  uint32_t parent = DraftedNode::kRoot;
  while (chain_.size() < kChain) {
    const Drafter::Context context = {parent, 1};
    if (!drafter_->Propose(history_, chain_, {&context, 1}, proposals_).ok()) break;
    if (proposals_.children().front().empty()) break;
    parent = static_cast<uint32_t>(chain_.size());
    const uint32_t above = parent == 0 ? DraftedNode::kRoot : parent - 1;
    chain_.push_back({proposals_.children().front().front().token, above});
    ++last_id_;
  }
  v1::Grow& grow = *growth_.emplace().mutable_grow();
  grow.set_seen(verdict_);
  grow.set_first_id(first_id);
  for (size_t i = 0; i < chain_.size(); ++i) {
    grow.add_tokens(static_cast<uint32_t>(chain_[i].token));
    grow.add_links(i == 0 ? 0 : 16);  // below the node before it
  }
  grow.set_go(true);
}

}  // namespace outrider
