#include "client/session/attachment.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"

namespace outrider {
namespace {

// Attempts without progress after which even a lost session is opened again only after back-off.
constexpr uint32_t kEagerAttemptsMax = 8;

// Names of sessions and tokens are 16 bytes; another server's may be longer, but both go back with
// every Resume.
absl::Status CheckName(const std::string& name) {
  constexpr size_t kLengthMax = 256;
  if (name.size() <= kLengthMax) return absl::OkStatus();
  return absl::InternalError(Concat("the verifier names a session by ", name.size(),
                                    " bytes, more than the ", kLengthMax, " that are kept"));
}

}  // namespace

// --- streams ---

uint64_t Attachment::Ask(MonotonicTime now) {
  const uint64_t stream = link_.Ask(now);
  queue_.Clear();
  if (name_.empty()) {
    WriteOpen(queue_.AddOpen());
  } else {
    WriteResume(queue_.AddResume());
  }
  return stream;
}

void Attachment::WriteOpen(v1::Open& open) {
  if (!nonce_) {
    nonce_ = random_bits_();
    asked_length_ = transcript_.size();
  }
  const auto prompt = transcript_.tokens().first(asked_length_);
  open.set_nonce(*nonce_);
  SetPrompt(prompt, open);
  open.set_reply_tokens(static_cast<uint32_t>(asked_length_ - transcript_.reply_begin()));
  ToWire(options_.sampling, *open.mutable_sampling());
  WriteStops(*open.mutable_stops());
  open.set_tokenizer_fingerprint(options_.tokenizer_fingerprint);
  open.set_numerics_id(options_.numerics_id);
  open.set_pass_nodes(options_.sketch.pass_node_count_max);
  open.set_dry_policy(options_.TurnsOr(options_.dry_policy));
  open.set_length_max(options_.length_max);
  open.set_hints(options_.WantsHints(options_.dry_policy != v1::DRY_POLICY_ALONE));
  open.set_attempt(attempt());
  open.set_frame_bytes(options_.frame_bytes);
}

void Attachment::WriteStops(v1::Stops& stops) const {
  ToWire(options_.stops, stops);
  stops.set_continues_text(transcript_.continues_text());
}

void Attachment::WriteResume(v1::Resume& resume) {
  asked_length_ = edits_.untouched().value_or(transcript_.size());
  resume.set_session(name_);
  resume.set_token(resume_token_);
  resume.set_length(static_cast<uint32_t>(asked_length_));
  resume.set_hash(transcript_.history().HashAt(asked_length_));
  resume.set_attempt(attempt());
  resume.set_frame_bytes(options_.frame_bytes);
}

std::optional<uint64_t> Attachment::Leave() {
  const std::optional<uint64_t> stream =
      link_.has_stream() ? std::optional(link_.stream()) : std::nullopt;
  link_.Rest();
  queue_.Clear();
  return stream;
}

bool Attachment::Wait(MonotonicTime now, Duration at_least) {
  return link_.Wait(now, at_least, random_bits_());
}

bool Attachment::ForgetSession() {
  const bool had_one = !name_.empty();
  name_.clear();
  nonce_.reset();
  return had_one && link_.attempts() < kEagerAttemptsMax;
}

bool Attachment::ForgetOpen() {
  return std::exchange(nonce_, std::nullopt).has_value();
}

// --- answers ---

absl::StatusOr<Attachment::Answer> Attachment::Opened(const v1::Opened& opened, MonotonicTime now) {
  if (link_.phase() != Link::Phase::kAttaching || !name_.empty()) {
    return absl::InternalError("the verifier has answered an Open that was not asked");
  }
  if (opened.session().empty() || opened.token().empty()) {
    return absl::InternalError("the verifier has opened a session without name or token");
  }
  OUTRIDER_RETURN_IF_ERROR(CheckName(opened.session()));
  OUTRIDER_RETURN_IF_ERROR(CheckName(opened.token()));
  if (opened.sketch_nodes_max() == 0 || opened.pass_nodes() == 0) {
    return absl::InternalError("the verifier has opened a session that takes no drafted nodes");
  }
  OUTRIDER_RETURN_IF_ERROR(ReadTokens(opened.tokens()));
  name_ = opened.session();
  resume_token_ = opened.token();
  numerics_id_ = Printable(opened.numerics_id());
  nonce_.reset();
  verdicts_seen_ = verdicts_told_ = opened.verdict();
  growth_follows_ = opened.growth_follows();
  edits_.Agree(0);
  BeginEpoch(now);
  return Answer{asked_length_, tokens_, opened.finish(), std::nullopt, /*is_of_a_past=*/false};
}

absl::StatusOr<Attachment::Answer> Attachment::Resumed(const v1::Resumed& resumed,
                                                       MonotonicTime now) {
  if (link_.phase() != Link::Phase::kAttaching || name_.empty()) {
    return absl::InternalError("the verifier has answered a Resume that was not asked");
  }
  OUTRIDER_RETURN_IF_ERROR(CheckName(resumed.token()));
  OUTRIDER_RETURN_IF_ERROR(ReadTokens(resumed.tokens()));
  const size_t shared = std::min<size_t>(asked_length_, resumed.length());
  if (resumed.length() - shared != tokens_.size() || resumed.edits() > edits_.made()) {
    return absl::DataLossError("the verifier's tokens do not add up to its length");
  }
  resume_token_ = resumed.token();
  verdicts_seen_ = verdicts_told_ = resumed.verdict();
  const bool is_of_a_past = resumed.edits() < edits_.made();
  edits_.Agree(resumed.edits());
  BeginEpoch(now);
  return Answer{shared, tokens_, resumed.finish(), resumed.hash(), is_of_a_past};
}

void Attachment::BeginEpoch(MonotonicTime now) {
  link_.Answered(now);
  ++epoch_;
}

absl::Status Attachment::ReadTokens(const google::protobuf::RepeatedField<uint32_t>& wire) {
  tokens_.clear();
  if (static_cast<uint32_t>(wire.size()) > options_.length_max) {
    return InvalidArgument("the verifier has written ", wire.size(), " tokens into a context of ",
                           options_.length_max);
  }
  for (const uint32_t token : wire) {
    if (!transcript_.IsToken(token)) {
      return InvalidArgument("the verifier has written token ", token,
                             ", which is outside the vocabulary");
    }
    tokens_.push_back(static_cast<TokenId>(token));
  }
  return absl::OkStatus();
}

bool Attachment::Counts(const v1::Verdict& verdict) {
  ++verdicts_seen_;
  edits_.TakenIn(verdict.edits());
  return !edits_.in_doubt();
}

// --- messages up ---

void Attachment::TellTruncate(size_t length) {
  if (attached()) queue_.AddTruncate().set_length(static_cast<uint32_t>(length));
  MakeEdit(length);
}

void Attachment::TellAppend(size_t begin, size_t end, bool reply) {
  if (attached()) {
    v1::Append& append = queue_.AddAppend();
    const auto tokens = transcript_.tokens().subspan(begin, end - begin);
    append.mutable_tokens()->Add(tokens.begin(), tokens.end());
    append.set_length(static_cast<uint32_t>(begin));
    append.set_reply(reply);
    if (!reply) WriteStops(*append.mutable_stops());
  }
  MakeEdit(begin);
}

void Attachment::TellMissing(size_t length) {
  const size_t reply_begin = transcript_.reply_begin();
  const size_t size = transcript_.size();
  if (length < reply_begin) TellAppend(length, reply_begin, /*reply=*/false);
  const size_t written = std::max(length, reply_begin);
  if (written < size) TellAppend(written, size, /*reply=*/true);
}

void Attachment::TellEdited(size_t common) {
  // So that an Append begins the reply.
  common = std::min(common, transcript_.reply_begin() - 1);
  // Even if there is nothing to cut yet: a target that does not wait may be writing on.
  TellTruncate(common);
  TellMissing(common);
}

// An edit begins an epoch: growth from before it grows from a root that is gone.
void Attachment::MakeEdit(size_t length) {
  edits_.Make(length);
  queue_.DropGrowth();
  ++epoch_;
}

v1::Grow& Attachment::AddGrow() {
  v1::Grow& grow = queue_.AddGrow();
  if (!growth_follows_ || verdicts_seen_ != verdicts_told_) grow.set_seen(verdicts_seen_);
  verdicts_told_ = verdicts_seen_;
  return grow;
}

void Attachment::SayFarewell(MonotonicTime now) {
  queue_.DropGrowth();
  queue_.AddClose();
  link_.Close(now);
}

void Attachment::CheckInvariants() const {
  OUTRIDER_CHECK(link_.phase() != Link::Phase::kAttaching || name_.empty() == nonce_.has_value(),
                 "what is asked is either Open or Resume");
  OUTRIDER_CHECK(edits_.untouched().value_or(0) <= transcript_.size(),
                 "what edits have left is there");
}

}  // namespace outrider
