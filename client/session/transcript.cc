#include "client/session/transcript.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/speculation/wire_options.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<Transcript>> Transcript::Create(StopOptions stops,
                                                               const Tokenizer& tokenizer,
                                                               uint32_t length_max) {
  stops.at_end_of_generation = false;
  OUTRIDER_ASSIGN_OR_RETURN(StopConditions conditions,
                            StopConditions::Create(std::move(stops), tokenizer));
  // A target computes length_max tokens, and the last of them has a successor.
  const TokenHistory::Options options = {.vocabulary_size = tokenizer.vocabulary_size(),
                                         .capacity = size_t{length_max} + 1};
  return std::unique_ptr<Transcript>(new Transcript(options, std::move(conditions)));
}

Transcript::Transcript(const TokenHistory::Options& options, StopConditions stops)
    : capacity_(options.capacity), history_(options), stops_(std::move(stops)) {}

void Transcript::BeginReply(bool continues_text) {
  history_.StartReply();
  reply_.emplace(stops_, continues_text ? history_.tokens() : std::span<const TokenId>());
}

bool Transcript::Fits(std::span<const TokenId> tokens) const {
  const auto known = [&](TokenId token) {
    return token >= 0 && token < history_.vocabulary_size();
  };
  return tokens.size() <= capacity_ - size() && std::ranges::all_of(tokens, known);
}

uint64_t Transcript::HashAfter(std::span<const TokenId> tokens) const {
  uint64_t hash = history_.hash();
  for (const TokenId token : tokens) hash = TokenHistory::Extend(hash, token);
  return hash;
}

Transcript::Shown Transcript::Take(std::span<const TokenId> tokens, v1::Finish finish) {
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
