// Exits of a target on a GPU: they say what they say beside the processor's engine, and while later
// layers have not been computed yet.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/testing/emulated_queue.h"
#include "common/engine/cpu_target.h"
#include "common/engine/engine_target.h"
#include "common/formats/tensors/half.h"
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

TrainedExits ExitsOf(const Engine& engine) {
  return RandomExits(engine.spec(), engine.info().content_hash, {0, 2, 3}, 16, 0.2f);
}

// As a file of halves has them.
TrainedExits InHalves(TrainedExits exits) {
  exits.type = TensorType::kF16;
  for (TrainedExit& exit : exits.exits) {
    for (std::vector<float>* weights : {&exit.down, &exit.up}) {
      for (float& weight : *weights) weight = HalfToFloat(FloatToHalf(weight));
    }
  }
  return exits;
}

class GpuExits : public testing::Test {
 protected:
  void Write(const char* family, TensorType type) {
    Hyperparameters model = SmallModel(family);
    model.block_count = kLayers;
    model.head_count.assign(kLayers, model.head_count[0]);
    model.head_count_kv.assign(kLayers, model.head_count_kv[0]);
    WriteRandomModel(model, type, path_);
  }
  void Load() {
    auto queue = std::make_unique<EmulatedQueue>();
    queue_ = queue.get();
    gpu_ = OrDie(
        EngineTarget::Create(OrDie(MakeGpuEngine(path_, kOptions, *pool_, std::move(queue)))));
    cpu_ = OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path_)), path_, kOptions,
                               KernelsFor(BestIsa()), *pool_, nullptr));
  }
  void Make(const char* family = "llama", TensorType type = TensorType::kQ8_0) {
    Write(family, type);
    Load();
  }

  static void Attach(EngineTarget& target, ExitSink& sink, const ExitOptions& options = {}) {
    OUTRIDER_CHECK_OK(target.AttachExits(ExitsOf(target.engine()), "exits", options));
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

// A guess, and what it spoke of while it was told.
struct Told {
  ExitGuess guess;
  std::vector<std::vector<Ranked>> ranked;
};

// Trees of many rows, whose tokens are frequent ones and others.
std::vector<DraftedNode> Tree(uint32_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<DraftedNode> nodes;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t above = random() % (i / 2 + 1);
    nodes.push_back({static_cast<TokenId>((7 * i + 3 + seed + i % 2) % kVocabulary),
                     above == 0 ? DraftedNode::kRoot : above - 1});
  }
  return nodes;
}

// What exits say of passes of a greedy walk, one that is chosen otherwise, and a greedy one whose
// draft thought of more: each pass twice, the second time replayed.
std::vector<Told> Story(EngineTarget& target, uint32_t node_count, const ExitOptions& options,
                        const TrainedExits& exits) {
  std::vector<Told> told;
  GuessKeeper keeper([&](const ExitGuess& guess) {
    Told& one = told.emplace_back(Told{guess, {}});
    for (const auto& ranked : guess.ranked) one.ranked.emplace_back(ranked.begin(), ranked.end());
  });
  OUTRIDER_CHECK_OK(target.AttachExits(exits, "exits", options));
  target.HearExits(&keeper);
  TargetSession greedy(target, {}), sampled(target, Sampled(3)), wide(target, {});
  greedy.Read(RandomTokens(11, 4));
  sampled.Read(RandomTokens(5, 5));
  wide.Read(RandomTokens(7, 6));
  const std::vector<DraftedNode> tree = Tree(node_count, 1), other = Tree(node_count, 2);
  const std::vector<TokenId> candidates = {77, 78, 14, 77, -1, kVocabulary, 199};
  Pass wider = wide.PassOver(tree);
  wider.candidates = candidates;
  for (const bool is_greedy_alone : {false, true, false}) {
    std::vector<Pass> passes = {greedy.PassOver(tree), wider, sampled.PassOver(other)};
    if (is_greedy_alone) passes.pop_back();
    std::vector<PassResult> results(passes.size());
    target.Run({}, passes, results);
  }
  target.HearExits(nullptr);
  for (const TargetSession* session : {&greedy, &sampled, &wide}) {
    OUTRIDER_CHECK_OK(target.Close(session->id()));
  }
  return told;
}

std::vector<Told> Story(EngineTarget& target, uint32_t node_count, const ExitOptions& options) {
  return Story(target, node_count, options, ExitsOf(target.engine()));
}

void ExpectSame(const std::vector<Told>& actual, const std::vector<Told>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    SCOPED_TRACE(i);
    const ExitGuess& a = actual[i].guess;
    const ExitGuess& b = expected[i].guess;
    EXPECT_EQ(a.layer, b.layer);
    EXPECT_EQ(a.exit, b.exit);
    EXPECT_EQ(a.walk, b.walk);
    EXPECT_TRUE(a.outcome == b.outcome);
    EXPECT_EQ(a.probability, b.probability);
    EXPECT_EQ(a.evidence.doubt, b.evidence.doubt);
    EXPECT_EQ(a.evidence.entropy, b.evidence.entropy);
    EXPECT_EQ(a.evidence.margin, b.evidence.margin);
    EXPECT_EQ(a.evidence.agrees_with_previous, b.evidence.agrees_with_previous);
    EXPECT_EQ(a.evidence.agrees_with_first_draft, b.evidence.agrees_with_first_draft);
    EXPECT_EQ(a.evidence.largest_softmax, b.evidence.largest_softmax);
    ASSERT_EQ(actual[i].ranked.size(), expected[i].ranked.size());
    for (size_t n = 0; n < actual[i].ranked.size(); ++n) {
      const std::vector<Ranked>&x = actual[i].ranked[n], &y = expected[i].ranked[n];
      ASSERT_EQ(x.size(), y.size());
      for (size_t k = 0; k < x.size(); ++k) {
        EXPECT_EQ(x[k].token, y[k].token);
        EXPECT_EQ(x[k].score, y[k].score);
      }
    }
  }
}

TEST_F(GpuExits, SayWhatTheySayBesideTheProcessor) {
  constexpr std::pair<const char*, TensorType> kModels[] = {{"llama", TensorType::kQ8_0},
                                                            {"llama", TensorType::kQ4_K},
                                                            {"qwen3", TensorType::kQ6_K},
                                                            {"gpt2", TensorType::kF32},
                                                            {"gpt2", TensorType::kQ4_0}};
  for (const auto& [family, type] : kModels) {
    SCOPED_TRACE(Concat(family, " ", Info(type).name));
    Make(family, type);
    for (const ExitScope scope : {ExitScope::kCandidates, ExitScope::kFull}) {
      const std::vector<Told> actual = Story(*gpu_, 6, {.scope = scope});
      EXPECT_EQ(actual.size(), 3u * (3 + 2 + 3));
      ExpectSame(actual, Story(*cpu_, 6, {.scope = scope}));
    }
  }
}

// Such models have bits of the GPU's own.
TEST_F(GpuExits, OfHalvesAreNearTheProcessors) {
  Make("qwen3", TensorType::kBF16);
  const std::vector<Told> actual = Story(*gpu_, 6, {});
  const std::vector<Told> expected = Story(*cpu_, 6, {});
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(actual[i].guess.outcome == expected[i].guess.outcome) << i;
    EXPECT_NEAR(actual[i].guess.probability, expected[i].guess.probability, 1e-4) << i;
  }
}

TEST_F(GpuExits, RowsOfManyBandsAreWhatTheyAreInOne) {
  Make();
  const TrainedExits exits = InHalves(ExitsOf(gpu_->engine()));
  const std::vector<Told> actual = Story(*gpu_, 40, {}, exits);
  EXPECT_EQ(actual.size(), 24u);
  ExpectSame(actual, Story(*cpu_, 40, {}, exits));
}

TEST_F(GpuExits, WithFewCandidatesEachHasItsShare) {
  Make();
  ExpectSame(Story(*gpu_, 6, {.candidate_count_max = 3}),
             Story(*cpu_, 6, {.candidate_count_max = 3}));
}

// The rows of the output matrix are no numbers: of a frequent token, and of one that is nobody's
// candidate.
TEST_F(GpuExits, WhatIsNoNumberIsNotGuessed) {
  for (const uint32_t token : {3u, 5u}) {
    Write("llama", TensorType::kF32);
    {
      const auto model = OrDie(ModelFile::Open(path_));
      std::string bytes = Contents(path_);
      for (const ModelTensor& tensor : model->tensors()) {
        if (tensor.name != "output.weight") continue;
        const size_t row_bytes = tensor.bytes / kVocabulary;
        std::memset(bytes.data() + tensor.place->offset + token * row_bytes, 0xff, row_bytes);
      }
      std::ofstream(path_, std::ios::binary) << bytes;
    }
    Load();
    const std::vector<Told> actual = Story(*gpu_, 6, {});
    EXPECT_EQ(actual.empty(), token == 3);
    ExpectSame(actual, Story(*cpu_, 6, {}));
  }
}

// The model's file is not looked at again.
TEST_F(GpuExits, TakeTheWeightsThatAreThere) {
  Make();
  std::filesystem::remove(path_);
  GuessKeeper keeper;
  Attach(*gpu_, keeper);
  TargetSession session(*gpu_, {});
  session.Read(RandomTokens(11, 4));
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  EXPECT_EQ(keeper.guesses().size(), 3u);
}

TEST_F(GpuExits, AreRefusedInASentence) {
  Make();
  const Engine& engine = gpu_->engine();
  TrainedExits exits = RandomExits(engine.spec(), engine.info().content_hash, {0, 2}, 6, 0.2f);
  ExpectRefusal(gpu_->AttachExits(exits, "exits", {}), absl::StatusCode::kUnimplemented,
                "exits: an adapter of rank 6 has no kernel on a GPU");
  exits = ExitsOf(engine);
  exits.target.content_hash ^= 1;
  ExpectRefusal(gpu_->AttachExits(exits, "exits", {}), absl::StatusCode::kInvalidArgument,
                "exits: was trained for");
}

// With just enough for the engine.
TEST_F(GpuExits, WithoutMemoryForThemTheEngineGoesOn) {
  Write("llama", TensorType::kQ8_0);
  std::unique_ptr<EngineTarget> target;
  for (size_t bytes = size_t{1} << 20; target == nullptr; bytes += size_t{1} << 16) {
    auto engine = MakeGpuEngine(path_, kOptions, *pool_, std::make_unique<EmulatedQueue>(bytes));
    if (engine.ok()) target = OrDie(EngineTarget::Create(*std::move(engine)));
  }
  ExpectRefusal(target->AttachExits(ExitsOf(target->engine()), "exits", {}),
                absl::StatusCode::kResourceExhausted, " need ");
  TargetSession session(*target, {});
  session.Read(RandomTokens(11, 4));
  EXPECT_TRUE(session.Run(nodes_).status.ok());
}

// The emulated device does no more than what is awaited, but for every second arrival.
TEST_F(GpuExits, AreHeardWhileLaterLayersAreComputed) {
  Make();
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

// Beside: two norms, the adapter's products and what is between and behind them, the frequent
// tokens' logits together with the round's, quants for these, and the ranking. The first gathers the round.
TEST_F(GpuExits, TakeACopyOfTheDevicesTimeEachAndItsGraphs) {
  constexpr int kKernelsBeside = 9;
  Make();
  GuessKeeper keeper;
  Attach(*gpu_, keeper);
  TargetSession session(*gpu_, {});
  session.Read(RandomTokens(11, 4));
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  gpu_->CollectDeviceWork();
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  const DeviceWork with = gpu_->CollectDeviceWork().value();
  EXPECT_EQ(with.exit_time, std::chrono::microseconds(3));
  EXPECT_EQ(with.exit_side_time, std::chrono::microseconds(3 * kKernelsBeside + 1));
  EXPECT_EQ(with.graph_hits, 4u);  // up to each exit, and behind the last
  EXPECT_EQ(with.graph_misses, 0u);

  gpu_->SwitchExit(1, false);
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  const DeviceWork without_one = gpu_->CollectDeviceWork().value();
  EXPECT_EQ(without_one.exit_time, std::chrono::microseconds(2));
  EXPECT_EQ(without_one.exit_side_time, std::chrono::microseconds(2 * kKernelsBeside + 1));
  EXPECT_EQ(without_one.graph_hits, 2u);
  EXPECT_EQ(without_one.graph_misses, 1u);  // layers 1 to 3, as one

  gpu_->HearExits(nullptr);
  ASSERT_TRUE(session.Run(nodes_).status.ok());
  const DeviceWork unheard = gpu_->CollectDeviceWork().value();
  EXPECT_EQ(unheard.exit_time, Duration::zero());
  EXPECT_EQ(unheard.exit_side_time, Duration::zero());
  EXPECT_LT(unheard.time, without_one.time);
}

// More layers than have room on the way, and exits among them.
TEST_F(GpuExits, StatesOfAllLayersAreTheProcessors) {
  Make();
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
