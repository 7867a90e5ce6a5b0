// The engine on a GPU gives the bits of the one on this machine's processor: every type of weights
// it has kernels for, every family, few rows and many, prompts beside trees.
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

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

class SameAsTheProcessors : public testing::TestWithParam<std::tuple<const char*, TensorType>> {};

TEST_P(SameAsTheProcessors, ToTheBit) {
  const auto [family, type] = GetParam();
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel(family), type, path);
  const std::unique_ptr<ThreadPool> pool = OrDie(ThreadPool::Create(2));
  const EngineOptions options = {.sequence_count_max = 2, .node_count_max = 16};
  const std::unique_ptr<Engine> gpu =
      OrDie(MakeGpuEngine(path, options, *pool, OrDie(OpenQueue())));
  const std::unique_ptr<ModelFile> model = OrDie(ModelFile::Open(path));
  const std::unique_ptr<Engine> cpu =
      OrDie(LoadCpuEngine(*model, path, options, KernelsFor(BestIsa()), *pool, nullptr));
  const std::vector<Logits> actual = Story(*gpu), expected = Story(*cpu);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t row = 0; row < actual.size(); ++row) {
    ASSERT_EQ(
        std::memcmp(actual[row].data(), expected[row].data(), actual[row].size() * sizeof(float)),
        0)
        << "row " << row << ": " << actual[row][0] << " for " << expected[row][0];
  }
}

std::string NameOf(const testing::TestParamInfo<SameAsTheProcessors::ParamType>& tried) {
  return Concat(std::get<0>(tried.param), "_", Info(std::get<1>(tried.param)).name);
}

INSTANTIATE_TEST_SUITE_P(Families, SameAsTheProcessors,
                         testing::Combine(testing::Values("llama", "mistral", "qwen2", "qwen3",
                                                          "gpt2", "mixtral", "qwen3moe", "olmoe",
                                                          "gemma2", "gemma3", "cohere2", "exaone4",
                                                          "phi3", "smollm3", "granite", "olmo2",
                                                          "stablelm", "qwen2moe", "gptoss"),
                                          testing::Values(TensorType::kQ8_0)),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Types, SameAsTheProcessors,
                         testing::Combine(testing::Values("llama"),
                                          testing::Values(TensorType::kF32, TensorType::kF16,
                                                          TensorType::kBF16, TensorType::kQ4_0,
                                                          TensorType::kQ4_K, TensorType::kQ5_K,
                                                          TensorType::kQ6_K)),
                         NameOf);

}  // namespace
}  // namespace outrider
