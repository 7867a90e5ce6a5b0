// Logits and greedy text against transformers. The expected values are made by
// tests/golden/logits.py, which says what is in the files.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/engine.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

constexpr size_t kGreedyTokens = 64;

struct Golden {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> positions;
  std::vector<std::vector<float>> exact;   // by position
  std::vector<std::vector<float>> halves;  // with keys and values rounded as our cache has them
  std::vector<TokenId> greedy;
};

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  std::vector<T> Take(size_t count) {
    std::vector<T> values(count);
    OUTRIDER_CHECK(count * sizeof(T) <= bytes_.size() - at_, "the golden file is whole");
    std::memcpy(values.data(), bytes_.data() + at_, count * sizeof(T));
    at_ += count * sizeof(T);
    return values;
  }
  uint32_t Count() { return Take<uint32_t>(1)[0]; }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

Golden ReadGolden(const std::string& model) {
  Reader reader(ReadFile(TestFile("logits/" + model + ".bin")));
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
  return golden;
}

// |a - b| / |b|; NaN when a has one.
double Distance(std::span<const float> a, std::span<const float> b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference / norm);
}

struct Case {
  const char* name;
  const char* directory;
};

class GoldenLogits : public testing::TestWithParam<Case> {};

TEST_P(GoldenLogits, AreThoseOfTransformers) {
  const Golden golden = ReadGolden(GetParam().name);
  Engine engine(TestFile(GetParam().directory));
  const auto sequence = engine.NewSequence();
  const std::vector<std::vector<float>> logits = engine.Read(*sequence, golden.tokens);
  for (size_t i = 0; i < golden.positions.size(); ++i) {
    SCOPED_TRACE(golden.positions[i]);
    ASSERT_EQ(logits[golden.positions[i]].size(), golden.exact[i].size());
    EXPECT_LE(Distance(logits[golden.positions[i]], golden.halves[i]), 1e-4);
    // Eleven significant bits of keys and values are all that sets us apart from the exact ones.
    EXPECT_LE(Distance(logits[golden.positions[i]], golden.exact[i]), 2e-3);
  }
}

TEST_P(GoldenLogits, GiveTheSameGreedyText) {
  const Golden golden = ReadGolden(GetParam().name);
  Engine engine(TestFile(GetParam().directory));
  const auto sequence = engine.NewSequence();
  std::vector<TokenId> text = {golden.greedy[0]};
  while (text.size() < golden.greedy.size()) {
    const std::vector<float> logits = engine.Read(*sequence, {&text.back(), 1})[0];
    text.push_back(static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin()));
  }
  EXPECT_EQ(text, golden.greedy);
}

INSTANTIATE_TEST_SUITE_P(
    Models, GoldenLogits,
    testing::Values(Case{"llama", "models/llama"},                // grouped heads, llama3 scaling
                    Case{"llama_biased", "models/llama_biased"},  // biases everywhere
                    Case{"llama_linear", "logits/llama_linear"},  // tied, all heads, linear scaling
                    Case{"mistral", "models/mistral"},            // window of 16
                    Case{"mistral_short_window", "logits/mistral_short_window"},
                    Case{"qwen2", "models/qwen2"},  // yarn
                    Case{"qwen3", "models/qwen3"},  // tied, norms of queries and keys
                    Case{"gpt2", "models/gpt2"},    // tied
                    Case{"gpt2_untied", "logits/gpt2_untied"}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace outrider
