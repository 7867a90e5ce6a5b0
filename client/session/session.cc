#include "client/session/session.h"

#include <algorithm>
#include <utility>

#include "client/session/growth_message.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/speculation/verdict_message.h"
#include "common/speculation/wire_options.h"

namespace outrider {
namespace {

// What one event may add: Truncate, Append, Append of a reply, Tune, growth.
constexpr size_t kMessagesPerEvent = 5;

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

// Trying again cannot help.
bool IsFinal(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

// Streams are closed by whoever comes to an end: that is no reason to tell of.
absl::Status WhyDown(const absl::Status& status) {
  return status.ok() ? absl::UnavailableError("the verifier has ended the stream") : status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Session>> Session::Create(SessionOptions options, Parts parts) {
  if (options.prompt.empty()) {
    return InvalidArgument("the prompt is empty: there is nothing for a reply to follow");
  }
  if (options.prompt.size() > options.length_max) {
    return InvalidArgument("a prompt of ", options.prompt.size(),
                           " tokens does not fit into a context of ", options.length_max,
                           "; shorten it, or ask for a longer context");
  }
  OUTRIDER_RETURN_IF_ERROR(options.sampling.Validate(parts.tokenizer.vocabulary_size()));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Transcript> transcript,
                            Transcript::Create(options.stops, parts.tokenizer, options.length_max));
  OUTRIDER_RETURN_IF_ERROR(transcript->Append(options.prompt));
  return std::unique_ptr<Session>(
      new Session(std::move(options), std::move(parts), std::move(transcript)));
}

Session::Session(SessionOptions options, Parts parts, std::unique_ptr<Transcript> transcript)
    : options_(std::move(options)),
      policy_(parts.policy),
      costs_(parts.costs),
      random_bits_(std::move(parts.random_bits)),
      transcript_(std::move(transcript)),
      length_max_(options_.length_max),
      continues_text_(options_.continues_text),
      wire_ids_(options_.sketch.node_count_max),
      times_(parts.costs),
      link_(options_.link) {
  MakeSketcher(options_.sketch);
}

void Session::MakeSketcher(const Sketcher::Options& options) {
  sketcher_.emplace(options, policy_, costs_);
  sketcher_->SetTargetWaits(options_.dry_policy != v1::DRY_POLICY_ALONE);
  batch_counts_ = false;
}

void Session::Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions) {
  if (ended_) return;
  now_ = now;
  actions_ = &actions;
  std::visit([this](const auto& which) { On(which); }, event);
  if (!ended_) Advance();
  CheckInvariants();
}

// --- events ---

void Session::On(const Start&) {
  if (started_) return;
  started_ = true;
  link_.Progressed(now_);
  BeginReply();
  Attach();
}

void Session::On(const Received& event) {
  if (!IsCurrent(event.stream)) return;
  stats_.bytes_down += event.message.ByteSizeLong();
  link_.Heard(now_);
  if (link_.phase() == Link::Phase::kClosing) return;
  const absl::Status status = Take(event.message);
  if (status.ok() || ended_) return;
  if (absl::IsDataLoss(status)) {
    Reopen(status);
  } else {
    Lost(status);
  }
}

void Session::On(const Written& event) {
  if (IsCurrent(event.stream)) outbox_.Written();
}

void Session::On(const StreamDown& event) {
  if (!IsCurrent(event.stream)) return;
  const bool closing = link_.phase() == Link::Phase::kClosing;
  link_.Rest();
  if (closing) return Finish(absl::OkStatus());
  if (IsFinal(event.status.code())) return Finish(event.status);
  Lost(WhyDown(event.status));
}

void Session::On(const Drafted& event) {
  if (!drafter_busy_ || event.batch != batches_) return;
  drafter_busy_ = false;
  if (event.status.ok()) {
    times_.Drafted(contexts_.size(), now_);
  } else if (Message(event.status) != drafter_error_) {
    drafter_error_ = Message(event.status);
    Act(Report{Annotate(event.status, "no draft, and the target writes on alone")});
  }
  if (!batch_counts_) return;
  no_children_.assign(contexts_.size(), {});
  sketcher_->Drafted(event.status.ok() ? event.children : no_children_, now_);
}

void Session::On(const TimerFired&) {
  armed_.reset();
  const std::optional<MonotonicTime> deadline = link_.Deadline(replying());
  if (!deadline || now_ < *deadline) return;
  const LinkOptions& limits = link_.options();
  switch (link_.phase()) {
    case Link::Phase::kIdle:
      return;
    case Link::Phase::kWaiting:
      return Attach();
    case Link::Phase::kAttaching:
      return Lost(absl::DeadlineExceededError(
          Concat("the verifier has not answered within ", Seconds(limits.answer_deadline), " s")));
    case Link::Phase::kAttached:
      return Lost(absl::DeadlineExceededError(
          Concat("the verifier has been silent for ", Seconds(limits.silence_max), " s")));
    case Link::Phase::kClosing:
      return Finish(absl::OkStatus());
  }
}

void Session::On(const UserAppend& event) {
  if (!started_ || link_.phase() == Link::Phase::kClosing) return;
  if (const absl::Status status = CheckTurn(event.tokens); !status.ok()) {
    return Act(Report{status});
  }
  MakeRoom();
  if (ended_) return;
  const size_t length = size();
  if (replying()) EndReply(length);
  OUTRIDER_CHECK_OK(transcript_->Append(event.tokens));
  continues_text_ = false;
  BeginReply();
  link_.Progressed(now_);
  if (link_.attached()) return SendAppend(length, size(), /*reply=*/false);
  CountEdit(length);
  // What an Open has asked for is not wanted any more.
  if (nonce_) CloseStreamIfAny();
  nonce_.reset();
  if (link_.phase() == Link::Phase::kIdle) Attach();
}

void Session::On(const UserTruncate& event) {
  if (!started_ || link_.phase() == Link::Phase::kClosing) return;
  if (event.length > size()) {
    return Act(Report{
        InvalidArgument("a session of ", size(), " tokens cannot be cut to ", event.length)});
  }
  MakeRoom();
  if (ended_) return;
  if (replying()) {
    EndReply(event.length);
  } else if (event.length < size()) {
    transcript_->Truncate(event.length);
    Edited(event.length);
  }
  if (link_.attached()) return;
  // Nothing is asked of anybody until the next turn.
  nonce_.reset();
  CloseStreamIfAny();
}

// A stream that has not taken so many messages takes none; attaching anew merges them.
void Session::MakeRoom() {
  if (link_.attached() && outbox_.room() < kMessagesPerEvent) {
    Lost(absl::UnavailableError("the stream takes no messages"));
  }
}

void Session::On(const UserClose&) {
  if (!link_.attached()) return Finish(absl::OkStatus());
  if (replying()) ShowRest(transcript_->EndReply());
  outbox_.DropGrowth();
  outbox_.AddClose();
  link_.Close(now_);
}

void Session::On(const WroteAlone& event) {
  if (!replying() || link_.attached() || link_.phase() == Link::Phase::kClosing) return;
  if (!transcript_->Fits(event.tokens)) {
    return Act(Report{InvalidArgument("what was written alone does not fit into the session")});
  }
  link_.Progressed(now_);
  MoveRoot(event.tokens);
  CommitReply(event.tokens, event.finish);
  if (!replying()) CloseStreamIfAny();
}

// --- messages ---

absl::Status Session::Take(const v1::ServerMessage& message) {
  switch (message.kind_case()) {
    case v1::ServerMessage::kOpened:
      return Take(message.opened());
    case v1::ServerMessage::kResumed:
      return Take(message.resumed());
    case v1::ServerMessage::kProgress:
      Take(message.progress());
      return absl::OkStatus();
    case v1::ServerMessage::kHint:
      return Take(message.hint());
    case v1::ServerMessage::kVerdict:
      return Take(message.verdict());
    case v1::ServerMessage::kDraining:
      Take(message.draining());
      return absl::OkStatus();
    case v1::ServerMessage::kFault:
      Take(message.fault());
      return absl::OkStatus();
    case v1::ServerMessage::KIND_NOT_SET:
      return absl::OkStatus();  // of a kind that is not known yet
  }
  return absl::OkStatus();
}

void Session::Take(const v1::PromptProgress& progress) {
  if (!link_.attached()) return;
  link_.Progressed(now_);
  Act(Progress{progress.processed(), progress.total()});
}

absl::Status Session::Take(const v1::Hint& hint) {
  if (!link_.attached() || !replying() || hint.verdict() != verdicts_seen_ + 1) {
    return absl::OkStatus();
  }
  const std::optional<NodeId> leaf = wire_ids_.InSketch(hint.leaf());
  if (!leaf || !IsToken(hint.next())) return absl::OkStatus();
  ++stats_.hints;
  const TokenId next = static_cast<TokenId>(hint.next());
  const bool is_repeated = hint_ && hint_->leaf == *leaf && hint_->next == next;
  if (!is_repeated) was_grown_before_hint_ = HasChildren(*leaf, next);
  hint_ = {*leaf, next, std::min(hint.probability(), 255u) / 255.0};
  sketcher_->Hinted(*hint_, now_);
  return absl::OkStatus();
}

absl::Status Session::Take(const v1::Verdict& verdict) {
  if (!link_.attached()) return absl::InternalError("a verdict has come before an epoch");
  ++verdicts_seen_;
  edits_taken_in_ += verdict.edits();
  if (edits_taken_in_ < edits_) return absl::OkStatus();  // of a past
  NodeId leaf = Sketch::kRoot;
  OUTRIDER_RETURN_IF_ERROR(ReadVerdict(verdict, leaf));
  edited_from_.reset();
  link_.Progressed(now_);
  times_.Decided(verdict, tokens_.size(), now_);
  Count(verdict, leaf);
  const TokenId next = tokens_.back();
  CommitReply(tokens_, verdict.finish());
  if (replying()) {
    committed_.clear();
    sketcher_->Decided(leaf, next, now_, committed_);
    wire_ids_.Retain(sketcher_->sketch());
  }
  return absl::OkStatus();
}

// Writes the committed tokens to tokens_. What is wrong with a verdict may be wrong with our copy
// of the sketch as well: attaching anew mends both.
absl::Status Session::ReadVerdict(const v1::Verdict& verdict, NodeId& leaf) {
  const std::string name = Concat("verdict ", verdicts_seen_);
  if (!replying() || edits_taken_in_ > edits_) {
    return absl::InternalError(Concat(name, " is of a reply that was not asked for"));
  }
  const std::optional<NodeId> sent = LeafOf(verdict);
  const std::optional<NodeId> node = sent ? wire_ids_.InSketch(*sent) : std::nullopt;
  if (!node || (*node != Sketch::kRoot && sketcher_->sketch().Find(*node) == nullptr)) {
    return absl::InternalError(Concat(name, " names a node ", verdict.leaf_back(), " before ",
                                      verdict.seen() + 1, ", which was not sent"));
  }
  leaf = *node;
  sketcher_->sketch().PathTo(leaf, tokens_);
  if (!IsToken(verdict.next())) {
    return absl::InternalError(Concat(name, " names no token"));
  }
  tokens_.push_back(static_cast<TokenId>(verdict.next()));
  if (!transcript_->Fits(tokens_) ||
      VerdictHash(transcript_->HashAfter(tokens_)) != verdict.hash()) {
    return absl::InternalError(Concat(name, " is about other tokens than those here"));
  }
  return absl::OkStatus();
}

bool Session::HasChildren(NodeId leaf, TokenId next) const {
  const Sketch::Node* const root = sketcher_->sketch().Child(leaf, next);
  return root != nullptr && std::ranges::any_of(sketcher_->sketch().nodes(), [&](const auto& node) {
           return node.parent == root->id;
         });
}

void Session::Count(const v1::Verdict& verdict, NodeId leaf) {
  ++stats_.passes;
  stats_.tokens += tokens_.size();
  stats_.nodes_accepted += tokens_.size() - 1;
  const bool is_hinted = hint_ && hint_->leaf == leaf && hint_->next == tokens_.back();
  if (is_hinted) ++stats_.hints_right;
  if (HasChildren(leaf, tokens_.back())) {
    ++(!is_hinted               ? stats_.roots_grown_unhinted
       : was_grown_before_hint_ ? stats_.roots_grown_before_hint
                                : stats_.roots_grown_after_hint);
  }
  hint_.reset();
  stats_.nodes_passed += verdict.nodes();
}

void Session::Take(const v1::Draining& draining) {
  Act(Report{absl::UnavailableError(
      Concat("the verifier stops in ", draining.deadline_ms() / 1000, " s"))});
}

void Session::Take(const v1::Fault& fault) {
  const std::string& sentence = fault.message();
  switch (fault.kind()) {
    case v1::Fault::UNKNOWN_SESSION:
    case v1::Fault::DRIFTED:
      return Reopen(absl::AbortedError(sentence));
    case v1::Fault::OVERLOADED:
      return Lost(absl::ResourceExhaustedError(sentence),
                  std::chrono::milliseconds(fault.retry_ms()));
    case v1::Fault::DRAINING:
      return Lost(absl::UnavailableError(sentence), std::chrono::milliseconds(fault.retry_ms()));
    case v1::Fault::STALLED:
      return Lost(absl::UnavailableError(sentence));
    case v1::Fault::SUPERSEDED:
      return Finish(
          absl::AbortedError(Concat("another device has taken this session over: ", sentence)));
    case v1::Fault::MALFORMED:
      return Finish(absl::InvalidArgumentError(sentence));
    case v1::Fault::MISMATCH:
      return Finish(absl::FailedPreconditionError(sentence));
    case v1::Fault::TARGET:
      return Finish(absl::InternalError(sentence));
    default:
      return Finish(absl::UnknownError(sentence));
  }
}

bool Session::IsToken(uint32_t wire) const {
  return wire < static_cast<uint32_t>(transcript_->history().vocabulary_size());
}

absl::Status Session::ReadTokens(const google::protobuf::RepeatedField<uint32_t>& wire) {
  tokens_.clear();
  for (const uint32_t token : wire) {
    if (!IsToken(token)) {
      return InvalidArgument("the verifier has written token ", token,
                             ", which is outside the vocabulary");
    }
    tokens_.push_back(static_cast<TokenId>(token));
  }
  return absl::OkStatus();
}

// --- after every event ---

void Session::Advance() {
  TellDryPolicy();
  DriveDrafter();
  SendGrowth();
  Flush();
  ArmTimer();
}

// What the policy would have the target do at a dry root. Whoever has attached anew may not know.
void Session::TellDryPolicy() {
  const std::optional<Dry> dry = policy_.dry();
  if (!dry || dry == told_dry_ || !link_.attached() || !replying() || outbox_.room() == 0) return;
  told_dry_ = dry;
  outbox_.AddTune().set_dry_policy(ToWire(*dry));
  sketcher_->SetTargetWaits(dry != Dry::kAlone);
}

void Session::DriveDrafter() {
  if (!replying() || drafter_busy_) return;
  const auto batch = sketcher_->NextBatch(now_);
  if (batch.empty()) return;
  const auto drafted = sketcher_->nodes();
  nodes_.clear();
  for (const DraftNode& node : drafted.subspan(1)) {
    nodes_.push_back({node.token, node.parent == 0 ? DraftedNode::kRoot : node.parent - 1});
  }
  contexts_.clear();
  for (const Sketcher::ToDraft& asked : batch) {
    const auto at = std::ranges::lower_bound(drafted, asked.node, {}, &DraftNode::id);
    const auto index = static_cast<uint32_t>(at - drafted.begin());
    contexts_.push_back({index == 0 ? DraftedNode::kRoot : index - 1, asked.child_count});
  }
  drafter_busy_ = true;
  batch_counts_ = true;
  times_.DraftBegan(now_);
  stats_.nodes_expanded += contexts_.size();
  Act(Draft{++batches_, committed(), transcript_->history().reply_begin(), nodes_, contexts_});
}

void Session::SendGrowth() {
  if (!link_.attached() || !replying() || outbox_.writing() || !outbox_.empty()) return;
  const std::optional<Sketcher::Growth> growth = sketcher_->NextGrowth(now_);
  if (!growth) return;
  v1::Grow& grow = outbox_.AddGrow();
  grow.set_seen(verdicts_seen_);
  grow.set_go(growth->go);
  WriteGrowth(growth->nodes, sketcher_->sketch(), wire_ids_, grow);
  stats_.nodes_sent += growth->nodes.size();
  if (!growth->nodes.empty()) times_.Sent(wire_ids_.last(), now_);
}

void Session::Flush() {
  if (!link_.has_stream()) return;
  const v1::ClientMessage* const message = outbox_.Next();
  if (message == nullptr) return;
  stats_.bytes_up += message->ByteSizeLong();
  Act(Send{link_.stream(), message});
}

// The timer may be early: then it is set again.
void Session::ArmTimer() {
  const std::optional<MonotonicTime> deadline = link_.Deadline(replying());
  if (!deadline || (armed_ && *armed_ <= *deadline)) return;
  armed_ = deadline;
  Act(SetTimer{*deadline});
}

void Session::CheckInvariants() const {
  using Phase = Link::Phase;
  const Phase phase = link_.phase();
  OUTRIDER_CHECK(!ended_ || (!link_.has_stream() && !replying()), "an ended session holds nothing");
  OUTRIDER_CHECK(!replying() || phase != Phase::kIdle,
                 "a running reply has, or waits for, a stream");
  OUTRIDER_CHECK(phase != Phase::kWaiting || replying(), "nobody waits for nothing");
  OUTRIDER_CHECK(phase != Phase::kAttaching || session_.empty() == nonce_.has_value(),
                 "what is asked is either Open or Resume");
  OUTRIDER_CHECK(size() <= options_.length_max + 1, "committed tokens fit into the context");
  OUTRIDER_CHECK(!edited_from_ || *edited_from_ <= size(), "what edits have left is there");
  OUTRIDER_CHECK(wire_ids_.size() <= sketcher_->sketch().nodes().size(),
                 "what has an id on the wire is a node");
}

}  // namespace outrider
