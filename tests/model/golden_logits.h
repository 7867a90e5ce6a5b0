// What transformers says of the tiny models: logits after some positions of a text, and what it
// writes itself. Made by tests/golden/logits.py, which says what is in the files.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "tests/test_files.h"

namespace outrider {

inline constexpr size_t kGreedyTokens = 64;

struct Golden {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> positions;
  std::vector<std::vector<float>> exact;   // by position
  std::vector<std::vector<float>> halves;  // with keys and values rounded as our cache has them
  std::vector<TokenId> greedy;
  // Of models with experts: by layer that has them, by token, the experts it went to, ascending.
  std::vector<std::vector<std::vector<uint32_t>>> routing;
};

class GoldenReader {
 public:
  explicit GoldenReader(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  std::vector<T> Take(size_t count) {
    std::vector<T> values(count);
    OUTRIDER_CHECK(count * sizeof(T) <= bytes_.size() - at_, "the golden file is whole");
    std::memcpy(values.data(), bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return values;
  }
  uint32_t Count() { return Take<uint32_t>(1)[0]; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

inline Golden ReadGolden(const std::string& model) {
  GoldenReader reader(ReadFile(TestFile("logits/" + model + ".bin")));
  Golden golden;
  golden.tokens = reader.Take<TokenId>(reader.Count());
  golden.positions = reader.Take<uint32_t>(reader.Count());
  const uint32_t vocabulary = reader.Count();
  for (auto* rows : {&golden.exact, &golden.halves}) {
    for (size_t i = 0; i < golden.positions.size(); ++i) {
      rows->push_back(reader.Take<float>(vocabulary));
    }
  }
  golden.greedy = reader.Take<TokenId>(kGreedyTokens + 1);
  if (reader.at_end()) return golden;
  golden.routing.resize(reader.Count());
  const uint32_t used_count = reader.Count();
  for (auto& layer : golden.routing) {
    for (size_t i = 0; i < golden.tokens.size(); ++i) {
      layer.push_back(reader.Take<uint32_t>(used_count));
    }
  }
  return golden;
}

// |a - b| / |b|; NaN when a has one.
inline double Distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

struct GoldenModel {
  const char* name;
  const char* directory;            // under tests/data
  double tolerance = 1e-4;          // with keys and values as halves
  uint32_t context_length_max = 0;  // of texts; 0: the model's
};

inline constexpr GoldenModel kGoldenModels[] = {
    {"llama", "models/llama"},                // grouped heads, llama3 scaling
    {"llama_biased", "models/llama_biased"},  // biases everywhere
    {"llama_linear", "logits/llama_linear"},  // tied, all heads, linear scaling
    {"mistral", "models/mistral"},            // window of 16
    {"mistral_short_window", "logits/mistral_short_window"},
    {"qwen2", "models/qwen2"},  // yarn
    {"qwen3", "models/qwen3"},  // tied, norms of queries and keys
    {"gpt2", "models/gpt2"},    // tied
    {"gpt2_untied", "logits/gpt2_untied"},
    {"mixtral", "models/mixtral"},
    {"qwen3_moe", "models/qwen3_moe"},  // a dense layer, then one with experts
    // Norms over all heads, weights that are not renormalised; where a float's last bit tips a key to
    // the next half, that is 2^-11 of one of its eight elements.
    {"olmoe", "models/olmoe", 2e-4},
    {"gemma", "logits/gemma"},    // one KV head
    {"gemma2", "logits/gemma2"},  // caps that bend, windows of 7
    {"gemma3", "logits/gemma3"},  // windows with a rope of their own, linear scaling
    {"phi3", "logits/phi3"},      // three quarters of a head turn, by the long factors
    {"phi3_short", "logits/phi3_short", 1e-4, 80},
    {"smollm3", "logits/smollm3"},        // one layer in four does not turn
    {"granite", "logits/granite"},        // four scales
    {"granitemoe", "logits/granitemoe"},  // and experts
    {"olmo2", "logits/olmo2"},            // norms after what they norm
    {"stablelm", "logits/stablelm"},      // layer norm, half of a head turns
    {"stablelm2", "logits/stablelm2"},    // parallel, each head by a layer norm of its own
    {"qwen2_moe", "logits/qwen2_moe"},    // a shared expert
    {"cohere2", "logits/cohere2"},        // parallel layers, layer norm without a bias
    {"gpt_oss", "logits/gpt_oss.gguf"},   // sinks, biases everywhere, clamped gates, windows of 7
    {"gpt_oss_saved", "logits/gpt_oss_saved"},  // gate and up by turns, rows and columns exchanged
    {"exaone4", "logits/exaone4"},              // windows that turn, by llama3 scaling
    {"ministral3", "logits/ministral3"},  // yarn of length 1, queries that grow every 16 positions
};

// gpt-oss as it is published: the experts of gpt_oss_saved in MXFP4, whose products round activations
// to eight bits.
inline constexpr GoldenModel kPackedModel = {"gpt_oss_saved", "logits/gpt_oss_packed"};

}  // namespace outrider
