// Exits of a target on a GPU: they say what they say beside the processor's engine, and while later
// layers have not been computed yet.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/testing/emulated_queue.h"
#include "common/engine/cpu_target.h"
#include "common/engine/engine_target.h"
#include "common/kernels/isa.h"
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

constexpr uint32_t kLayers = 6;

class GpuExits : public testing::Test {
 protected:
  GpuExits() {
    Hyperparameters model = SmallModel("llama");
    model.block_count = kLayers;
    model.head_count.assign(kLayers, model.head_count[0]);
    model.head_count_kv.assign(kLayers, model.head_count_kv[0]);
    WriteRandomModel(model, TensorType::kQ8_0, path_);
    auto queue = std::make_unique<EmulatedQueue>();
    queue_ = queue.get();
    gpu_ = OrDie(
        EngineTarget::Create(OrDie(MakeGpuEngine(path_, kOptions, *pool_, std::move(queue)))));
    cpu_ = OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, kOptions,
                               KernelsFor(BestIsa()), *pool_, nullptr));
  }

  static TrainedExits ExitsOf(const Engine& engine) {
    return RandomExits(engine.spec(), engine.info().content_hash, {0, 2, 3}, 16, 0.2f);
  }
  static void Attach(EngineTarget& target, ExitSink& sink) {
    OUTRIDER_CHECK_OK(target.AttachExits(ExitsOf(target.engine()), "exits", {}));
    target.HearExits(&sink);
  }

  static inline const EngineOptions kOptions = {.sequence_count_max = 3};
  const std::vector<DraftedNode> nodes_ = {{14, DraftedNode::kRoot}, {24, 0}, {34, 0}, {44, 1}};

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
  EmulatedQueue* queue_ = nullptr;  // gpu_'s
  std::unique_ptr<EngineTarget> gpu_, cpu_;
};

TEST_F(GpuExits, SayWhatTheySayBesideTheProcessor) {
  std::vector<std::vector<ExitGuess>> said;
  std::vector<Outcome> outcomes;
  for (EngineTarget* const target : {gpu_.get(), cpu_.get()}) {
    GuessKeeper keeper;
    Attach(*target, keeper);
    for (const bool is_sampled : {false, true}) {
      TargetSession session(*target, is_sampled ? Sampled(3) : SamplingOptions{});
      session.Read(RandomTokens(11, 4));
      for (int i = 0; i < 3; ++i) {  // the first of a shape, and replayed ones
        const PassResult result = session.Run(nodes_);
        ASSERT_TRUE(result.status.ok()) << result.status;
        outcomes.push_back(result.outcome);
      }
    }
    said.push_back(keeper.guesses());
    target->HearExits(nullptr);
  }
  ASSERT_EQ(said[0].size(), 18u);
  ASSERT_EQ(said[1].size(), 18u);
  for (size_t i = 0; i < 18; ++i) {
    EXPECT_EQ(said[0][i].layer, said[1][i].layer) << i;
    EXPECT_TRUE(said[0][i].outcome == said[1][i].outcome) << i;
    EXPECT_EQ(said[0][i].probability, said[1][i].probability) << i;
  }
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(outcomes[i] == outcomes[i + 6]) << i;
}

// The emulated device does no more than what is awaited, but for every second arrival.
TEST_F(GpuExits, AreHeardWhileLaterLayersAreComputed) {
  std::vector<std::pair<uint32_t, size_t>> heard;  // layer, and kernels that wait
  GuessKeeper keeper(
      [&](const ExitGuess& guess) { heard.emplace_back(guess.layer, queue_->waiting_count()); });
  Attach(*gpu_, keeper);
  TargetSession session(*gpu_, {});
  session.Read(RandomTokens(11, 4));
  uint32_t early_count = 0;
  for (int i = 0; i < 4; ++i) {
    heard.clear();
    ASSERT_TRUE(session.Run(nodes_).status.ok());
    ASSERT_EQ(heard.size(), 3u);
    for (size_t exit = 0; exit < 3; ++exit) {
      EXPECT_EQ(heard[exit].first, std::vector<uint32_t>({0, 2, 3})[exit]);
    }
    if (heard[0].second == 0) continue;  // as late as can be
    ++early_count;
    EXPECT_GT(heard[0].second, 12 * (kLayers - 1)) << "a layer is a dozen kernels and more";
  }
  EXPECT_EQ(early_count, 2u);
}

TEST_F(GpuExits, TakeACopyOfTheDevicesTimeEachAndItsGraphs) {
  GuessKeeper keeper;
  Attach(*gpu_, keeper);
  TargetSession session(*gpu_, {});
  session.Read(RandomTokens(11, 4));
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  gpu_->CollectDeviceWork();
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  const DeviceWork with = gpu_->CollectDeviceWork().value();
  EXPECT_EQ(with.exit_time, std::chrono::microseconds(3));
  EXPECT_EQ(with.graph_hits, 4u);  // up to each exit, and behind the last
  EXPECT_EQ(with.graph_misses, 0u);

  gpu_->SwitchExit(1, false);
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  const DeviceWork without_one = gpu_->CollectDeviceWork().value();
  EXPECT_EQ(without_one.exit_time, std::chrono::microseconds(2));
  EXPECT_EQ(without_one.graph_hits, 2u);
  EXPECT_EQ(without_one.graph_misses, 1u);  // layers 1 to 3, as one

  gpu_->HearExits(nullptr);
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  const DeviceWork unheard = gpu_->CollectDeviceWork().value();
  EXPECT_EQ(unheard.exit_time, Duration::zero());
  EXPECT_LT(unheard.time, without_one.time);
}

// More layers than have room on the way, and exits among them.
TEST_F(GpuExits, StatesOfAllLayersAreTheProcessors) {
  const uint32_t width = gpu_->engine().spec().embedding_length;
  const std::vector<TokenId> tokens = RandomTokens(9, 5);
  std::vector<std::vector<std::vector<float>>> states;  // by engine and layer
  for (EngineTarget* const target : {gpu_.get(), cpu_.get()}) {
    GuessKeeper keeper;
    Engine& engine = target->engine();
    OUTRIDER_CHECK_OK(engine.AttachExits(ExitsOf(engine), "exits", {}, keeper));
    const SequenceId sequence = OrDie(engine.Open());
    OUTRIDER_CHECK_OK(engine.Reserve(sequence, 9, 0));
    const RunPart part = {.sequence = sequence, .chain = tokens};
    const Chooser chooser = OrDie(Chooser::Create({}, kVocabulary));
    TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 64, .counts_tokens = true});
    OUTRIDER_CHECK_OK(history.Append(tokens));
    TreeWalk walk = {.root_row = 8, .nodes = {}, .chooser = &chooser, .history = &history};
    EngineRun run = {.parts = {&part, 1}, .walks = {&walk, 1}};
    std::vector<std::vector<float>>& of_engine = states.emplace_back();
    of_engine.assign(kLayers, std::vector<float>(9 * width));
    std::vector<HiddenAfterLayer> asked;
    for (uint32_t layer = 0; layer < kLayers; ++layer) asked.push_back({layer, of_engine[layer]});
    run.hidden = asked;
    OUTRIDER_CHECK_OK(engine.Run(run));
    EXPECT_EQ(keeper.guesses().size(), 3u);
    engine.DetachExits();
    engine.Close(sequence);
  }
  for (uint32_t layer = 0; layer < kLayers; ++layer) {
    EXPECT_EQ(std::memcmp(states[0][layer].data(), states[1][layer].data(),
                          states[0][layer].size() * sizeof(float)),
              0)
        << "layer " << layer;
  }
}

}  // namespace
}  // namespace outrider
