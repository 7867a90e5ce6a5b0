// The engine and the last key of a pass, the head: leased once a run, held while exits are attached,
// and when it cannot be read the run has not been.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/cpu_engine.h"
#include "common/kernels/isa.h"
#include "common/model/weights/resident_weights.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/engine/target_session.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

class HeadStore final : public WrappedStore {
 public:
  explicit HeadStore(ResidentWeights& weights) : WrappedStore(weights), weights_(weights) {}

  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override {
    if (fails) return absl::DataLossError("the flash is gone");
    ++taken;
    ++leases;
    return Lease<HeadWeights>(*this, key, weights_.head());
  }

  bool fails = false;
  int taken = 0;
  int leases = 0;  // at present

 private:
  void Release(const WeightKey&) override { --leases; }

  ResidentWeights& weights_;
};

class HeadLease : public testing::Test {
 protected:
  HeadLease() {
    const std::string path = dir_.File("model.gguf");
    WriteRandomModel(SmallModel("llama"), TensorType::kQ8_0, path);
    const auto file = OrDie(ModelFile::Open(path));
    const ModelSpec spec = OrDie(ModelSpec::From(*file, path));
    weights_ = OrDie(ResidentWeights::Load(*file, spec, path, *pool_, nullptr));
    store_ = std::make_shared<HeadStore>(*weights_);
    engine_ = OrDie(CpuEngine::Create(spec, store_, weights_->content_hash(),
                                      {.sequence_count_max = 2}, KernelsFor(BestIsa()), *pool_));
  }

  // The logits of every row of a chain and of two nodes below it.
  absl::StatusOr<std::vector<std::vector<float>>> Run(SequenceId sequence,
                                                      const std::vector<TokenId>& chain) {
    OUTRIDER_CHECK_OK(engine_->Reserve(sequence, static_cast<uint32_t>(chain.size()), 2));
    const EngineNode nodes[] = {{5, EngineNode::kChain, 0}, {6, 0, 1}};
    const RunPart part = {.sequence = sequence, .chain = chain, .nodes = nodes};
    std::vector<std::vector<float>> logits(part.row_count(), std::vector<float>(kVocabulary));
    std::vector<LogitsOfRow> asked;
    for (uint32_t row = 0; row < logits.size(); ++row) asked.push_back({row, logits[row]});
    EngineRun run = {.parts = {&part, 1}, .logits = asked};
    OUTRIDER_RETURN_IF_ERROR(engine_->Run(run));
    return logits;
  }

  const ScratchDir dir_;
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  std::unique_ptr<ResidentWeights> weights_;
  std::shared_ptr<HeadStore> store_;
  std::unique_ptr<CpuEngine> engine_;
};

TEST_F(HeadLease, IsTakenOnceARun) {
  const SequenceId sequence = OrDie(engine_->Open());
  OUTRIDER_CHECK_OK(Run(sequence, RandomTokens(140, 1)).status());  // several bands of logits
  EXPECT_EQ(store_->taken, 1);
  EXPECT_EQ(store_->leases, 0);
  OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 3, 0));
  const std::vector<TokenId> chain = {1, 2, 3};
  const RunPart part = {.sequence = sequence, .chain = chain};
  EngineRun silent = {.parts = {&part, 1}};
  OUTRIDER_CHECK_OK(engine_->Run(silent));
  EXPECT_EQ(store_->taken, 1) << "nobody asked for logits";
}

TEST_F(HeadLease, IsHeldWhileExitsAreAttached) {
  const TrainedExits exits =
      RandomExits(engine_->spec(), engine_->info().content_hash, {0}, 16, 0.2f);
  const TrainedExits of_another = RandomExits(engine_->spec(), 1, {0}, 16, 0.2f);
  GuessKeeper keeper;
  OUTRIDER_CHECK_OK(engine_->AttachExits(exits, "exits", {}, keeper));
  EXPECT_EQ(store_->leases, 1);
  EXPECT_FALSE(engine_->AttachExits(of_another, "exits", {}, keeper).ok());
  EXPECT_EQ(store_->leases, 1);
  OUTRIDER_CHECK_OK(engine_->AttachExits(exits, "exits", {}, keeper));
  EXPECT_EQ(store_->leases, 1) << "those of the exits that were there are given back";
  engine_->DetachExits();
  EXPECT_EQ(store_->leases, 0);
}

TEST_F(HeadLease, ThatCannotBeHadLeavesTheCommittedCellsAndNothingElse) {
  const SequenceId sequence = OrDie(engine_->Open());
  OUTRIDER_CHECK_OK(Run(sequence, RandomTokens(40, 2)).status());
  engine_->Commit(sequence, 40, {});
  const SequenceId fork = OrDie(engine_->Fork(sequence, 40));
  const auto expected = OrDie(Run(fork, {7, 8, 9}));
  engine_->Close(fork);
  engine_->DropNodes(sequence);
  const uint32_t free_count = engine_->ledger().free_count(0);
  store_->fails = true;
  EXPECT_EQ(Run(sequence, {1, 2, 3, 4}).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(engine_->Length(sequence), 40u);
  EXPECT_EQ(engine_->ledger().free_count(0), free_count) << "the nodes' page is free again";
  store_->fails = false;
  EXPECT_EQ(OrDie(Run(sequence, {7, 8, 9})), expected);
}

}  // namespace
}  // namespace outrider
