// The engine on a GPU gives the bits of the one on this machine's processor: every type of weights
// it has kernels for but F16 and BF16, every family, few rows and many, prompts beside trees. With
// those two it is as near as rounding allows, and says that it is another.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "common/cuda/kernels/quant_products.h"
#include "common/engine/cpu_engine.h"
#include "common/kernels/isa.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/engine/engine_contract.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

std::vector<Logits> RowsOf(Engine& engine, std::span<const RunPart> parts) {
  EngineRun run = {.parts = parts};
  std::vector<Logits> logits(run.row_count(), Logits(engine.info().vocabulary_size));
  std::vector<LogitsOfRow> asked;
  for (uint32_t row = 0; row < logits.size(); ++row) asked.push_back({row, logits[row]});
  run.logits = asked;
  OUTRIDER_CHECK_OK(engine.Run(run));
  return logits;
}

// A prompt; then a pass over a tree, beside another prompt; then what is committed of it, and on.
std::vector<Logits> Story(Engine& engine) {
  const Tokens prompt = RandomTokens(37, 1), other = RandomTokens(9, 2), root = {7}, last = {8};
  const Bush bush = MakeBush(10, 3);
  const SequenceId a = OrDie(engine.Open()), b = OrDie(engine.Open());
  OUTRIDER_CHECK_OK(engine.Reserve(a, 37, 0));
  const RunPart reading = {.sequence = a, .chain = prompt};
  std::vector<Logits> all = RowsOf(engine, {&reading, 1});
  engine.Commit(a, 37, {});

  OUTRIDER_CHECK_OK(engine.Reserve(a, 4, 10));
  OUTRIDER_CHECK_OK(engine.Reserve(b, 9, 0));
  const RunPart mixed[] = {{.sequence = a, .chain = root, .nodes = bush.nodes},
                           {.sequence = b, .chain = other}};
  for (Logits& logits : RowsOf(engine, mixed)) all.push_back(std::move(logits));
  const uint32_t path[] = {bush.nodes[0].slot};
  engine.Commit(a, 1, path);

  OUTRIDER_CHECK_OK(engine.Reserve(a, 1, 0));
  const RunPart next = {.sequence = a, .chain = last};
  for (Logits& logits : RowsOf(engine, {&next, 1})) all.push_back(std::move(logits));
  engine.Close(a);
  engine.Close(b);
  return all;
}

// Both engines over one random model.
class BesideTheProcessors : public testing::TestWithParam<std::tuple<const char*, TensorType>> {
 protected:
  BesideTheProcessors() {
    const auto [family, type] = GetParam();
    const std::string path = dir_.File("model.gguf");
    WriteRandomModel(SmallModel(family), type, path);
    const EngineOptions options = {.sequence_count_max = 2, .node_count_max = 16};
    gpu_ = OrDie(MakeGpuEngine(path, options, *pool_, OrDie(OpenQueue())));
    cpu_ = OrDie(LoadCpuEngine(*OrDie(ModelFile::Open(path)), path, options, KernelsFor(BestIsa()),
                               *pool_, nullptr));
  }

  const ScratchDir dir_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<Engine> gpu_, cpu_;
};

class SameAsTheProcessors : public BesideTheProcessors {};

TEST_P(SameAsTheProcessors, ToTheBit) {
  const std::vector<Logits> actual = Story(*gpu_), expected = Story(*cpu_);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t row = 0; row < actual.size(); ++row) {
    ASSERT_EQ(
        std::memcmp(actual[row].data(), expected[row].data(), actual[row].size() * sizeof(float)),
        0)
        << "row " << row << ": " << actual[row][0] << " for " << expected[row][0];
  }
}

class NearTheProcessors : public BesideTheProcessors {};

double Norm(const Logits& logits) {
  double squares = 0;
  for (const float logit : logits) squares += double{logit} * logit;
  return std::sqrt(squares);
}

double Distance(const Logits& a, const Logits& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(squares);
}

// Of all rows together. A float's second term is rounded by half a unit in its last place at most,
// this way or that: by 2^-17 of the float as the root of the mean square, and so is a result, beside
// which the roundings of its additions are little. What that does to a key or value is little too;
// but those are kept as halves, and so large a part of 2^-11 as it is, so many of them become the
// next half: by a mean square of 2^-11 times the above for every layer's keys, and values. Twice the
// root of that is let pass, for what layers make of it.
double ToleranceFor(uint32_t layer_count) {
  const double of_product = 0x1p-17;
  return 2 * std::sqrt(2 * layer_count * 0x1p-11 * of_product);
}

TEST_P(NearTheProcessors, AsFarAsRoundingGoes) {
  const std::vector<Logits> actual = Story(*gpu_), expected = Story(*cpu_);
  ASSERT_EQ(actual.size(), expected.size());
  const double tolerance = ToleranceFor(gpu_->spec().layer_count());
  // A row by itself may see a half that is another where others see none.
  const double row_tolerance = 4 * tolerance;
  uint32_t clear_count = 0;
  double apart_squares = 0, norm_squares = 0;
  for (size_t row = 0; row < actual.size(); ++row) {
    const double apart = Distance(actual[row], expected[row]), norm = Norm(expected[row]);
    ASSERT_TRUE(apart <= row_tolerance * norm) << "row " << row << ": " << apart / norm;
    apart_squares += apart * apart;
    norm_squares += norm * norm;
    // A largest logit that leads by more than any two of them may be off is the largest here too.
    Logits ordered = expected[row];
    std::ranges::partial_sort(ordered, ordered.begin() + 2, std::greater());
    if (!(ordered[0] - ordered[1] > 2 * row_tolerance * norm)) continue;
    ++clear_count;
    EXPECT_EQ(std::ranges::max_element(actual[row]) - actual[row].begin(),
              std::ranges::max_element(expected[row]) - expected[row].begin())
        << "row " << row;
  }
  EXPECT_TRUE(apart_squares <= tolerance * tolerance * norm_squares)
      << std::sqrt(apart_squares / norm_squares);
  EXPECT_GT(apart_squares, 0) << "it is another order of additions";
  EXPECT_GE(2 * clear_count, actual.size());
}

// Nobody takes the one for the other, nor a model in whose products they agree for one where not.
TEST_P(NearTheProcessors, ByAnotherNumericsId) {
  EXPECT_NE(gpu_->info().numerics_id, cpu_->info().numerics_id);
  const ModelSpec& spec = gpu_->spec();
  EXPECT_NE(gpu_->info().numerics_id,
            NumericsId::Of(spec, gpu_->info().content_hash,
                           Concat("cuda, segments of ", gpu::kQuantSegment), "f16"));
}

std::string NameOf(const testing::TestParamInfo<BesideTheProcessors::ParamType>& tried) {
  return Concat(std::get<0>(tried.param), "_", Info(std::get<1>(tried.param)).name);
}

INSTANTIATE_TEST_SUITE_P(Families, SameAsTheProcessors,
                         testing::Combine(testing::Values("llama", "mistral", "qwen2", "qwen3",
                                                          "gpt2"),
                                          testing::Values(TensorType::kQ8_0)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Experts, SameAsTheProcessors,
                         testing::Combine(testing::Values("mixtral", "qwen2moe", "qwen3moe",
                                                          "olmoe"),
                                          testing::Values(TensorType::kQ8_0)),
                         NameOf);
// The laws of every engine hold where rows meet at experts.
INSTANTIATE_TEST_SUITE_P(Experts, EngineContract, testing::Values("qwen2moe"),
                         [](const auto& family) { return std::string(family.param); });
INSTANTIATE_TEST_SUITE_P(TypesOfExperts, SameAsTheProcessors,
                         testing::Combine(testing::Values("mixtral"),
                                          testing::Values(TensorType::kF32, TensorType::kQ4_0,
                                                          TensorType::kQ4_K, TensorType::kQ5_K,
                                                          TensorType::kQ6_K)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Types, SameAsTheProcessors,
                         testing::Combine(testing::Values("llama"),
                                          testing::Values(TensorType::kF32, TensorType::kQ4_0,
                                                          TensorType::kQ4_K, TensorType::kQ5_K,
                                                          TensorType::kQ6_K)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Floats, NearTheProcessors,
                         testing::Combine(testing::Values("llama", "gpt2"),
                                          testing::Values(TensorType::kF16, TensorType::kBF16)),
                         NameOf);

}  // namespace
}  // namespace outrider
