// What the CPU's target promises beyond the contract of all (target_contract_test.cc): its memory.
#include "common/engine/cpu_target.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/base/allocation_count.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/target_session.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

class CpuTargetTest : public testing::Test {
 protected:
  CpuTargetTest() {
    path_ = dir_.File("model.gguf");
    WriteRandomModel(SmallModel("llama"), TensorType::kQ8_0, path_);
  }

  std::unique_ptr<EngineTarget> Load(EngineOptions options = {.sequence_count_max = 4}) {
    return OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, options,
                               KernelsFor(BestIsa()), *pool_, nullptr));
  }

  ScratchDir dir_;
  std::string path_;
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
};

// --- what it takes ---

TEST_F(CpuTargetTest, PagesComeBackAsSoonAsTheyAreNotNeeded) {
  const auto target = Load({.node_count_max = 7, .row_count_max = 16});
  const uint32_t all = target->engine().ledger().free_count(0);
  TargetSession session(*target, {});
  session.Read(RandomTokens(41, 1));
  const uint32_t free = target->engine().ledger().free_count(0);
  const absl::Status status = target->Prefill(session.id(), RandomTokens(100, 2),
                                              [](uint32_t done, uint32_t) { return done < 32; });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
  EXPECT_EQ(target->engine().ledger().free_count(0), free - 1)
      << "72 positions are one page more than 40";
  session.Truncate(41);
  OUTRIDER_CHECK_OK(session.Run(std::vector<DraftedNode>{{1, DraftedNode::kRoot}}).status);
  OUTRIDER_CHECK_OK(target->Close(session.id()));
  EXPECT_EQ(target->engine().ledger().free_count(0), all) << "nothing is left behind";
}

TEST_F(CpuTargetTest, TheSteadyStateDoesNotAllocate) {
  const auto target = Load();
  TargetSession session(*target, Sampled(3));
  const std::vector<TokenId> prompt = RandomTokens(40, 3);
  session.Read(prompt);
  const std::vector<TokenId> text = session.Write(30);
  const std::vector<DraftedNode> nodes = DraftOf(text, 5);
  session.Truncate(40);
  const uint64_t before = AllocationCount();
  for (int i = 0; i < 10; ++i) {
    const Pass pass = session.PassOver(nodes);
    PassResult result;
    target->Run({}, {&pass, 1}, {&result, 1});
    ASSERT_EQ(result.outcome.node, 9u);
    ASSERT_TRUE(target->Commit(session.id(), result.outcome).ok());
    ASSERT_TRUE(target->Truncate(session.id(), 20).ok());
    ASSERT_TRUE(target->Prefill(session.id(), std::span(prompt).subspan(20), nullptr).ok());
  }
  EXPECT_EQ(AllocationCount() - before, 0u);
}

// --- bad input ---

TEST_F(CpuTargetTest, AFullCacheIsOneSequencesTrouble) {
  // Eight pages of 32 positions, and one of them for nodes.
  const ModelSpec spec = OrDie(ModelSpec::From(*OrDie(ModelFile::Open(path_)), path_));
  const auto target = Load({.sequence_count_max = 4,
                            .node_count_max = 7,
                            .kv_bytes = 8 * MemoryLayout(spec).page_bytes(0)});
  TargetSession first(*target, {});
  first.Read(RandomTokens(97, 1));
  TargetSession second(*target, {});
  second.Read(RandomTokens(97, 2));
  TargetSession third(*target, {});
  const std::vector<TokenId> prompt = RandomTokens(97, 3);
  ExpectRefusal(target->Prefill(third.id(), prompt, nullptr), absl::StatusCode::kResourceExhausted,
                "the KV cache has 2 of 8 pages free and 3 are needed");
  EXPECT_EQ(OrDie(target->Length(third.id())), 0u);
  const std::vector<DraftedNode> nodes = {{4, DraftedNode::kRoot}};
  const Pass passes[] = {first.PassOver(nodes), second.PassOver(nodes)};
  PassResult results[2];
  target->Run({}, passes, results);
  EXPECT_TRUE(results[0].status.ok()) << results[0].status;
  ExpectRefusal(results[1].status, absl::StatusCode::kResourceExhausted, "pages free");
  OUTRIDER_CHECK_OK(target->Close(first.id()));
  EXPECT_TRUE(second.Run(nodes).status.ok());
}

TEST_F(CpuTargetTest, APromptThatFindsNoRoomLeavesTheLastPass) {
  const ModelSpec spec = OrDie(ModelSpec::From(*OrDie(ModelFile::Open(path_)), path_));
  const auto target = Load({.sequence_count_max = 2,
                            .node_count_max = 7,
                            .kv_bytes = 6 * MemoryLayout(spec).page_bytes(0)});
  TargetSession other(*target, {});
  other.Read(RandomTokens(97, 1));
  TargetSession session(*target, {});
  session.Read(RandomTokens(33, 2));
  const std::vector<DraftedNode> nodes = {{4, DraftedNode::kRoot}, {5, 0}};
  OUTRIDER_CHECK_OK(session.Run(nodes).status);
  ExpectRefusal(target->Prefill(session.id(), RandomTokens(100, 3), nullptr),
                absl::StatusCode::kResourceExhausted, "has 0 of 6 pages free and 2 are needed");
  EXPECT_TRUE(target->Commit(session.id(), {1, 9}).ok());
  EXPECT_EQ(OrDie(target->Length(session.id())), 36u);
}

TEST_F(CpuTargetTest, ACacheWithoutRoomForAPassIsRefused) {
  ExpectRefusal(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, {.kv_bytes = 1},
                              KernelsFor(BestIsa()), *pool_, nullptr)
                    .status(),
                absl::StatusCode::kInvalidArgument,
                "a KV cache of 1 bytes is too small; the least is ");
}

TEST_F(CpuTargetTest, ARopeThatCannotBeIsRefusedByTheModelsName) {
  Hyperparameters model = SmallModel("llama");
  model.rope.scaling = RopeScaling::kYarn;
  model.rope.base = 0.5f;
  WriteRandomModel(model, TensorType::kQ8_0, path_);
  ExpectRefusal(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, {}, KernelsFor(BestIsa()),
                              *pool_, nullptr)
                    .status(),
                absl::StatusCode::kInvalidArgument,
                Concat(path_, ": llama: rope.freq_base (or rope_theta) is 0.5, must be above 1"));
}

}  // namespace
}  // namespace outrider
