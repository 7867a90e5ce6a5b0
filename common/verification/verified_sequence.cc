#include "common/verification/verified_sequence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/verdict_message.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"

namespace outrider {
namespace {

// Nodes of more doubt than this are nearly out of reach: 2^-10.
constexpr uint32_t kDoubtCount = 20;

// What is kept besides of a token of a context whose tokens are counted, and of one of the
// vocabulary (token_history.h); and of a byte of a stop string (stop_strings.h).
constexpr uint64_t kCountedTokenBytes = 4;
constexpr uint64_t kCountBytes = 8;
constexpr uint64_t kStopByteBytes = 16;

// What was asked for, where 0 is as much as there is.
uint32_t Granted(uint32_t asked, uint32_t most) {
  return asked == 0 ? most : std::min(asked, most);
}

absl::Status CheckLength(size_t length, uint32_t reply_tokens) {
  if (length == 0) return InvalidArgument("the prompt is empty; send at least one token");
  if (reply_tokens > length) {
    return InvalidArgument("a prompt of ", length, " tokens cannot end with ", reply_tokens,
                           " of the reply");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<VerifiedSequence>> VerifiedSequence::Create(
    const v1::Open& open, const Tokenizer& tokenizer, const Limits& limits) {
  Limits granted = limits;
  granted.context_length = Granted(open.length_max(), limits.context_length);
  granted.pass_nodes_max = Granted(open.pass_nodes(), limits.pass_nodes_max);
  std::vector<TokenId> prompt;
  OUTRIDER_RETURN_IF_ERROR(
      ReadPrompt(open, limits.vocabulary_size, granted.context_length, prompt));
  OUTRIDER_RETURN_IF_ERROR(CheckLength(prompt.size(), open.reply_tokens()));
  OUTRIDER_ASSIGN_OR_RETURN(SamplingOptions sampling, FromWire(open.sampling()));
  OUTRIDER_ASSIGN_OR_RETURN(Chooser chooser,
                            Chooser::Create(std::move(sampling), limits.vocabulary_size));
  std::unique_ptr<VerifiedSequence> sequence(
      new VerifiedSequence(granted, std::move(chooser), tokenizer));
  OUTRIDER_RETURN_IF_ERROR(sequence->Begin(open, prompt));
  return sequence;
}

VerifiedSequence::VerifiedSequence(const Limits& granted, Chooser chooser,
                                   const Tokenizer& tokenizer)
    : limits_(granted),
      pass_nodes_wanted_(granted.pass_nodes_max),
      chooser_(std::move(chooser)),
      tokenizer_(tokenizer),
      history_({.vocabulary_size = granted.vocabulary_size,
                .capacity = size_t{granted.context_length} + 1,
                .counts_tokens = chooser_.options().penalizes()}),
      sketch_(granted.sketch_nodes_max) {
  path_.reserve(granted.pass_nodes_max);
  tokens_.reserve(size_t{granted.pass_nodes_max} + 1);
  beside_.reserve(granted.sketch_nodes_max);
}

absl::Status VerifiedSequence::Begin(const v1::Open& open, std::span<const TokenId> tokens) {
  OUTRIDER_RETURN_IF_ERROR(SetStops(open.stops(), ReadStops(open.stops(), tokenizer_)));
  prompt_length_ = static_cast<uint32_t>(tokens.size());
  const size_t reply_begin = tokens.size() - open.reply_tokens();
  OUTRIDER_RETURN_IF_ERROR(history_.Append(tokens.first(reply_begin)));
  history_.StartReply();
  BeginReply();
  return AppendReply(tokens.subspan(reply_begin));
}

// --- messages ---

absl::Status VerifiedSequence::Grow(const v1::Grow& grow) {
  GrowthReader reader(grow.nodes());
  const uint32_t seen = grow.seen() == 0 ? seen_ : grow.seen();
  const NodeId first_id = grow.first_id() == 0 ? next_id_ : grow.first_id();
  OUTRIDER_RETURN_IF_ERROR(CheckSeen(seen));
  OUTRIDER_RETURN_IF_ERROR(CheckNodes(first_id, reader.node_count()));
  // What was sent after an edit grows from the root that it left.
  seen_ = std::max(seen, epoch_begin_);
  said_seen_ = std::max(said_seen_, grow.seen());
  NodeId parent = Sketch::kRoot;
  for (uint32_t i = 0; i < reader.node_count(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const GrownNode node, reader.Next(told_));
    const NodeId id = first_id + i;
    parent = ParentAfter(parent, node.step, id);
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId token,
                              TokenFromWire(node.token, limits_.vocabulary_size));
    OUTRIDER_RETURN_IF_ERROR(GrowNode({id, parent, token, node.doubt}));
  }
  OUTRIDER_RETURN_IF_ERROR(reader.End());
  next_id_ = first_id + reader.node_count();
  const bool is_for_this_root = seen_ == verdict_count_ && !in_pass_;
  if (grow.go() && is_for_this_root && !drafted_here_) told_to_go_ = true;
  WantPassNodes(grow.pass_nodes());
  return absl::OkStatus();
}

absl::Status VerifiedSequence::CheckNodes(NodeId first_id, uint32_t count) const {
  if (drafted_here_ && count > 0) {
    return InvalidArgument("growth of ", count,
                           " nodes came while the server drafts; Tune ends that");
  }
  if (count > limits_.sketch_nodes_max) {
    return InvalidArgument("growth of ", count, " nodes is more than the ",
                           limits_.sketch_nodes_max, " of a sketch");
  }
  if (count > 0 && first_id > std::numeric_limits<NodeId>::max() - count) {
    return InvalidArgument("growth of ", count, " nodes from ", first_id,
                           " on goes past the last id; open a new session");
  }
  return absl::OkStatus();
}

absl::Status VerifiedSequence::CheckSeen(uint32_t seen) const {
  if (seen > verdict_count_) {
    return InvalidArgument("the device has seen verdict ", seen, ", and there have been ",
                           verdict_count_);
  }
  if (std::max(seen, epoch_begin_) < seen_) {
    return InvalidArgument("the device has seen verdict ", seen, ", and had seen ", seen_,
                           " before");
  }
  return absl::OkStatus();
}

absl::Status VerifiedSequence::GrowNode(const Sketch::Growth& growth) {
  const absl::StatusOr<Sketch::Fate> fate = sketch_.Grow(growth, seen_);
  // A device that keeps to the size of this copy always finds room; to one that does not it is no
  // loss of ours.
  if (absl::IsResourceExhausted(fate.status())) return absl::OkStatus();
  OUTRIDER_RETURN_IF_ERROR(fate.status());
  // Nodes at positions that no pass can stand on.
  if (*fate == Sketch::Fate::kGrown &&
      sketch_.nodes().back().depth + history_.size() > limits_.context_length) {
    sketch_.Prune(growth.id);
  }
  return absl::OkStatus();
}

absl::Status VerifiedSequence::Append(const v1::Append& append,
                                      std::optional<absl::StatusOr<StopConditions>> stops) {
  OUTRIDER_CHECK(!in_pass_, "the history stands still while a pass is running");
  if (append.length() != history_.size()) {
    return FailedPrecondition("the device appends to ", append.length(),
                              " tokens, and the server has ", history_.size(),
                              "; open a new session");
  }
  if (append.reply() && append.has_stops()) {
    return InvalidArgument("tokens of a running reply cannot change its stops");
  }
  OUTRIDER_RETURN_IF_ERROR(ReadTokens(append.tokens()));
  if (history_.size() + tokens_.size() == 0) {
    return InvalidArgument("a reply cannot begin without a token before it");
  }
  if (append.reply()) {
    OUTRIDER_RETURN_IF_ERROR(AppendReply(tokens_));
  } else {
    OUTRIDER_RETURN_IF_ERROR(AppendTurn(append, std::move(stops)));
  }
  ++edit_count_;
  awaits_append_ = is_behind_ = false;
  BeginEpoch();
  return absl::OkStatus();
}

absl::Status VerifiedSequence::AppendReply(std::span<const TokenId> tokens) {
  if (tokens.empty()) return absl::OkStatus();
  if (finish() != v1::FINISH_NONE) {
    return InvalidArgument("the reply has ended, and ", tokens.size(), " more tokens of it came");
  }
  const size_t room = limits_.context_length + 1 - history_.size();
  if (tokens.size() > room) {
    return InvalidArgument(tokens.size(), " tokens of the reply do not fit: the session has ",
                           history_.size(), " of ", limits_.context_length);
  }
  if (reply_->Take(tokens).taken < tokens.size()) {
    return InvalidArgument("the reply ends at its token ", reply_->token_count(), ", and ",
                           tokens.size(), " go on past it");
  }
  return history_.Append(tokens);
}

absl::Status VerifiedSequence::AppendTurn(const v1::Append& append,
                                          std::optional<absl::StatusOr<StopConditions>> stops) {
  const size_t length = history_.size() + tokens_.size();
  if (length > limits_.context_length) {
    return InvalidArgument(tokens_.size(), " more tokens do not fit: the session has ",
                           history_.size(), " of ", limits_.context_length);
  }
  if (append.has_stops()) {
    if (!stops) stops = ReadStops(append.stops(), tokenizer_);
    OUTRIDER_RETURN_IF_ERROR(SetStops(append.stops(), *std::move(stops)));
  }
  OUTRIDER_RETURN_IF_ERROR(history_.Append(tokens_));
  history_.StartReply();
  BeginReply();
  return absl::OkStatus();
}

absl::Status VerifiedSequence::Truncate(const v1::Truncate& truncate) {
  OUTRIDER_CHECK(!in_pass_, "the history stands still while a pass is running");
  if (truncate.length() > history_.size()) {
    return FailedPrecondition("the device truncates to ", truncate.length(),
                              " tokens, and the server has ", history_.size(),
                              "; open a new session");
  }
  const bool cuts_reply = truncate.length() >= history_.reply_begin();
  OUTRIDER_RETURN_IF_ERROR(history_.Truncate(truncate.length()));
  if (cuts_reply) {
    reply_->Truncate(history_.reply());
  } else {
    BeginReply();
  }
  ++edit_count_;
  awaits_append_ = true;
  BeginEpoch();
  return absl::OkStatus();
}

void VerifiedSequence::Tune(const v1::Tune& tune) {
  WantPassNodes(tune.pass_nodes());
}

// 0: as before.
void VerifiedSequence::WantPassNodes(uint32_t count) {
  if (count > 0) pass_nodes_wanted_ = std::min(count, limits_.pass_nodes_max);
}

// --- drafting here ---

void VerifiedSequence::DraftHere(bool here) {
  OUTRIDER_CHECK(!in_pass_, "what a pass has taken stays until it ends");
  if (drafted_here_ && !here) sketch_.DropOwn();
  drafted_here_ = here;
  told_to_go_ = false;
}

void VerifiedSequence::GrowHere(std::span<const TokenId> chain) {
  OUTRIDER_CHECK(drafted_here_ && !in_pass_, "a chain grows where it was asked for");
  NodeId parent = Sketch::kRoot;
  for (size_t depth = 1; depth <= chain.size(); ++depth) {
    if (history_.size() + depth > limits_.context_length) break;
    const std::optional<NodeId> node = sketch_.GrowOwn(parent, chain[depth - 1]);
    if (!node) break;
    parent = *node;
  }
  told_to_go_ = true;
}

// --- attaching ---

absl::Status VerifiedSequence::Resume(const v1::Resume& resume, v1::Resumed& resumed) {
  OUTRIDER_CHECK(!in_pass_, "an epoch begins between passes");
  const size_t length = history_.size();
  is_behind_ = resume.length() > length;
  if (!is_behind_ && history_.HashAt(resume.length()) != resume.hash()) {
    return FailedPrecondition("of the device's ", resume.length(),
                              " tokens not all are those of the server; open a new session");
  }
  BeginAttachment();
  resumed.set_length(static_cast<uint32_t>(length));
  resumed.set_hash(history_.hash());
  if (!is_behind_) {
    for (const TokenId token : history_.tokens().subspan(resume.length())) {
      resumed.add_tokens(static_cast<uint32_t>(token));
    }
  }
  resumed.set_finish(finish());
  resumed.set_verdict(verdict_count_);
  resumed.set_edits(edit_count_);
  edits_told_ = edit_count_;
  return absl::OkStatus();
}

absl::Status VerifiedSequence::Attach(v1::Opened& opened) {
  OUTRIDER_CHECK(!in_pass_, "an epoch begins between passes");
  if (edit_count_ > 0) {
    return InvalidArgument(
        "the session of this nonce has gone on to further turns; a new one needs a new nonce");
  }
  is_behind_ = false;
  BeginAttachment();
  opened.set_pass_nodes(limits_.pass_nodes_max);
  opened.set_sketch_nodes_max(limits_.sketch_nodes_max);
  opened.set_length_max(limits_.context_length);
  opened.set_growth_follows(true);
  for (const TokenId token : history_.tokens().subspan(prompt_length_)) {
    opened.add_tokens(static_cast<uint32_t>(token));
  }
  opened.set_finish(finish());
  opened.set_verdict(verdict_count_);
  return absl::OkStatus();
}

void VerifiedSequence::BeginAttachment() {
  BeginEpoch();
  attached_at_ = said_seen_ = verdict_count_;
}

void VerifiedSequence::BeginEpoch() {
  sketch_.Reset(verdict_count_);
  epoch_begin_ = seen_ = verdict_count_;
  next_id_ = Sketch::kRoot + 1;
  told_.Clear();
  told_to_go_ = false;
}

// --- passes ---

bool VerifiedSequence::writing() const {
  return !in_pass_ && !awaits_append_ && !is_behind_ && finish() == v1::FINISH_NONE;
}

v1::Finish VerifiedSequence::finish() const {
  if (reply_->finish()) return ToWire(reply_->finish());
  return history_.size() > limits_.context_length ? v1::FINISH_LENGTH : v1::FINISH_NONE;
}

double VerifiedSequence::Promise(uint32_t node_count) const {
  std::array<uint32_t, kDoubtCount> counts{};
  for (const Sketch::Node& node : sketch_.nodes()) {
    if (node.doubt < kDoubtCount) ++counts[node.doubt];
  }
  double promise = 0;
  uint32_t left = std::min(node_count, pass_nodes_wanted_);
  for (uint32_t doubt = 0; doubt < kDoubtCount && left > 0; ++doubt) {
    const uint32_t taken = std::min(left, counts[doubt]);
    promise += taken * std::exp2(-0.5 * doubt);
    left -= taken;
  }
  return promise;
}

uint32_t VerifiedSequence::NodesOfChance(double least, std::span<uint16_t> by_doubt) const {
  const double doubt_max = least > 0 ? -2 * std::log2(least) : HUGE_VAL;
  std::ranges::fill(by_doubt, 0);
  uint32_t count = 0;
  for (const Sketch::Node& node : sketch_.nodes()) {
    if (node.doubt > doubt_max) continue;
    ++count;
    if (node.doubt < by_doubt.size()) ++by_doubt[node.doubt];
  }
  return std::min(count, pass_nodes_wanted_);
}

std::span<const DraftedNode> VerifiedSequence::BeginPass(uint32_t node_count_max) {
  OUTRIDER_CHECK(writing(), "a pass begins when the next token is wanted, and one at a time");
  sketch_.Take(std::min(node_count_max, pass_nodes_wanted_), taken_);
  taken_last_id_ = sketch_.last_id();
  in_pass_ = true;
  return taken_.nodes;
}

std::span<const TokenId> VerifiedSequence::TokensBeside() {
  OUTRIDER_CHECK(in_pass_, "what stands beside a pass is known when it has begun");
  sketch_.TokensBeside(taken_, beside_);
  return beside_;
}

void VerifiedSequence::DropPass() {
  OUTRIDER_CHECK(in_pass_, "what is dropped was begun");
  in_pass_ = false;
}

Outcome VerifiedSequence::EndPass(const Outcome& found, v1::Verdict& verdict) {
  OUTRIDER_CHECK(in_pass_, "what ends was begun");
  in_pass_ = false;
  FindTokens(found);
  tokens_.resize(reply_->Take(tokens_).taken);
  const size_t depth = tokens_.size() - 1;  // of the leaf
  const Outcome kept = {depth > 0 ? path_[depth - 1] : DraftedNode::kRoot, tokens_.back()};
  OUTRIDER_CHECK_OK(history_.Append(tokens_));
  const NodeId leaf = taken_.IdOf(kept.node);
  verdict.set_seen(taken_last_id_);
  if (leaf < Sketch::kOwnIds) {
    SetLeaf(leaf, verdict);
  } else {
    for (const TokenId token : std::span(tokens_).first(depth)) {
      verdict.add_path(static_cast<uint32_t>(token));
    }
  }
  verdict.set_next(static_cast<uint32_t>(kept.next));
  verdict.set_nodes(static_cast<uint32_t>(taken_.nodes.size()));
  tokens_.clear();
  sketch_.Commit(leaf, kept.next, tokens_);
  told_to_go_ = false;

  ++verdict_count_;
  verdict.set_hash(VerdictHash(history_.hash()));
  verdict.set_finish(finish());
  verdict.set_edits(edit_count_ - edits_told_);
  edits_told_ = edit_count_;
  return kept;
}

// The nodes down to the outcome's go into path_, their tokens and the next one into tokens_.
void VerifiedSequence::FindTokens(const Outcome& outcome) {
  path_.clear();
  for (uint32_t node = outcome.node; node != DraftedNode::kRoot; node = taken_.nodes[node].parent) {
    path_.push_back(node);
  }
  std::ranges::reverse(path_);
  tokens_.clear();
  for (const uint32_t node : path_) tokens_.push_back(taken_.nodes[node].token);
  tokens_.push_back(outcome.next);
}

void VerifiedSequence::Describe(const Outcome& guess, v1::Hint& hint) const {
  OUTRIDER_CHECK(in_pass_, "a hint is of a pass that is running");
  OUTRIDER_CHECK(guess.node == DraftedNode::kRoot || guess.node < taken_.ids.size(),
                 "a hint names a node of its pass");
  hint.set_verdict(verdict_count_ + 1);
  hint.set_leaf(taken_.IdOf(guess.node));
  hint.set_next(static_cast<uint32_t>(guess.next));
}

bool VerifiedSequence::IsGrownBelow(const Outcome& guess) const {
  OUTRIDER_CHECK(in_pass_, "an outcome is of a pass that is running");
  const NodeId leaf = taken_.IdOf(guess.node);
  const Sketch::Node* const child = sketch_.Child(leaf, guess.next);
  if (child == nullptr) return false;
  return std::ranges::any_of(sketch_.nodes(),
                             [&](const Sketch::Node& node) { return node.parent == child->id; });
}

// --- what both sides read alike ---

absl::StatusOr<StopConditions> VerifiedSequence::ReadStops(const v1::Stops& wire,
                                                           const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(StopOptions options, FromWire(wire, tokenizer.vocabulary_size()));
  return StopConditions::Create(std::move(options), tokenizer);
}

uint64_t VerifiedSequence::bytes() const {
  const uint64_t tokens = uint64_t{limits_.context_length} + 1;
  uint64_t bytes =
      tokens * kTokenBytes + stop_bytes_ + chooser_.options().logit_bias.size() * sizeof(LogitBias);
  if (history_.counts_tokens()) {
    bytes +=
        tokens * kCountedTokenBytes + static_cast<uint64_t>(limits_.vocabulary_size) * kCountBytes;
  }
  return bytes;
}

absl::Status VerifiedSequence::SetStops(const v1::Stops& wire,
                                        absl::StatusOr<StopConditions> stops) {
  OUTRIDER_RETURN_IF_ERROR(stops.status());
  stop_bytes_ = wire.end_tokens_size() * sizeof(TokenId);
  for (const std::string& text : wire.strings()) stop_bytes_ += text.size() * kStopByteBytes;
  reply_.reset();
  stops_.emplace(*std::move(stops));
  continues_text_ = wire.continues_text();
  return absl::OkStatus();
}

void VerifiedSequence::BeginReply() {
  const std::span<const TokenId> before = history_.tokens().first(history_.reply_begin());
  reply_.emplace(*stops_, continues_text_ ? before : std::span<const TokenId>());
}

absl::Status VerifiedSequence::ReadTokens(const google::protobuf::RepeatedField<uint32_t>& wire) {
  tokens_.clear();
  for (const uint32_t token : wire) {
    OUTRIDER_ASSIGN_OR_RETURN(const TokenId id, TokenFromWire(token, limits_.vocabulary_size));
    tokens_.push_back(id);
  }
  return absl::OkStatus();
}

}  // namespace outrider
