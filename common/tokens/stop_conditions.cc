#include "common/tokens/stop_conditions.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// There is room for those of most replies.
constexpr size_t kFirstMarks = 16;

}  // namespace

absl::StatusOr<StopConditions> StopConditions::Create(StopOptions options,
                                                      const Tokenizer& tokenizer) {
  for (const TokenId token : options.end_tokens) {
    if (token < 0 || token >= tokenizer.vocabulary_size()) {
      return InvalidArgument("end token ", token, " is outside the vocabulary of 0 to ",
                             tokenizer.vocabulary_size() - 1);
    }
  }
  if (options.max_tokens == 0u) {
    return InvalidArgument("max_tokens is 0: ask for at least one token");
  }
  OUTRIDER_ASSIGN_OR_RETURN(StopStrings strings, StopStrings::Create(options.strings));
  return StopConditions(std::move(options), std::move(strings), tokenizer);
}

StopConditions::StopConditions(StopOptions options, StopStrings strings, const Tokenizer& tokenizer)
    : tokenizer_(&tokenizer),
      at_end_of_generation_(options.at_end_of_generation),
      end_tokens_(std::move(options.end_tokens)),
      strings_(std::move(strings)),
      max_tokens_(options.max_tokens) {
  AddSpelledTokens(options.strings);
  std::sort(end_tokens_.begin(), end_tokens_.end());
}

// Special tokens that a stop string spells.
void StopConditions::AddSpelledTokens(const std::vector<std::string>& strings) {
  if (strings.empty()) return;
  for (TokenId token = 0; token < tokenizer_->vocabulary_size(); ++token) {
    if (!tokenizer_->IsSpecial(token)) continue;
    const auto spells = std::find(strings.begin(), strings.end(), tokenizer_->TokenBytes(token));
    if (spells != strings.end()) end_tokens_.push_back(token);
  }
}

bool StopConditions::IsEndToken(TokenId token) const {
  return (at_end_of_generation_ && tokenizer_->IsEndOfGeneration(token)) ||
         std::binary_search(end_tokens_.begin(), end_tokens_.end(), token);
}

Reply::Reply(const StopConditions& stops, std::span<const TokenId> before)
    : stops_(stops), detokenizer_(stops.tokenizer()), scanner_(stops.strings()) {
  detokenizer_.Skip(before);
  marks_.reserve(kFirstMarks);
  marks_.push_back({detokenizer_, scanner_});
}

Reply::Step Reply::Take(std::span<const TokenId> tokens) {
  OUTRIDER_CHECK(!finish_, "a reply that has ended takes no more tokens");
  Step step;
  while (step.taken < tokens.size() && !finish_) {
    finish_ = TakeOne(tokens[step.taken++], step.text);
    if (!finish_ && token_count_ % kMarkTokens == 0) marks_.push_back({detokenizer_, scanner_});
  }
  step.finish = finish_;
  return step;
}

void Reply::Truncate(std::span<const TokenId> tokens) {
  OUTRIDER_CHECK(tokens.size() <= token_count_, "what is kept has been taken");
  const size_t kept = std::min(tokens.size() / kMarkTokens, marks_.size() - 1);
  while (marks_.size() > kept + 1) marks_.pop_back();
  detokenizer_ = marks_.back().detokenizer;
  scanner_ = marks_.back().scanner;
  token_count_ = static_cast<uint32_t>(kept * kMarkTokens);
  finish_.reset();
  Take(tokens.subspan(token_count_));
}

std::string Reply::Abandon() {
  return finish_ ? std::string() : RestOfText();
}

std::optional<FinishReason> Reply::TakeOne(TokenId token, std::string& text) {
  ++token_count_;
  if (stops_.IsEndToken(token)) {
    text += RestOfText();
    return FinishReason::kEndToken;
  }
  text += scanner_.Add(detokenizer_.Add(token));
  if (scanner_.matched()) return FinishReason::kStopString;
  if (token_count_ == stops_.max_tokens()) {
    text += RestOfText();
    return FinishReason::kTokenLimit;
  }
  return std::nullopt;
}

// What detokeniser and scanner hold back. A half character ends as U+FFFD, which a stop string may
// contain too.
std::string Reply::RestOfText() {
  std::string text = scanner_.Add(detokenizer_.Finish());
  if (!scanner_.matched()) text += scanner_.Finish();
  return text;
}

}  // namespace outrider
