// How a session comes to have a stream, and to know what its verifier knows.
#include <algorithm>
#include <utility>

#include "client/session/session.h"
#include "common/base/status.h"
#include "common/speculation/wire_options.h"

namespace outrider {
namespace {

// Attempts without progress after which even a lost session is opened again only after back-off.
constexpr uint32_t kEagerAttemptsMax = 8;

}  // namespace

// --- streams ---

bool Session::IsCurrent(StreamNumber stream) const {
  return link_.has_stream() && stream == link_.stream();
}

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

// --- answers ---

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
  edits_ = edits_taken_in_ = 0;
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
  edits_taken_in_ = resumed.edits();
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
  TellEdits(shared + static_cast<size_t>(agree));
  return absl::OkStatus();
}

// The verifier has answered. It has no growth, and is sent what there is.
void Session::BeginEpoch() {
  ++stats_.attachments;
  told_dry_.reset();
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

}  // namespace outrider
