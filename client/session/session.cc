#include "client/session/session.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/verification/verdict_message.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_padding.h"

namespace outrider {
namespace {

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

// Hints for ever, and never a verdict, are as good as silence.
bool IsSignOfLife(const v1::ServerMessage& message) {
  return !message.has_hint() && message.kind_case() != v1::ServerMessage::KIND_NOT_SET;
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
  options.sketch.growth_node_count_max = GrowthNodesFor(options.frame_bytes);
  return std::unique_ptr<Session>(
      new Session(std::move(options), std::move(parts), std::move(transcript)));
}

Session::Session(SessionOptions options, Parts parts, std::unique_ptr<Transcript> transcript)
    : options_(std::move(options)),
      controller_(parts.controller),
      transcript_(std::move(transcript)),
      attachment_(options_, *transcript_, std::move(parts.random_bits)),
      drafting_(options_.sketch, options_.dry_policy != v1::DRY_POLICY_ALONE, parts.controller,
                parts.costs),
      told_(AsOpened()) {}

void Session::Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions,
                     bool more_follow) {
  if (ended_) return;
  now_ = now;
  actions_ = &actions;
  std::visit([this](const auto& which) { On(which); }, event);
  if (!ended_) Advance(more_follow);
  CheckInvariants();
}

// --- events: streams ---

void Session::On(const Start&) {
  if (started_) return;
  started_ = true;
  attachment_.Progressed(now_);
  BeginReply(options_.continues_text);
  Attach();
}

void Session::On(const Received& event) {
  if (!attachment_.IsCurrent(event.stream)) return;
  tally_.stats().bytes_down += event.message.ByteSizeLong();
  if (IsSignOfLife(event.message)) attachment_.Heard(now_);
  if (attachment_.link().phase() == Link::Phase::kClosing) return;
  const absl::Status status = Receive(event.message);
  if (status.ok() || ended_) return;
  if (absl::IsDataLoss(status)) {
    Reopen(status);
  } else {
    Lost(status);
  }
}

void Session::On(const Written& event) {
  if (attachment_.IsCurrent(event.stream)) attachment_.Written();
}

void Session::On(const StreamDown& event) {
  if (!attachment_.IsCurrent(event.stream)) return;
  const bool closing = attachment_.link().phase() == Link::Phase::kClosing;
  attachment_.Rest();
  if (closing) return Finish(absl::OkStatus());
  if (IsFinal(event.status.code())) return Finish(event.status);
  Lost(WhyDown(event.status));
}

void Session::On(const TimerFired&) {
  armed_.reset();
  const Link& link = attachment_.link();
  const std::optional<MonotonicTime> deadline = link.Deadline(replying());
  if (!deadline || now_ < *deadline) return;
  switch (link.phase()) {
    case Link::Phase::kIdle:
      return;
    case Link::Phase::kWaiting:
      return Attach();
    case Link::Phase::kAttaching:
      return Lost(absl::DeadlineExceededError(Concat(
          "the verifier has not answered within ", Seconds(link.options().answer_deadline), " s")));
    case Link::Phase::kAttached:
      return Lost(absl::DeadlineExceededError(
          Concat("the verifier has been silent for ", Seconds(link.options().silence_max), " s")));
    case Link::Phase::kClosing:
      return Finish(absl::OkStatus());
  }
}

// --- events: drafts ---

void Session::On(const Drafted& event) {
  const absl::Status told = drafting_.Drafted(event.batch, event.children, event.status, now_);
  if (!told.ok()) Act(Report{Annotate(told, "no draft, and the target writes on alone")});
}

// --- events: the user ---

void Session::On(const UserAppend& event) {
  if (!started_ || attachment_.link().phase() == Link::Phase::kClosing) return;
  if (const absl::Status status = CheckTurn(event.tokens); !status.ok()) {
    return Act(Report{status});
  }
  MakeRoom();
  if (ended_) return;
  const size_t length = size();
  if (replying()) EndReply(length);
  OUTRIDER_CHECK_OK(transcript_->Append(event.tokens));
  BeginReply(/*continues_text=*/false);
  attachment_.Progressed(now_);
  attachment_.TellAppend(length, size(), /*reply=*/false);
  if (attachment_.attached()) return;
  if (attachment_.ForgetOpen()) LeaveStream();
  if (attachment_.link().phase() == Link::Phase::kIdle) Attach();
}

void Session::On(const UserTruncate& event) {
  if (!started_ || attachment_.link().phase() == Link::Phase::kClosing) return;
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
    attachment_.TellTruncate(event.length);
  }
  if (attachment_.attached()) return;
  // Nothing is asked of anybody until the next turn.
  attachment_.ForgetOpen();
  LeaveStream();
}

void Session::On(const UserClose&) {
  if (!attachment_.attached()) return Finish(absl::OkStatus());
  if (replying()) ShowRest(transcript_->EndReply());
  attachment_.SayFarewell(now_);
}

void Session::On(const WroteAlone& event) {
  if (!replying() || attachment_.attached() ||
      attachment_.link().phase() == Link::Phase::kClosing) {
    return;
  }
  if (!transcript_->Fits(event.tokens)) {
    return Act(Report{InvalidArgument("what was written alone does not fit into the session")});
  }
  CommitUntold(event.tokens, event.finish);
  if (!replying()) LeaveStream();
}

// --- messages ---

absl::Status Session::Receive(const v1::ServerMessage& message) {
  switch (message.kind_case()) {
    case v1::ServerMessage::kOpened:
      return Receive(message.opened());
    case v1::ServerMessage::kResumed:
      return Receive(message.resumed());
    case v1::ServerMessage::kProgress:
      Receive(message.progress());
      return absl::OkStatus();
    case v1::ServerMessage::kHint:
      return Receive(message.hint());
    case v1::ServerMessage::kVerdict:
      return Receive(message.verdict());
    case v1::ServerMessage::kDraining:
      Receive(message.draining());
      return absl::OkStatus();
    case v1::ServerMessage::kFault:
      Receive(message.fault());
      return absl::OkStatus();
    case v1::ServerMessage::KIND_NOT_SET:
      return absl::OkStatus();  // of a kind that is not known yet
  }
  return absl::OkStatus();
}

absl::Status Session::Receive(const v1::Opened& opened) {
  const std::string moved_from = attachment_.numerics_id();
  OUTRIDER_ASSIGN_OR_RETURN(const Attachment::Answer answer, attachment_.Opened(opened, now_));
  if (!moved_from.empty() && attachment_.numerics_id() != moved_from) {
    Act(Report{FailedPrecondition("the session has moved from numerics id ", moved_from, " to ",
                                  attachment_.numerics_id(),
                                  ", whose target may write another text from here on")});
  }
  if (opened.length_max() > 0) transcript_->Limit(opened.length_max());
  drafting_.Limit(opened);
  server_can_draft_ = opened.drafts();
  told_ = AsOpened();
  has_tuned_ = false;
  BeginEpoch();
  return CatchUp(answer);
}

absl::Status Session::Receive(const v1::Resumed& resumed) {
  OUTRIDER_ASSIGN_OR_RETURN(const Attachment::Answer answer, attachment_.Resumed(resumed, now_));
  if (has_tuned_) told_.reset();
  BeginEpoch();
  if (!answer.is_of_a_past) return CatchUp(answer);
  attachment_.TellEdited(answer.shared + transcript_->AgreeOn(answer.shared, answer.tokens));
  return absl::OkStatus();
}

// The verifier has answered. It has no growth, and is sent what there is.
void Session::BeginEpoch() {
  ++tally_.stats().attachments;
  drafting_.Attached(attachment_.link().asked_at(), now_);
}

absl::Status Session::CatchUp(const Attachment::Answer& answer) {
  OUTRIDER_ASSIGN_OR_RETURN(
      const Transcript::Difference difference,
      transcript_->Compare(answer.shared, answer.tokens, answer.finish, answer.hash));
  if (difference.ahead) {
    attachment_.TellMissing(answer.shared + answer.tokens.size());
  } else if (!difference.missed.empty() || answer.finish != v1::FINISH_NONE) {
    tally_.stats().tokens += difference.missed.size();
    CommitUntold(difference.missed, answer.finish);
  }
  return absl::OkStatus();
}

void Session::Receive(const v1::PromptProgress& progress) {
  if (!attachment_.attached()) return;
  attachment_.Progressed(now_);
  Act(Progress{progress.processed(), progress.total()});
}

absl::Status Session::Receive(const v1::Hint& message) {
  if (!attachment_.attached() || !replying() ||
      message.verdict() != attachment_.verdicts_seen() + 1) {
    return absl::OkStatus();
  }
  const std::optional<NodeId> leaf = drafting_.Find(message.leaf());
  if (!leaf || !transcript_->IsToken(message.next())) return absl::OkStatus();
  const OutcomePosterior::Hint hint = {*leaf, static_cast<TokenId>(message.next()),
                                       std::min(message.probability(), 255u) / 255.0,
                                       message.exit()};
  tally_.Hinted(hint, drafting_.HasGrownBelow(hint.leaf, hint.next));
  drafting_.Hinted(hint, now_);
  return absl::OkStatus();
}

absl::Status Session::Receive(const v1::Verdict& verdict) {
  if (!attachment_.attached()) return absl::InternalError("a verdict has come before an epoch");
  if (!attachment_.Counts(verdict)) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<NodeId> leaf, ReadVerdict(verdict));
  attachment_.Settle();
  attachment_.Progressed(now_);
  drafting_.Measure(verdict, tokens_.size(), now_);
  const TokenId next = tokens_.back();
  const bool is_grown = leaf && drafting_.HasGrownBelow(*leaf, next);
  controller_.Hinted(tally_.Decided(verdict, leaf, tokens_, is_grown));
  CommitReply(tokens_, verdict.finish());
  if (!replying()) return absl::OkStatus();
  if (leaf) {
    drafting_.Decided(verdict, *leaf, next, now_);
  } else {
    drafting_.MoveRoot(tokens_, now_);
  }
  return absl::OkStatus();
}

// Writes the committed tokens to tokens_, and returns the leaf; none: it was drafted at the server.
// What is wrong with a verdict may be wrong with our copy of the sketch as well: attaching anew
// mends both.
absl::StatusOr<std::optional<NodeId>> Session::ReadVerdict(const v1::Verdict& verdict) {
  const std::string name = Concat("verdict ", attachment_.verdicts_seen());
  if (!replying() || attachment_.contradicted()) {
    return absl::InternalError(Concat(name, " is of a reply that was not asked for"));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<NodeId> leaf, ReadPath(verdict));
  if (!transcript_->IsToken(verdict.next())) {
    return absl::InternalError(Concat(name, " names no token"));
  }
  tokens_.push_back(static_cast<TokenId>(verdict.next()));
  if (!transcript_->Fits(tokens_) ||
      VerdictHash(transcript_->HashAfter(tokens_)) != verdict.hash()) {
    return absl::InternalError(Concat(name, " is about other tokens than those here"));
  }
  return leaf;
}

// Of tokens_, those above `next`.
absl::StatusOr<std::optional<NodeId>> Session::ReadPath(const v1::Verdict& verdict) {
  const std::optional<NodeId> sent = LeafOf(verdict);
  const std::optional<NodeId> leaf = sent ? drafting_.Find(*sent) : std::nullopt;
  if (!leaf) {
    return absl::InternalError(Concat("verdict ", attachment_.verdicts_seen(), " names a node ",
                                      verdict.leaf_back(), " before ", verdict.seen() + 1,
                                      ", which was not sent"));
  }
  drafting_.PathTo(*leaf, tokens_);
  if (verdict.path().empty()) return leaf;
  if (static_cast<uint32_t>(verdict.path_size()) > options_.length_max) {
    return absl::InternalError(Concat("verdict ", attachment_.verdicts_seen(), " commits ",
                                      verdict.path_size(), " tokens, and the context has ",
                                      options_.length_max));
  }
  for (const uint32_t token : verdict.path()) {
    if (!transcript_->IsToken(token)) {
      return absl::InternalError(
          Concat("verdict ", attachment_.verdicts_seen(), " goes by what is no token"));
    }
    tokens_.push_back(static_cast<TokenId>(token));
  }
  return std::nullopt;
}

void Session::Receive(const v1::Draining& draining) {
  Act(Report{absl::UnavailableError(
      Concat("the verifier stops in ", draining.deadline_ms() / 1000, " s"))});
}

void Session::Receive(const v1::Fault& fault) {
  const std::string sentence = Printable(fault.message());
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

// --- streams ---

void Session::Attach() {
  Act(OpenStream{attachment_.Ask(now_)});
}

void Session::LeaveStream() {
  if (const std::optional<uint64_t> stream = attachment_.Leave()) Act(CloseStream{*stream});
}

// The stream is of no use any more. Another one is tried after back-off, while there is patience.
void Session::Lost(const absl::Status& why, Duration at_least) {
  LeaveStream();
  if (!replying()) return;
  const uint32_t attempts = attachment_.link().attempts();
  if (attachment_.Wait(now_, at_least)) return;
  Finish(absl::Status(why.code(), Concat(Message(why), " (", attempts, " attempts)")));
}

void Session::Reopen(const absl::Status& why) {
  if (!attachment_.ForgetSession()) return Lost(why);
  LeaveStream();
  if (!replying()) return;
  ++tally_.stats().reopenings;
  Attach();
}

// A stream that has not taken so many messages takes none; attaching anew merges them.
void Session::MakeRoom() {
  if (attachment_.attached() && !attachment_.has_ample_room()) {
    Lost(absl::UnavailableError("the stream takes no messages"));
  }
}

void Session::Finish(const absl::Status& status) {
  LeaveStream();
  if (replying()) ShowRest(transcript_->EndReply());
  ended_ = true;
  Act(End{status});
}

// --- replies ---

void Session::BeginReply(bool continues_text) {
  transcript_->BeginReply(continues_text);
  drafting_.BeginReply();
}

// The reply ends by the user's wish, and `length` tokens remain.
void Session::EndReply(size_t length) {
  std::string withheld = transcript_->EndReply();
  if (length == size()) ShowRest(std::move(withheld));
  transcript_->Truncate(length);
  attachment_.TellTruncate(length);
}

void Session::CommitReply(std::span<const TokenId> tokens, v1::Finish finish) {
  Transcript::Shown shown = transcript_->Commit(tokens, finish);
  Act(Commit{committed().last(shown.taken), std::move(shown.text), shown.finish});
  if (shown.ended_here) attachment_.TellTruncate(size());
}

// Tokens that no verdict has told of.
void Session::CommitUntold(std::span<const TokenId> tokens, v1::Finish finish) {
  attachment_.Progressed(now_);
  drafting_.MoveRoot(tokens, now_);
  CommitReply(tokens, finish);
}

void Session::ShowRest(std::string text) {
  if (!text.empty()) Act(Commit{{}, std::move(text), v1::FINISH_NONE});
}

// --- after every event ---

void Session::Advance(bool more_follow) {
  FollowEpoch();
  Tune();
  CancelMoot();
  if (!more_follow) {
    DriveDrafter();
    SendGrowth();
    TellPassNodes();
  }
  Flush();
  ArmTimer();
}

// Edits and answers have begun epochs: of what was sent in an earlier one the verifier knows nothing.
void Session::FollowEpoch() {
  if (attachment_.epoch() == epoch_) return;
  epoch_ = attachment_.epoch();
  drafting_.ForgetSent();
  tally_.ForgetHint();
}

Session::Told Session::Chosen() const {
  const Course& course = controller_.course();
  return {course.dry, std::min(course.pass_nodes, AsOpened().pass_nodes),
          course.hints && WantsHints(course.dry),
          course.placement == Placement::kServer && server_can_draft_};
}

// What the controller has chosen, as far as the verifier has not been told. How many nodes a pass is to
// have changes often, and growth says it in passing: a message ahead of it would be one to wait for.
void Session::Tune() {
  const Told chosen = Chosen();
  if (chosen == told_ || !replying() || !attachment_.TakesTune()) return;
  drafting_.SetPassNodes(chosen.pass_nodes);
  if (chosen.dry) drafting_.SetTargetWaits(chosen.dry != Dry::kAlone);
  if (told_ && told_->With(chosen.pass_nodes) == chosen) return;
  SendTune(chosen);
}

// No growth has said it, and none waits to: what is being written now it would go after.
void Session::TellPassNodes() {
  const Told chosen = Chosen();
  if (chosen != told_ && replying() && attachment_.TakesGrowth()) SendTune(chosen);
}

void Session::SendTune(const Told& wanted) {
  v1::Tune& tune = attachment_.AddTune();
  tune.set_dry_policy(options_.TurnsOr(wanted.dry ? ToWire(*wanted.dry) : options_.dry_policy));
  if (!told_ || wanted.pass_nodes != told_->pass_nodes) tune.set_pass_nodes(wanted.pass_nodes);
  if (!told_ || wanted.hints != told_->hints) tune.set_hints(wanted.hints);
  if (!told_ ? server_can_draft_ : wanted.server_drafts != told_->server_drafts) {
    tune.set_draft(wanted.server_drafts);
  }
  told_ = wanted;
  has_tuned_ = true;
}

void Session::CancelMoot() {
  while (const std::optional<uint64_t> moot = drafting_.CancelMoot()) Act(CancelDraft{*moot});
}

void Session::DriveDrafter() {
  if (!replying()) return;
  while (const std::optional<Drafting::Batch> batch = drafting_.NextBatch(now_)) {
    tally_.stats().nodes_expanded += batch->contexts.size();
    Act(Draft{batch->number, committed(), transcript_->reply_begin(), batch->nodes,
              batch->contexts});
  }
}

void Session::SendGrowth() {
  if (!replying() || !attachment_.TakesGrowth()) return;
  const bool drafts_here = !told_ || !told_->server_drafts;
  if (const auto growth = drafts_here ? drafting_.NextGrowth(now_) : std::nullopt) {
    v1::Grow& grow = attachment_.AddGrow();
    drafting_.WriteGrowth(*growth, now_, grow);
    if (attachment_.growth_follows()) grow.clear_first_id();  // they rise without gaps (wire_ids.h)
    tally_.stats().nodes_sent += growth->nodes.size();
    SayPassNodes(grow);
  } else if (attachment_.OwesWord()) {
    SayPassNodes(attachment_.AddGrow());
  }
}

// In passing.
void Session::SayPassNodes(v1::Grow& grow) {
  const uint32_t chosen = Chosen().pass_nodes;
  if (!told_ || told_->pass_nodes == chosen) return;
  grow.set_pass_nodes(chosen);
  told_->pass_nodes = chosen;
  has_tuned_ = true;
}

void Session::Flush() {
  v1::ClientMessage* const message = attachment_.Next();
  if (message == nullptr) return;
  PadTo(options_.frame_bytes, *message);
  tally_.stats().bytes_up += message->ByteSizeLong();
  Act(Send{attachment_.link().stream(), message});
}

// The timer may be early: then it is set again.
void Session::ArmTimer() {
  const std::optional<MonotonicTime> deadline = attachment_.link().Deadline(replying());
  if (!deadline || (armed_ && *armed_ <= *deadline)) return;
  armed_ = deadline;
  Act(SetTimer{*deadline});
}

void Session::CheckInvariants() const {
  using Phase = Link::Phase;
  const Link& link = attachment_.link();
  OUTRIDER_CHECK(!ended_ || (!link.has_stream() && !replying()), "an ended session holds nothing");
  OUTRIDER_CHECK(!replying() || link.phase() != Phase::kIdle,
                 "a running reply has, or waits for, a stream");
  OUTRIDER_CHECK(link.phase() != Phase::kWaiting || replying(), "nobody waits for nothing");
  OUTRIDER_CHECK(size() <= options_.length_max + 1, "committed tokens fit into the context");
  attachment_.CheckInvariants();
  drafting_.CheckInvariants();
}

}  // namespace outrider
