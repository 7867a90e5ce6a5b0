// tokenizer.json and its neighbours: whatever they say, the readers answer in bounded time and
// memory, and what they accept holds together.
//
// The first byte picks the reader, the rest is its file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace {

using outrider::TokenId;
using outrider::TokenizerSpec;

void CheckSpec(const TokenizerSpec& spec) {
  const auto count = static_cast<TokenId>(spec.tokens.size());
  for (const auto& [left, right] : spec.merges) {
    OUTRIDER_CHECK(left >= 0 && left < count && right >= 0 && right < count, "merges join tokens");
  }
  for (const TokenizerSpec::AddedToken& token : spec.added_tokens) {
    OUTRIDER_CHECK(token.id >= 0 && token.id < count && !token.text.empty(),
                   "added tokens are tokens");
  }
  for (const auto& id : {spec.bos, spec.eos, spec.eot, spec.eom, spec.unknown, spec.padding}) {
    OUTRIDER_CHECK(!id || (*id >= 0 && *id < count), "special ids are tokens");
  }
  OUTRIDER_CHECK((!spec.add_bos || spec.bos) && (!spec.add_eos || spec.eos),
                 "what is added exists");
}

absl::StatusOr<TokenizerSpec> Read(uint8_t reader, std::string_view file) {
  using PreTokenizer = TokenizerSpec::PreTokenizer;
  switch (reader % 4) {
    case 0:
      return outrider::TokenizerFromJson(file, "tokenizer.json");
    case 1: {
      // vocab.json, a NUL, merges.txt
      const size_t end = std::min(file.find('\0'), file.size());
      return outrider::TokenizerFromVocabAndMerges(file.substr(0, end),
                                                   file.substr(std::min(end + 1, file.size())),
                                                   PreTokenizer::kGpt2, "vocab.json");
    }
    case 2:
      return outrider::TokenizerFromTiktoken(file, PreTokenizer::kLlama3, "tokenizer.model");
    default: {
      auto spec = outrider::TokenizerFromVocabAndMerges(
          R"({"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4})", "a b", PreTokenizer::kGpt2, "small");
      const absl::Status status =
          outrider::ApplyTokenizerConfig(file, "tokenizer_config.json", *spec);
      if (!status.ok()) return status;
      return spec;
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::StatusOr<TokenizerSpec> spec =
      Read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  if (spec.ok()) CheckSpec(*spec);
  return 0;
}
