// tiktoken's text form: "IQ== 0", a token's bytes in base64 and its rank, which is its id.
//
// Such a file has no merges: tiktoken joins whichever neighbours make the token of lowest rank. The
// same as merges: every way to cut a token into two tokens is a merge, ordered by the whole's rank.
#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/name_index.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/base64.h"
#include "common/formats/tokenizers/byte_alphabet.h"
#include "common/formats/tokenizers/text_lines.h"
#include "common/formats/tokenizers/tokenizer_files.h"
#include "common/formats/tokenizers/vocabulary.h"

namespace outrider {
namespace {

// Llama 3's longest token is 128 spaces. Finding the merges of a token takes the square of its
// length, so the length needs a bound.
constexpr size_t kLongestToken = 512;

absl::Status ReadLine(std::string_view line, Vocabulary& vocabulary) {
  const size_t space = std::min(line.find(' '), line.size());
  const std::optional<std::string> bytes = DecodeBase64(line.substr(0, space));
  const std::string_view digits = line.substr(std::min(space + 1, line.size()));
  int64_t rank = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
  if (!bytes || bytes->empty() || error != std::errc() || end != digits.data() + digits.size()) {
    return InvalidArgument(vocabulary.name(), ": line ", Quote(line),
                           " is not a token in base64 and its rank");
  }
  if (bytes->size() > kLongestToken) {
    return InvalidArgument(vocabulary.name(), ": token ", rank, " is ", bytes->size(),
                           " bytes long; at most ", kLongestToken, " are allowed");
  }
  return vocabulary.Place(rank, SpellBytes(*bytes));
}

void FindMerges(TokenizerSpec& spec) {
  NameIndex ids;
  ids.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    ids.emplace(spec.tokens[id].text, static_cast<uint32_t>(id));
  }
  for (const TokenizerSpec::Token& token : spec.tokens) {  // ids are ranks
    const std::string_view whole = token.text;
    const size_t first = spec.merges.size();
    for (size_t cut = 1; cut < whole.size(); ++cut) {
      const auto left = ids.find(whole.substr(0, cut));
      if (left == ids.end()) continue;
      const auto right = ids.find(whole.substr(cut));
      if (right != ids.end()) spec.merges.emplace_back(left->second, right->second);
    }
    std::sort(spec.merges.begin() + static_cast<ptrdiff_t>(first), spec.merges.end());
  }
}

// The 256 special tokens that Llama 3's own code puts behind the ranks.
absl::Status AddLlama3Specials(Vocabulary& vocabulary) {
  constexpr int kCount = 256;
  std::vector<std::string> names = {
      "begin_of_text",
      "end_of_text",
      "reserved_special_token_0",
      "reserved_special_token_1",
      "finetune_right_pad_id",
      "step_id",
      "start_header_id",
      "end_header_id",
      "eom_id",
      "eot_id",
      "python_tag",
      "image",
  };
  for (int i = 2; names.size() < kCount; ++i) {
    names.push_back(Concat("reserved_special_token_", i));
  }
  const auto first = static_cast<TokenId>(vocabulary.spec().tokens.size());
  for (TokenId i = 0; i < kCount; ++i) {
    OUTRIDER_RETURN_IF_ERROR(vocabulary.Add(
        first + i, {.text = Concat("<|", names[static_cast<size_t>(i)], "|>"), .special = true}));
  }
  TokenizerSpec& spec = vocabulary.spec();
  spec.bos = first;
  spec.eos = first + 1;
  spec.padding = first + 4;
  spec.eom = first + 8;
  spec.eot = first + 9;
  spec.add_bos = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TokenizerSpec> TokenizerFromTiktoken(std::string_view text,
                                                    TokenizerSpec::PreTokenizer pre_tokenizer,
                                                    const std::string& name) {
  TokenizerSpec spec;
  spec.model = TokenizerSpec::Model::kByteLevelBpe;
  spec.pre_tokenizer = pre_tokenizer;
  spec.nfc = pre_tokenizer == TokenizerSpec::PreTokenizer::kQwen2;
  spec.ignore_merges = true;  // a piece that has a rank is one token
  Vocabulary vocabulary(name, spec);
  OUTRIDER_RETURN_IF_ERROR(ForEachLine(
      text, [&vocabulary](std::string_view line) { return ReadLine(line, vocabulary); }));
  if (spec.tokens.empty()) return InvalidArgument(name, ": holds no tokens");
  FindMerges(spec);
  if (pre_tokenizer == TokenizerSpec::PreTokenizer::kLlama3) {
    OUTRIDER_RETURN_IF_ERROR(AddLlama3Specials(vocabulary));
  }
  OUTRIDER_RETURN_IF_ERROR(vocabulary.Finish());
  return spec;
}

}  // namespace outrider
