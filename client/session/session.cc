#include "client/session/session.h"

#include <algorithm>
#include <utility>

#include "client/session/growth_message.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/speculation/wire_options.h"

namespace outrider {
namespace {

// Attempts without progress after which even a lost session is opened again only after back-off.
constexpr uint32_t kEagerAttemptsMax = 8;
// What one event may add: Truncate, Append, Append of a reply, growth.
constexpr size_t kMessagesPerEvent = 4;

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

absl::Status Session::Take(const v1::Opened& opened) {
  if (link_.phase() != Link::Phase::kAttaching || !session_.empty()) {
    return absl::InternalError("the verifier has answered an Open that was not asked");
  }
  if (opened.session().empty() || opened.token().empty()) {
    return absl::InternalError("the verifier has opened a session without name or token");
  }
  if (opened.sketch_nodes_max() == 0 || opened.pass_nodes() == 0) {
    return absl::InternalError("the verifier has opened a session that takes no drafted nodes");
  }
  OUTRIDER_RETURN_IF_ERROR(ReadTokens(opened.tokens()));
  if (!numerics_id_.empty() && opened.numerics_id() != numerics_id_) {
    Act(Report{FailedPrecondition("the session has moved from numerics id ", numerics_id_, " to ",
                                  opened.numerics_id(),
                                  ", whose target may write another text from here on")});
  }
  numerics_id_ = opened.numerics_id();
  session_ = opened.session();
  resume_token_ = opened.token();
  nonce_.reset();
  verdicts_seen_ = opened.verdict();
  edits_ = 0;
  edited_from_.reset();
  if (opened.length_max() > 0) length_max_ = std::min(options_.length_max, opened.length_max());
  LimitDraft(opened);
  BeginEpoch();
  return CatchUp(asked_length_, tokens_, opened.finish(), std::nullopt);
}

absl::Status Session::Take(const v1::Resumed& resumed) {
  if (link_.phase() != Link::Phase::kAttaching || session_.empty()) {
    return absl::InternalError("the verifier has answered a Resume that was not asked");
  }
  OUTRIDER_RETURN_IF_ERROR(ReadTokens(resumed.tokens()));
  const size_t shared = std::min<size_t>(asked_length_, resumed.length());
  if (resumed.length() - shared != tokens_.size() || resumed.edits() > edits_) {
    return absl::DataLossError("the verifier's tokens do not add up to its length");
  }
  resume_token_ = resumed.token();
  verdicts_seen_ = resumed.verdict();
  BeginEpoch();
  if (resumed.edits() == edits_) {
    edited_from_.reset();
    return CatchUp(shared, tokens_, resumed.finish(), resumed.hash());
  }
  // The tokens are those of a past.
  const auto ours = committed().subspan(shared);
  const auto agree = std::ranges::mismatch(ours, tokens_).in1 - ours.begin();
  edits_ = resumed.edits();
  edited_from_.reset();
  TellEdits(resumed.length(), shared + static_cast<size_t>(agree));
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
  hint_ = {*leaf, static_cast<TokenId>(hint.next()), std::min(hint.probability(), 255u) / 255.0};
  sketcher_->Hinted(*hint_, now_);
  return absl::OkStatus();
}

absl::Status Session::Take(const v1::Verdict& verdict) {
  if (!link_.attached()) return absl::InternalError("a verdict has come before an epoch");
  if (verdict.number() <= verdicts_seen_) return absl::OkStatus();
  if (verdict.number() != verdicts_seen_ + 1) {
    return absl::InternalError(
        Concat("verdict ", verdicts_seen_ + 1, " has not come, but ", verdict.number()));
  }
  if (verdict.edits() < edits_) {  // of a past
    verdicts_seen_ = verdict.number();
    return absl::OkStatus();
  }
  NodeId leaf = Sketch::kRoot;
  OUTRIDER_RETURN_IF_ERROR(ReadVerdict(verdict, leaf));
  verdicts_seen_ = verdict.number();
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
  const std::string name = Concat("verdict ", verdict.number());
  if (!replying() || verdict.edits() > edits_) {
    return absl::InternalError(Concat(name, " is of a reply that was not asked for"));
  }
  const std::optional<NodeId> node = wire_ids_.InSketch(verdict.leaf());
  if (!node || (*node != Sketch::kRoot && sketcher_->sketch().Find(*node) == nullptr)) {
    return absl::InternalError(
        Concat(name, " names node ", verdict.leaf(), ", which was not sent"));
  }
  leaf = *node;
  sketcher_->sketch().PathTo(leaf, tokens_);
  if (!IsToken(verdict.next())) {
    return absl::InternalError(Concat(name, " names no token"));
  }
  tokens_.push_back(static_cast<TokenId>(verdict.next()));
  if (!transcript_->Fits(tokens_) || verdict.length() != size() + tokens_.size() ||
      !transcript_->HashesTo(tokens_, verdict.hash())) {
    return absl::InternalError(Concat(name, " is about other tokens than those here"));
  }
  return absl::OkStatus();
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

// --- streams ---

void Session::Attach() {
  Act(OpenStream{link_.Ask(now_)});
  outbox_.Clear();
  if (session_.empty()) {
    WriteOpen(outbox_.AddOpen());
  } else {
    WriteResume(outbox_.AddResume());
  }
}

void Session::WriteOpen(v1::Open& open) {
  if (!nonce_) {
    nonce_ = random_bits_();
    asked_length_ = size();
  }
  const auto prompt = committed().first(asked_length_);
  open.set_nonce(*nonce_);
  open.mutable_prompt()->Add(prompt.begin(), prompt.end());
  open.set_reply_tokens(
      static_cast<uint32_t>(asked_length_ - transcript_->history().reply_begin()));
  ToWire(options_.sampling, *open.mutable_sampling());
  WriteStops(*open.mutable_stops());
  open.set_tokenizer_fingerprint(options_.tokenizer_fingerprint);
  open.set_numerics_id(options_.numerics_id);
  open.set_pass_nodes(options_.sketch.pass_node_count_max);
  open.set_dry_policy(options_.dry_policy);
  open.set_length_max(options_.length_max);
  open.set_hints(options_.hints);
  open.set_attempt(attempt());
}

void Session::WriteStops(v1::Stops& stops) const {
  ToWire(options_.stops, stops);
  stops.set_continues_text(continues_text_);
}

void Session::WriteResume(v1::Resume& resume) {
  asked_length_ = std::min(edited_from_.value_or(size()), size());
  resume.set_session(session_);
  resume.set_token(resume_token_);
  resume.set_length(static_cast<uint32_t>(asked_length_));
  resume.set_hash(transcript_->history().HashAt(asked_length_));
  resume.set_attempt(attempt());
}

// The verifier has answered. It has no growth, and is sent what there is.
void Session::BeginEpoch() {
  ++stats_.attachments;
  times_.Attached(link_.asked_at(), now_);
  link_.Answered(now_);
  sketcher_->Renew(0);
  ForgetSent();
}

void Session::LimitDraft(const v1::Opened& opened) {
  Sketcher::Options options = options_.sketch;
  options.node_count_max = std::min(options.node_count_max, opened.sketch_nodes_max());
  options.pass_node_count_max = std::min(options.pass_node_count_max, opened.pass_nodes());
  if (options.node_count_max < sketcher_->sketch().node_count_max()) MakeSketcher(options);
  sketcher_->SetPassNodeCountMax(options.pass_node_count_max);
}

void Session::Lost(const absl::Status& why, Duration at_least) {
  CloseStreamIfAny();
  if (!replying()) return;
  const uint32_t attempts = link_.attempts();
  if (link_.Wait(now_, at_least, random_bits_())) return;
  Finish(absl::Status(why.code(), Concat(Message(why), " (", attempts, " attempts)")));
}

// The verifier does not know the session any more, or knows another one.
void Session::Reopen(const absl::Status& why) {
  const bool had_one = !session_.empty();
  session_.clear();
  nonce_.reset();
  if (!had_one || link_.attempts() >= kEagerAttemptsMax) return Lost(why);
  CloseStreamIfAny();
  if (!replying()) return;
  ++stats_.reopenings;
  Attach();
}

void Session::CloseStreamIfAny() {
  if (link_.has_stream()) Act(CloseStream{link_.stream()});
  link_.Rest();
  outbox_.Clear();
}

void Session::Finish(const absl::Status& status) {
  CloseStreamIfAny();
  if (replying()) ShowRest(transcript_->EndReply());
  ended_ = true;
  Act(End{status});
}

bool Session::IsCurrent(StreamNumber stream) const {
  return link_.has_stream() && stream == link_.stream();
}

// --- what one side has committed and the other has not ---

// Both have the first `shared` tokens; after them the verifier has `tokens`, and then `hash`.
absl::Status Session::CatchUp(size_t shared, std::span<const TokenId> tokens, v1::Finish finish,
                              std::optional<uint64_t> hash) {
  const absl::Status drifted =
      absl::DataLossError("the verifier has committed other tokens than those here");
  const auto ours = committed().subspan(shared);
  const auto agree = static_cast<size_t>(std::ranges::mismatch(ours, tokens).in1 - ours.begin());
  const size_t server_length = shared + tokens.size();
  if (agree < ours.size()) {
    if (agree < tokens.size() || finish != v1::FINISH_NONE) return drifted;
    if (hash && *hash != transcript_->history().HashAt(server_length)) return drifted;
    SendMissing(server_length);
    return absl::OkStatus();
  }
  const auto missed = tokens.subspan(agree);
  if (!transcript_->Fits(missed) || (hash && !transcript_->HashesTo(missed, *hash))) return drifted;
  if (missed.empty() && finish == v1::FINISH_NONE) return absl::OkStatus();
  link_.Progressed(now_);
  stats_.tokens += missed.size();
  MoveRoot(missed);
  CommitReply(missed, finish);
  return absl::OkStatus();
}

// Of the verifier's tokens, from before edits that it has not seen, the first `common` are ours.
void Session::TellEdits(size_t server_length, size_t common) {
  // So that an Append begins the reply.
  common = std::min(common, transcript_->history().reply_begin() - 1);
  if (server_length > common) SendTruncate(common);
  SendMissing(common);
}

void Session::SendMissing(size_t server_length) {
  const size_t reply_begin = transcript_->history().reply_begin();
  if (server_length < reply_begin) SendAppend(server_length, reply_begin, /*reply=*/false);
  const size_t written = std::max(server_length, reply_begin);
  if (written < size()) SendAppend(written, size(), /*reply=*/true);
}

void Session::SendAppend(size_t begin, size_t end, bool reply) {
  v1::Append& append = outbox_.AddAppend();
  const auto tokens = committed().subspan(begin, end - begin);
  append.mutable_tokens()->Add(tokens.begin(), tokens.end());
  append.set_length(static_cast<uint32_t>(begin));
  append.set_reply(reply);
  if (!reply) WriteStops(*append.mutable_stops());
  CountEdit(begin);
}

void Session::SendTruncate(size_t length) {
  outbox_.AddTruncate().set_length(static_cast<uint32_t>(length));
  CountEdit(length);
}

// --- the committed tokens ---

absl::Status Session::CheckTurn(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return InvalidArgument("a turn has no tokens");
  if (tokens.size() + size() > length_max_) {
    return ResourceExhausted("a turn of ", tokens.size(), " tokens after ", size(),
                             " does not fit into a context of ", length_max_);
  }
  if (!transcript_->Fits(tokens)) {
    return InvalidArgument("a turn has tokens outside the vocabulary");
  }
  return absl::OkStatus();
}

void Session::BeginReply() {
  transcript_->BeginReply(continues_text_);
  times_.Restart();
  sketcher_->Restart(0);
}

// The reply ends by the user's wish, and `length` tokens remain.
void Session::EndReply(size_t length) {
  std::string withheld = transcript_->EndReply();
  if (length == size()) ShowRest(std::move(withheld));
  transcript_->Truncate(length);
  Edited(length);
}

// The tokens were cut to `length`, which the verifier is told now or when it can be.
void Session::Edited(size_t length) {
  if (link_.attached()) {
    SendTruncate(length);
  } else {
    CountEdit(length);
  }
}

// An edit begins an epoch.
void Session::CountEdit(size_t length) {
  ++edits_;
  edited_from_ = std::min(edited_from_.value_or(length), length);
  outbox_.DropGrowth();
  ForgetSent();
}

void Session::ForgetSent() {
  wire_ids_.Clear();
  times_.Restart();
  hint_.reset();
}

void Session::CommitReply(std::span<const TokenId> tokens, v1::Finish finish) {
  Transcript::Shown shown = transcript_->Take(tokens, finish);
  Act(Commit{committed().last(shown.taken), std::move(shown.text), shown.finish});
  if (shown.ended_here) Edited(size());
}

void Session::ShowRest(std::string text) {
  if (!text.empty()) Act(Commit{{}, std::move(text), v1::FINISH_NONE});
}

// Down these tokens, of which no verdict has told: as the fewest verdicts that could have.
void Session::MoveRoot(std::span<const TokenId> tokens) {
  const Sketch& sketch = sketcher_->sketch();
  while (!tokens.empty()) {
    NodeId leaf = Sketch::kRoot;
    size_t depth = 0;
    while (depth + 1 < tokens.size()) {
      const Sketch::Node* const child = sketch.Child(leaf, tokens[depth]);
      if (child == nullptr) break;
      leaf = child->id;
      ++depth;
    }
    committed_.clear();
    sketcher_->Decided(leaf, tokens[depth], now_, committed_);
    tokens = tokens.subspan(depth + 1);
  }
  wire_ids_.Retain(sketch);
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

void Session::Count(const v1::Verdict& verdict, NodeId leaf) {
  ++stats_.passes;
  stats_.tokens += tokens_.size();
  stats_.nodes_accepted += tokens_.size() - 1;
  if (hint_ && hint_->leaf == leaf && hint_->next == tokens_.back()) ++stats_.hints_right;
  hint_.reset();
  stats_.nodes_passed += verdict.times().nodes();
}

// --- after every event ---

void Session::Advance() {
  DriveDrafter();
  SendGrowth();
  Flush();
  ArmTimer();
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
