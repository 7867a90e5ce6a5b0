#include "client/session/transcript.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/wire_options.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Transcript>> Transcript::Create(StopOptions stops,
                                                               const Tokenizer& tokenizer,
                                                               uint32_t length_max) {
  stops.at_end_of_generation = false;
  OUTRIDER_ASSIGN_OR_RETURN(StopConditions conditions,
                            StopConditions::Create(std::move(stops), tokenizer));
  return std::unique_ptr<Transcript>(new Transcript(length_max, tokenizer, std::move(conditions)));
}

// A target computes length_max tokens, and the last of them has a successor.
Transcript::Transcript(uint32_t length_max, const Tokenizer& tokenizer, StopConditions stops)
    : made_for_(length_max),
      length_max_(length_max),
      history_(
          {.vocabulary_size = tokenizer.vocabulary_size(), .capacity = size_t{length_max} + 1}),
      stops_(std::move(stops)) {}

absl::Status Transcript::CheckTurn(std::span<const TokenId> tokens) const {
  if (tokens.empty()) return InvalidArgument("a turn has no tokens");
  if (tokens.size() + size() > length_max_) {
    return ResourceExhausted("a turn of ", tokens.size(), " tokens after ", size(),
                             " does not fit into a context of ", length_max_,
                             "; begin anew, or ask for a longer context");
  }
  if (!Fits(tokens)) return InvalidArgument("a turn has tokens outside the vocabulary");
  return absl::OkStatus();
}

void Transcript::BeginReply(bool continues_text) {
  continues_text_ = continues_text;
  history_.StartReply();
  reply_.emplace(stops_, continues_text ? history_.tokens() : std::span<const TokenId>());
}

bool Transcript::Fits(std::span<const TokenId> tokens) const {
  const auto known = [&](TokenId token) {
    return token >= 0 && token < history_.vocabulary_size();
  };
  return tokens.size() <= size_t{made_for_} + 1 - size() && std::ranges::all_of(tokens, known);
}

uint64_t Transcript::HashAfter(std::span<const TokenId> tokens) const {
  uint64_t hash = history_.hash();
  for (const TokenId token : tokens) hash = TokenHistory::Extend(hash, token);
  return hash;
}

size_t Transcript::AgreeOn(size_t shared, std::span<const TokenId> theirs) const {
  const auto ours = tokens().subspan(shared);
  return static_cast<size_t>(std::ranges::mismatch(ours, theirs).in1 - ours.begin());
}

absl::StatusOr<Transcript::Difference> Transcript::Compare(size_t shared,
                                                           std::span<const TokenId> theirs,
                                                           v1::Finish finish,
                                                           std::optional<uint64_t> hash) const {
  const absl::Status drifted =
      absl::DataLossError("the verifier has committed other tokens than those here");
  const size_t agree = AgreeOn(shared, theirs);
  const size_t their_length = shared + theirs.size();
  if (shared + agree < size()) {
    // We are ahead, which a verifier that has ended the reply, or gone another way, denies.
    if (agree < theirs.size() || finish != v1::FINISH_NONE) return drifted;
    if (hash && *hash != history_.HashAt(their_length)) return drifted;
    return Difference{true, {}};
  }
  const auto missed = theirs.subspan(agree);
  if (!Fits(missed) || (hash && HashAfter(missed) != *hash)) return drifted;
  return Difference{false, missed};
}

Transcript::Shown Transcript::Commit(std::span<const TokenId> tokens, v1::Finish finish) {
  OUTRIDER_CHECK(replying(), "tokens are of a reply");
  // An end token has no text, and only the server knows which tokens are.
  const size_t end_tokens = finish == v1::FINISH_END_TOKEN && !tokens.empty() ? 1 : 0;
  Reply::Step step = reply_->Take(tokens.first(tokens.size() - end_tokens));
  Shown shown = {step.taken, std::move(step.text), ToWire(step.finish), step.finish.has_value()};
  if (!step.finish || (step.taken == tokens.size() && finish != v1::FINISH_NONE)) {
    shown.taken = tokens.size();
    shown.finish = finish;
    shown.ended_here = false;
    if (finish != v1::FINISH_NONE) shown.text += reply_->Abandon();
  }
  if (shown.finish != v1::FINISH_NONE) reply_.reset();
  OUTRIDER_CHECK_OK(history_.Append(tokens.first(shown.taken)));
  return shown;
}

std::string Transcript::EndReply() {
  OUTRIDER_CHECK(replying(), "there is a reply to end");
  std::string text = reply_->Abandon();
  reply_.reset();
  return text;
}

void Transcript::Truncate(size_t length) {
  OUTRIDER_CHECK(!replying(), "a running reply is ended first");
  OUTRIDER_CHECK_OK(history_.Truncate(length));
}

}  // namespace outrider
