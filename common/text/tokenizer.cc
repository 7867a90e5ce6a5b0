#include "common/text/tokenizer.h"

#include <cmath>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/text/added_tokens.h"
#include "common/text/byte_level_bpe.h"
#include "common/text/detokenizer.h"
#include "common/text/fingerprint.h"
#include "common/text/normalizer.h"
#include "common/text/sentencepiece_bpe.h"
#include "common/text/text_model.h"
#include "common/text/token_table.h"
#include "common/text/unicode/unicode.h"
#include "common/text/unigram.h"

namespace outrider {

namespace {

bool IsByteLevel(const TokenizerSpec& spec) {
  return spec.model == TokenizerSpec::Model::kByteLevelBpe;
}

bool IsValidUtf8(std::string_view text) {
  std::string repaired;
  return ValidUtf8(text, repaired).data() == text.data();
}

absl::Status CheckTokens(const TokenizerSpec& spec) {
  if (spec.tokens.empty()) return InvalidArgument("the vocabulary is empty");
  if (spec.tokens.size() > Tokenizer::kMaxTokens) {
    return InvalidArgument("a vocabulary of ", spec.tokens.size(), " tokens, at most ",
                           Tokenizer::kMaxTokens, " are supported");
  }
  size_t total_bytes = 0;
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const TokenizerSpec::Token& token = spec.tokens[id];
    total_bytes += token.text.size();
    if (token.text.size() > Tokenizer::kMaxTokenBytes) {
      return InvalidArgument("token ", id, " has ", token.text.size(), " bytes, at most ",
                             Tokenizer::kMaxTokenBytes, " are supported");
    }
    if (IsByteLevel(spec)) continue;
    if (!std::isfinite(token.score))
      return InvalidArgument("the score of token ", id, " is ", token.score);
    if (!IsValidUtf8(token.text)) return InvalidArgument("the text of token ", id, " is not UTF-8");
  }
  if (total_bytes > Tokenizer::kMaxVocabularyBytes) {
    return InvalidArgument("the tokens have ", total_bytes, " bytes together, at most ",
                           Tokenizer::kMaxVocabularyBytes, " are supported");
  }
  return absl::OkStatus();
}

absl::Status CheckId(const TokenizerSpec& spec, std::string_view name, TokenId id) {
  if (id >= 0 && static_cast<size_t>(id) < spec.tokens.size()) return absl::OkStatus();
  return InvalidArgument(name, " is token ", id, ", the vocabulary has ", spec.tokens.size());
}

absl::Status CheckSpecialIds(const TokenizerSpec& spec) {
  const std::pair<std::string_view, std::optional<TokenId>> ids[] = {
      {"bos", spec.bos}, {"eos", spec.eos},         {"eot", spec.eot},
      {"eom", spec.eom}, {"unknown", spec.unknown}, {"padding", spec.padding}};
  for (const auto& [name, id] : ids) {
    if (id) OUTRIDER_RETURN_IF_ERROR(CheckId(spec, name, *id));
  }
  if (spec.add_bos && !spec.bos)
    return InvalidArgument("bos is to be added, and there is no bos token");
  if (spec.add_eos && !spec.eos)
    return InvalidArgument("eos is to be added, and there is no eos token");
  return absl::OkStatus();
}

absl::Status CheckAddedTokens(const TokenizerSpec& spec) {
  for (const TokenizerSpec::AddedToken& added : spec.added_tokens) {
    OUTRIDER_RETURN_IF_ERROR(
        CheckId(spec, Concat("the added token \"", added.text, "\""), added.id));
    if (added.text.empty()) return InvalidArgument("the added token ", added.id, " has no text");
    if (!IsValidUtf8(added.text))
      return InvalidArgument("the text of added token ", added.id, " is not UTF-8");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<TextModel>> CreateModel(const TokenizerSpec& spec) {
  switch (spec.model) {
    case TokenizerSpec::Model::kByteLevelBpe:
      return CreateByteLevelBpe(spec);
    case TokenizerSpec::Model::kSentencePieceBpe:
      return CreateSentencePieceBpe(spec);
    case TokenizerSpec::Model::kUnigram:
      return CreateUnigram(spec);
  }
  return InvalidArgument("the tokenizer model ", static_cast<int>(spec.model), " is none we know");
}

std::vector<TokenizerSpec::AddedToken> MatchedBeforeNormalizing(const TokenizerSpec& spec) {
  std::vector<TokenizerSpec::AddedToken> tokens;
  for (const auto& added : spec.added_tokens) {
    if (!added.normalized) tokens.push_back(added);
  }
  return tokens;
}

// Their texts are normalised like the text they are to be found in, prefix space included.
std::vector<TokenizerSpec::AddedToken> MatchedAfterNormalizing(const TokenizerSpec& spec,
                                                               const Normalizer& normalizer) {
  std::vector<TokenizerSpec::AddedToken> tokens;
  std::string storage;
  for (auto added : spec.added_tokens) {
    if (!added.normalized) continue;
    added.text = std::string(normalizer.Normalize(added.text, /*at_start=*/true, storage));
    if (!added.text.empty()) tokens.push_back(std::move(added));
  }
  return tokens;
}

}  // namespace

class Tokenizer::Impl {
 public:
  Impl(std::unique_ptr<const TokenizerSpec> spec, Normalizer normalizer,
       std::unique_ptr<TextModel> model)
      : spec_(std::move(spec)),
        table_(*spec_),
        fingerprint_(TokenizerFingerprint(*spec_)),
        raw_tokens_(MatchedBeforeNormalizing(*spec_)),
        normalizer_(std::move(normalizer)),
        normalized_tokens_(MatchedAfterNormalizing(*spec_, normalizer_)),
        model_(std::move(model)) {}

  const TokenizerSpec& spec() const { return *spec_; }
  const TokenTable& table() const { return table_; }
  uint64_t fingerprint() const { return fingerprint_; }

  void EncodeText(std::string_view text, bool parse_special, std::vector<TokenId>& ids) const {
    for (const AddedTokens::Section& section : raw_tokens_.Split(text, parse_special)) {
      if (section.token != nullptr) {
        ids.push_back(section.token->id);
      } else {
        EncodeRaw(section.text, /*at_start=*/section.text.data() == text.data(), parse_special,
                  ids);
      }
    }
  }

 private:
  void EncodeRaw(std::string_view text, bool at_start, bool parse_special,
                 std::vector<TokenId>& ids) const {
    std::string storage;
    const std::string_view normalized = normalizer_.Normalize(text, at_start, storage);
    if (normalized_tokens_.empty()) return EncodeNormalized(normalized, at_start, ids);
    for (const AddedTokens::Section& section :
         normalized_tokens_.Split(normalized, parse_special)) {
      if (section.token != nullptr) {
        ids.push_back(section.token->id);
      } else {
        EncodeNormalized(section.text, at_start && section.text.data() == normalized.data(), ids);
      }
    }
  }

  void EncodeNormalized(std::string_view text, bool at_start, std::vector<TokenId>& ids) const {
    normalizer_.ForEachText(text, at_start,
                            [&](std::string_view spelled) { model_->Encode(spelled, ids); });
  }

  const std::unique_ptr<const TokenizerSpec> spec_;  // the model points into it
  const TokenTable table_;
  const uint64_t fingerprint_;
  const AddedTokens raw_tokens_;
  const Normalizer normalizer_;
  const AddedTokens normalized_tokens_;
  const std::unique_ptr<const TextModel> model_;
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Create(TokenizerSpec spec) {
  OUTRIDER_RETURN_IF_ERROR(CheckTokens(spec));
  OUTRIDER_RETURN_IF_ERROR(CheckSpecialIds(spec));
  OUTRIDER_RETURN_IF_ERROR(CheckAddedTokens(spec));
  auto kept = std::make_unique<const TokenizerSpec>(std::move(spec));
  OUTRIDER_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Create(*kept));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<TextModel> model, CreateModel(*kept));
  return std::unique_ptr<Tokenizer>(new Tokenizer(
      std::make_unique<const Impl>(std::move(kept), std::move(normalizer), std::move(model))));
}

Tokenizer::Tokenizer(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

std::vector<TokenId> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 4 + 2);  // English: about four bytes a token
  const bool add_bos = options.add_special && spec().add_bos;
  const bool add_eos = options.add_special && spec().add_eos;
  if (add_bos) ids.push_back(*spec().bos);
  std::string repaired;
  impl_->EncodeText(ValidUtf8(text, repaired), options.parse_special, ids);
  if (add_eos) ids.push_back(*spec().eos);
  return ids;
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Add(id);
  text += detokenizer.Finish();
  return text;
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  return impl_->table().Printed(id);
}

bool Tokenizer::IsSpecial(TokenId id) const {
  return impl_->table().IsSpecial(id);
}

bool Tokenizer::IsEndOfGeneration(TokenId id) const {
  return impl_->table().IsEndOfGeneration(id);
}

int32_t Tokenizer::vocabulary_size() const {
  return static_cast<int32_t>(spec().tokens.size());
}

const TokenizerSpec& Tokenizer::spec() const {
  return impl_->spec();
}

uint64_t Tokenizer::fingerprint() const {
  return impl_->fingerprint();
}

}  // namespace outrider
