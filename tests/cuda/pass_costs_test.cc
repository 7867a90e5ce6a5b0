// What a pass costs, counted, is what the engine asks a device for; and what a pen makes of it.
#include "bench/cuda_check/pass_costs.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "common/cuda/testing/emulated_queue.h"
#include "common/engine/engine_target.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/engine/guesses.h"
#include "tests/engine/target_session.h"
#include "tests/model/engine.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

LlamaShape ShapeOf(const Hyperparameters& model) {
  return {.layer_count = model.block_count,
          .embedding_length = model.embedding_length,
          .head_count = model.head_count[0],
          .kv_head_count = model.head_count_kv[0],
          .head_length = model.key_length,
          .fed_length = model.feed_forward_length,
          .vocabulary_size = model.vocabulary_size};
}

// The emulated device's clock counts them.
TEST(PassCosts, KernelsAreThoseThatTheEngineAsksFor) {
  constexpr std::pair<TensorType, gpu::PanelKind> kTypes[] = {
      {TensorType::kF32, gpu::PanelKind::kF32},
      {TensorType::kF16, gpu::PanelKind::kF16},
      {TensorType::kQ8_0, gpu::PanelKind::kQ8_0},
      {TensorType::kQ4_K, gpu::PanelKind::kQ4_K}};
  const std::unique_ptr<ThreadPool> pool = OrDie(ThreadPool::Create(1));
  for (const auto& [type, kind] : kTypes) {
    const ScratchDir dir;
    const std::string path = dir.File("model.gguf");
    const Hyperparameters model = SmallModel("llama");
    WriteRandomModel(model, type, path);
    const std::unique_ptr<EngineTarget> target = OrDie(EngineTarget::Create(
        OrDie(MakeGpuEngine(path, {}, *pool, std::make_unique<EmulatedQueue>()))));
    TargetSession session(*target, {});
    session.Read(RandomTokens(9, 1));
    target->CollectDeviceWork();
    const std::vector<DraftedNode> nodes = {{14, DraftedNode::kRoot}, {24, 0}, {34, 0}};
    ASSERT_TRUE(session.Run(nodes).status.ok());
    EXPECT_EQ(target->CollectDeviceWork()->time,
              std::chrono::microseconds(CountPass(ShapeOf(model), kind, {4, 9}).kernel_count))
        << Info(type).name;
  }
}

TEST(PassCosts, ExitsKernelsAreThoseThatTheEngineAsksForBeside) {
  constexpr std::pair<TensorType, gpu::PanelKind> kTypes[] = {
      {TensorType::kF16, gpu::PanelKind::kF16}, {TensorType::kQ4_K, gpu::PanelKind::kQ4_K}};
  const std::unique_ptr<ThreadPool> pool = OrDie(ThreadPool::Create(1));
  for (const auto& [type, kind] : kTypes) {
    const ScratchDir dir;
    const std::string path = dir.File("model.gguf");
    const Hyperparameters model = SmallModel("llama");
    WriteRandomModel(model, type, path);
    auto queue = std::make_unique<EmulatedQueue>();
    const EmulatedQueue& asked = *queue;
    const std::unique_ptr<EngineTarget> target =
        OrDie(EngineTarget::Create(OrDie(MakeGpuEngine(path, {}, *pool, std::move(queue)))));
    const Engine& engine = target->engine();
    GuessKeeper keeper;
    OUTRIDER_CHECK_OK(target->AttachExits(
        RandomExits(engine.spec(), engine.info().content_hash, {0}, 16, 0.2f), "exits", {}));
    target->HearExits(&keeper);
    TargetSession session(*target, {});
    session.Read(RandomTokens(9, 1));
    const std::vector<DraftedNode> nodes = {{14, DraftedNode::kRoot}, {24, 0}, {34, 0}};
    ASSERT_TRUE(session.Run(nodes).status.ok());
    const ExitShape exit = {.rank = 16, .frequent_count = 29, .round_count = 2};
    EXPECT_EQ(asked.beside_count(), CountExit(ShapeOf(model), kind, exit, 4).kernel_count + 1)
        << Info(type).name << ": and one gathers";
  }
}

TEST(PassCosts, OfAnExitAreTheFormulas) {
  constexpr uint64_t kCandidates = 1024 + 256;
  const PassCosts one = CountExit(kLlama2_7B, gpu::PanelKind::kQ4_0, kUsualExit, 1);
  EXPECT_EQ(one.weight_bytes, kCandidates * 4096 * 18 / 32 + 2 * 64 * 4096 * 4);
  EXPECT_EQ(one.tile_multiplications, 8 * kCandidates * 4096);
  EXPECT_EQ(one.chain_links, kCandidates * 4096 / 32);
  EXPECT_EQ(one.float_multiplications, 2u * 64 * 4096);
  EXPECT_EQ(one.kernel_count, 9u);  // both products of candidates are one
  const PassCosts many = CountExit(kLlama2_7B, gpu::PanelKind::kBf16, kUsualExit, 64);
  EXPECT_EQ(many.weight_bytes, 4096 * (2 * kCandidates + 4 * 2 * 64));
  EXPECT_EQ(many.float_multiplications, 64u * 4096 * 2 * 64);
  EXPECT_EQ(many.tile_multiplications, 2 * 64 * kCandidates * 4096);
  EXPECT_EQ(many.kernel_count, 8u);
  // Four lines of nibbles and one of halves a block, a sector of each.
  EXPECT_EQ(GatheredBytesOfRound(kLlama2_7B, gpu::PanelKind::kQ4_0, kUsualExit),
            256u * 4096 / 32 * (5 * 32 + 18));
}

// 32 layers of 4 * 4096 * 4096 + 3 * 4096 * 11008 weights, and a head of 4096 * 32000.
constexpr uint64_t kWeights = 6'607'077'376;

TEST(PassCosts, OfLlama2AreTheFormulas) {
  const PassCosts one = CountPass(kLlama2_7B, gpu::PanelKind::kQ4_0, {1, 1024});
  EXPECT_EQ(one.weight_bytes, kWeights * 18 / 32);  // 32 nibbles and a half
  EXPECT_EQ(one.weight_reads, 1u);
  EXPECT_EQ(one.tile_multiplications, 8 * kWeights);  // seven rows of each tile are nobody's
  EXPECT_EQ(one.chain_links, kWeights / 32);
  EXPECT_EQ(one.float_multiplications, 32u * 32 * 1024 * 256);  // q.k, and the values' sum
  EXPECT_EQ(one.kv_bytes, 32u * 1024 * 2 * 4096 * 2);
  EXPECT_EQ(one.kv_asked_bytes, one.kv_bytes);
  // Queries, keys and values are one product, and so are gates and what they gate.
  EXPECT_EQ(one.kernel_count, 1 + 32 * 13 + 1 + 4u);

  const PassCosts many = CountPass(kLlama2_7B, gpu::PanelKind::kQ4_0, {16, 1024});
  EXPECT_EQ(many.weight_bytes, one.weight_bytes);
  EXPECT_EQ(many.weight_reads, 1u);
  EXPECT_EQ(many.tile_multiplications, 16 * kWeights);
  EXPECT_EQ(many.chain_links, 16 * one.chain_links);
  EXPECT_EQ(many.row_bytes, 16 * one.row_bytes);
  EXPECT_EQ(many.kv_bytes, one.kv_bytes);
  EXPECT_EQ(many.kv_asked_bytes, 16 * one.kv_bytes);

  const PassCosts floats = CountPass(kLlama2_7B, gpu::PanelKind::kF32, {64, 1024});
  EXPECT_EQ(floats.weight_bytes, 4 * kWeights);
  EXPECT_EQ(floats.weight_reads, 8u);
  EXPECT_EQ(floats.tile_multiplications, 0u);
  EXPECT_EQ(floats.float_multiplications, 64 * (kWeights + one.float_multiplications));
  EXPECT_EQ(floats.split_operations, 0u);
  // Nothing is quantised, and no products are one.
  EXPECT_EQ(floats.kernel_count, one.kernel_count + (3 - 4) * 32 - 1);
}

// A float of a row is two terms, a weight in F16 two. Few rows are split again for every 32
// outputs, many once for all products of theirs; weights for every 8 rows, or 32.
TEST(PassCosts, OfSplitFloatsAreTheFormulas) {
  const PassCosts floats = CountPass(kLlama2_7B, gpu::PanelKind::kF32, {64, 1024});
  const PassCosts many = CountPass(kLlama2_7B, gpu::PanelKind::kBf16, {64, 1024});
  EXPECT_EQ(many.weight_bytes, 2 * kWeights);
  EXPECT_EQ(many.weight_reads, 1u);
  EXPECT_EQ(many.tile_multiplications, 2 * 64 * kWeights);
  EXPECT_EQ(many.float_multiplications, floats.float_multiplications - 64 * kWeights);
  EXPECT_EQ(many.split_operations, 64 * (32 * (3 * 4096 + 11008) + 4096) * 3);
  EXPECT_EQ(many.kernel_count, floats.kernel_count + 4 * 32 + 1);

  const PassCosts few = CountPass(kLlama2_7B, gpu::PanelKind::kF16, {3, 1024});
  EXPECT_EQ(few.weight_bytes, many.weight_bytes);
  EXPECT_EQ(few.weight_reads, 1u);
  EXPECT_EQ(few.tile_multiplications, 4 * 8 * kWeights);  // five rows of each tile are nobody's
  EXPECT_EQ(few.split_operations, kWeights / 32 * 8 * 3 + 4 * kWeights);
}

// Two heads share a key and a value: there are half as many, and they are asked for as often.
TEST(PassCosts, SharedKeysAreAskedForByEachHead) {
  LlamaShape shape = kLlama2_7B;
  shape.kv_head_count = 16;
  const PassCosts shared = CountPass(shape, gpu::PanelKind::kQ4_0, {1, 1024});
  const PassCosts own = CountPass(kLlama2_7B, gpu::PanelKind::kQ4_0, {1, 1024});
  EXPECT_EQ(2 * shared.kv_bytes, own.kv_bytes);
  EXPECT_EQ(shared.kv_asked_bytes, own.kv_asked_bytes);
}

}  // namespace
}  // namespace outrider
