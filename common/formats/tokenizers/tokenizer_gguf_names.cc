#include "common/formats/tokenizers/tokenizer_gguf_names.h"

#include "common/base/status.h"

namespace outrider {
namespace {

using PreTokenizer = TokenizerSpec::PreTokenizer;

// Many names share their rules: llama.cpp's converter tells models apart by a checksum and names
// them one by one. The first of several equal rows is the one we write.
constexpr PreName kPreNames[] = {
    {"gpt-2", PreTokenizer::kGpt2, false, false},
    {"olmo", PreTokenizer::kGpt2, true, false},
    {"phi-2", PreTokenizer::kGpt2, false, false},
    {"roberta-bpe", PreTokenizer::kGpt2, false, false},
    {"llama-bpe", PreTokenizer::kLlama3, false, true},
    {"llama3", PreTokenizer::kLlama3, false, true},
    {"llama-v3", PreTokenizer::kLlama3, false, true},
    {"dbrx", PreTokenizer::kLlama3, false, false},
    {"smaug-bpe", PreTokenizer::kLlama3, false, false},
    {"qwen2", PreTokenizer::kQwen2, true, false},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2, true, false},
};

}  // namespace

std::string TokenizerKey(std::string_view tail) {
  return Concat("tokenizer.ggml.", tail);
}

const PreName* FindPreName(std::string_view name) {
  for (const PreName& known : kPreNames) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string_view PreNameFor(const TokenizerSpec& spec) {
  if (spec.model != TokenizerSpec::Model::kByteLevelBpe) return "default";
  const PreName* nearest = nullptr;
  for (const PreName& known : kPreNames) {
    if (known.pre_tokenizer != spec.pre_tokenizer) continue;
    if (known.nfc == spec.nfc && known.ignore_merges == spec.ignore_merges) return known.name;
    if (nearest == nullptr) nearest = &known;
  }
  return nearest == nullptr ? "default" : nearest->name;
}

}  // namespace outrider
