#include "common/text/detokenizer.h"

#include <string_view>

#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

constexpr size_t kCharacterBytesMax = 4;

bool DropsFirstSpace(const TokenizerSpec& spec) {
  return spec.model != TokenizerSpec::Model::kByteLevelBpe &&
         spec.space_prefix != TokenizerSpec::SpacePrefix::kNever;
}

}  // namespace

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer),
      skip_special_(skip_special),
      drops_first_space_(DropsFirstSpace(tokenizer.spec())) {}

std::string Detokenizer::Add(TokenId id) {
  std::string text;
  if (!Prints(id)) return text;
  held_ += tokenizer_->TokenBytes(id);
  std::string_view bytes = held_;
  while (!bytes.empty()) {
    const Utf8Sequence sequence = FirstSequence(bytes);
    if (sequence.state == Utf8Sequence::State::kCut) break;
    const bool whole = sequence.state == Utf8Sequence::State::kWhole;
    const std::string_view character =
        whole ? bytes.substr(0, sequence.length) : kReplacementCharacter;
    if (!(at_start_ && drops_first_space_ && character == " ")) text += character;
    at_start_ = false;
    bytes.remove_prefix(sequence.length);
  }
  held_.erase(0, held_.size() - bytes.size());
  return text;
}

void Detokenizer::Skip(std::span<const TokenId> ids) {
  size_t first = ids.size();
  for (size_t bytes = 0; first > 0 && bytes < kCharacterBytesMax;) {
    --first;
    if (Prints(ids[first])) bytes += tokenizer_->TokenBytes(ids[first]).size();
  }
  for (const TokenId id : ids.subspan(first)) Add(id);
}

std::string Detokenizer::Finish() {
  std::string text(held_.empty() ? std::string_view() : kReplacementCharacter);
  held_.clear();
  at_start_ = true;
  return text;
}

}  // namespace outrider
