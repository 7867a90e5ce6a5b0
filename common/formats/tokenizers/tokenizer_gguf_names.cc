#include "common/formats/tokenizers/tokenizer_gguf_names.h"

#include "common/base/status.h"
#include "common/formats/tokenizers/tokenizer_files.h"

namespace outrider {
namespace {

using PreTokenizer = TokenizerSpec::PreTokenizer;

// Many names share their rules: llama.cpp's converter tells models apart by a checksum and names
// them one by one. The first of several equal rows is the one we write.
constexpr PreName kPreNames[] = {
    {"default", PreTokenizer::kDefault},
    {"gpt-2", PreTokenizer::kGpt2},
    {"phi-2", PreTokenizer::kGpt2},
    {"roberta-bpe", PreTokenizer::kGpt2},
    {"jina-es", PreTokenizer::kGpt2},
    {"jina-de", PreTokenizer::kGpt2},
    {"jina-v1-en", PreTokenizer::kGpt2},
    {"jina-v2-es", PreTokenizer::kGpt2},
    {"jina-v2-de", PreTokenizer::kGpt2},
    {"jina-v2-code", PreTokenizer::kGpt2},
    {"gigachat", PreTokenizer::kGpt2},
    {"a.x-4.0", PreTokenizer::kGpt2},
    {"mellum", PreTokenizer::kGpt2},
    {"modern-bert", PreTokenizer::kGpt2},
    {"jais", PreTokenizer::kGpt2},
    {"exaone4", PreTokenizer::kGpt2},
    {"trillion", PreTokenizer::kGpt2},
    {"granite-docling", PreTokenizer::kGpt2},
    {"olmo", PreTokenizer::kGpt2, {.nfc = true}},
    {"mpt", PreTokenizer::kGpt2, {.nfc = true}},
    {"llama-bpe", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"llama3", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"llama-v3", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"falcon3", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"falcon-h1", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"pixtral", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"midm-2.0", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"lfm2", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"jina-v5-nano", PreTokenizer::kLlama3, {.ignore_merges = true, .add_bos = true}},
    {"minicpm5", PreTokenizer::kMinicpm5, {.ignore_merges = true}},
    {"dbrx", PreTokenizer::kLlama3},
    {"smaug-bpe", PreTokenizer::kLlama3},
    {"glm4", PreTokenizer::kLlama3, {.ignore_merges = true}},
    {"glm5", PreTokenizer::kLlama3, {.ignore_merges = true}},
    {"chatglm-bpe", PreTokenizer::kLlama3},
    {"qwen2", PreTokenizer::kQwen2, {.nfc = true}},
    {"deepseek-r1-qwen", PreTokenizer::kQwen2, {.nfc = true}},
    {"megrez", PreTokenizer::kQwen2, {.nfc = true}},
    {"stablelm2", PreTokenizer::kQwen2},
    {"hunyuan", PreTokenizer::kQwen2},
    {"solar-open", PreTokenizer::kQwen2},
    {"grok-2", PreTokenizer::kQwen2},
    {"kormo", PreTokenizer::kQwen2},
    {"f2llmv2", PreTokenizer::kQwen2},
    {"bailingmoe", PreTokenizer::kQwen2},
    {"bailingmoe2", PreTokenizer::kQwen2},
    {"llada-moe", PreTokenizer::kQwen2},
    {"qwen35", PreTokenizer::kQwen35, {.nfc = true}},
    {"smollm", PreTokenizer::kSmollm},
    {"starcoder", PreTokenizer::kSmollm},
    {"refact", PreTokenizer::kSmollm},
    {"codeshell", PreTokenizer::kSmollm},
    {"exaone", PreTokenizer::kSmollm},
    {"minerva-7b", PreTokenizer::kSmollm},
    {"mellum2", PreTokenizer::kSmollm},
    {"command-r", PreTokenizer::kSmollm, {.nfc = true}},
    {"tekken", PreTokenizer::kTekken, {.ignore_merges = true, .add_bos = true}},
    {"gpt-4o", PreTokenizer::kGpt4o},
    {"llama4", PreTokenizer::kGpt4o},
    {"kanana2", PreTokenizer::kGpt4o},
    {"talkie", PreTokenizer::kGpt4o},
    {"minimax-m2", PreTokenizer::kGpt4o},
    {"granite-embed-multi-97m", PreTokenizer::kGpt4o, {.ignore_merges = true}},
    {"falcon", PreTokenizer::kFalcon},
    {"bloom", PreTokenizer::kBloom},
    {"gpt3-finnish", PreTokenizer::kBloom},
    {"poro-chat", PreTokenizer::kBloom},
    {"viking", PreTokenizer::kViking},
    {"deepseek-llm", PreTokenizer::kDeepseekLlm},
    {"deepseek-coder", PreTokenizer::kDeepseekCoder},
    {"deepseek-v3", PreTokenizer::kDeepseekV3},
    {"hunyuan-dense", PreTokenizer::kDeepseekV3},
    {"joyai-llm", PreTokenizer::kDeepseekV3},
    {"hy_v4", PreTokenizer::kDeepseekV3},
    {"spark2_5", PreTokenizer::kSpark},
    {"youtu", PreTokenizer::kYoutu, {.ignore_merges = true}},
    {"kimi-k2", PreTokenizer::kKimiK2},
    {"tiny_aya", PreTokenizer::kTinyAya},
    {"cohere2moe", PreTokenizer::kTinyAya},
    {"superbpe", PreTokenizer::kSuperBpe},
    {"afmoe", PreTokenizer::kAfmoe},
    {"laguna", PreTokenizer::kLaguna},
    {"seed-coder", PreTokenizer::kSeedCoder},
    {"ufakzeka", PreTokenizer::kUfakzeka},
    {"exaone-moe", PreTokenizer::kExaoneMoe},
    {"jais-2", PreTokenizer::kJais2},
    {"chameleon", PreTokenizer::kChameleon, {.add_bos = true}},
};

}  // namespace

std::string TokenizerKey(std::string_view tail) {
  return Concat("tokenizer.ggml.", tail);
}

std::span<const PreName> PreNames() {
  return kPreNames;
}

const PreName* FindPreName(std::string_view name) {
  for (const PreName& known : kPreNames) {
    if (known.name == name) return &known;
  }
  return nullptr;
}

std::string_view NameOf(PreTokenizer pre_tokenizer) {
  for (const PreName& known : kPreNames) {
    if (known.pre_tokenizer == pre_tokenizer) return known.name;
  }
  return "none";
}

bool MergesCharacters(std::string_view pre_name) {
  return pre_name == "gemma4" || pre_name == "granite-embed-multi-311m" || pre_name == "sarvam-moe";
}

std::string_view PreNameFor(const TokenizerSpec& spec) {
  if (spec.model != TokenizerSpec::Model::kByteLevelBpe) return "default";
  const PreName* nearest = nullptr;
  for (const PreName& known : kPreNames) {
    if (known.pre_tokenizer != spec.pre_tokenizer) continue;
    const PreName::Implied& implies = known.implies;
    if (implies.nfc == spec.nfc && implies.ignore_merges == spec.ignore_merges) return known.name;
    if (nearest == nullptr) nearest = &known;
  }
  return nearest == nullptr ? "default" : nearest->name;
}

}  // namespace outrider
