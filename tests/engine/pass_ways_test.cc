// Passes that are pruned, and whose head is asked along the way down alone, say what others say:
// the same text to the bit, resident or from flash, dense or with experts, greedy or sampled.
// Pruning may only make a pass shorter, and by exactly what watching it foretold.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/engine_target.h"
#include "common/engine/flash_engine.h"
#include "common/kernels/isa.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/guesses.h"
#include "tests/engine/target_session.h"
#include "tests/model/exits.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

constexpr uint32_t kLayers = 4;

struct PassWays {
  Projection projection = Projection::kAll;
  bool from_flash = false;
};

// What passes have come to, while they wrote a text.
struct Written {
  std::vector<TokenId> tokens;
  uint32_t passes = 0;
  uint32_t pruned_nodes = 0;
};

uint32_t DepthOf(const std::vector<DraftedNode>& nodes, uint32_t node) {
  uint32_t depth = 0;
  for (; node != DraftedNode::kRoot; node = nodes[node].parent) ++depth;
  return depth;
}

class PassWaysTest : public testing::TestWithParam<const char*> {
 protected:
  PassWaysTest() { WriteRandomModel(SmallModel(GetParam(), kLayers), TensorType::kQ8_0, path_); }

  std::unique_ptr<EngineTarget> Load(const PassWays& ways) {
    const EngineOptions options = {.sequence_count_max = 3,
                                   .node_count_max = 20,
                                   .row_count_max = 32,
                                   .projection = ways.projection};
    const auto model = OrDie(ModelFile::Open(path_));
    std::unique_ptr<Engine> engine;
    if (ways.from_flash) {
      engine =
          OrDie(LoadFlashEngine(OrDie(ModelFile::Open(path_)), path_, options,
                                {.pinned_layer_count = 1}, KernelsFor(BestIsa()), *pool_, nullptr))
              .engine;
    } else {
      engine = OrDie(LoadCpuEngine(*model, path_, options, KernelsFor(BestIsa()), *pool_, nullptr));
    }
    auto target = OrDie(EngineTarget::Create(std::move(engine)));
    // One exit is an identity near the end, one of random weights near the beginning.
    TrainedExits exits = RandomExits(target->engine().spec(), target->engine().info().content_hash,
                                     {0, 2}, 16, 0.1f);
    std::ranges::fill(exits.exits[1].up, 0.0f);
    OUTRIDER_CHECK_OK(target->AttachExits(exits, "exits", {.pruning = kPruning}));
    return target;
  }

  // By passes over drafts that are right for a while, each beside wrong siblings.
  static Written Write(Target& target, const SamplingOptions& sampling, Pruning pruning,
                       const std::vector<TokenId>& text) {
    TargetSession session(target, sampling);
    session.Read(RandomTokens(40, 1));
    std::mt19937 random(3);
    Written written;
    while (written.tokens.size() + 12 < text.size()) {
      const auto future = std::span(text).subspan(written.tokens.size());
      const std::vector<DraftedNode> nodes = DraftOf(future, random() % 7);
      Pass pass = session.PassOver(nodes);
      pass.pruning = pruning;
      PassResult result;
      target.Run({}, {&pass, 1}, {&result, 1});
      OUTRIDER_CHECK_OK(result.status);
      ++written.passes;
      written.pruned_nodes += result.pruned.node_count;
      session.Commit(result.outcome, nodes);
      const auto known = session.history().tokens().subspan(40);
      written.tokens.assign(known.begin(), known.end());
    }
    OUTRIDER_CHECK_OK(target.Close(session.id()));
    return written;
  }

  static constexpr TreePruning::Options kPruning = {.threshold = 0.05f, .node_count_min = 3};

  const ScratchDir dir_;
  const std::string path_ = dir_.File("model.gguf");
  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
};

INSTANTIATE_TEST_SUITE_P(Families, PassWaysTest,
                         testing::Values("llama", "mistral", "qwen3", "gpt2", "mixtral", "olmoe",
                                         "gptoss"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(PassWaysTest, WriteTheSameText) {
  for (const SamplingOptions& sampling : {SamplingOptions{}, Sampled(4)}) {
    const auto plain = Load({});
    TargetSession alone(*plain, sampling);
    alone.Read(RandomTokens(40, 1));
    const std::vector<TokenId> text = alone.Write(80);
    const uint32_t passes = Write(*plain, sampling, Pruning::kOff, text).passes;
    for (const bool from_flash : {false, true}) {
      for (const Projection projection : {Projection::kAll, Projection::kPath, Projection::kAuto}) {
        const auto target = Load({.projection = projection, .from_flash = from_flash});
        for (const Pruning pruning : {Pruning::kOff, Pruning::kWatch, Pruning::kOn}) {
          SCOPED_TRACE(Concat("flash ", from_flash, ", projection ", static_cast<int>(projection),
                              ", pruning ", static_cast<int>(pruning)));
          const Written written = Write(*target, sampling, pruning, text);
          ASSERT_TRUE(
              std::ranges::equal(written.tokens, std::span(text).first(written.tokens.size())));
          EXPECT_EQ(written.pruned_nodes > 0, pruning != Pruning::kOff);
          if (pruning == Pruning::kOn) {
            EXPECT_GE(written.passes, passes);
          } else {
            EXPECT_EQ(written.passes, passes) << "a pass that keeps its nodes yields what it did";
          }
        }
      }
    }
  }
}

// Several sequences in one call, of which some passes are pruned and others are not.
TEST_P(PassWaysTest, APassIsAsLongAsWatchingItForetold) {
  const auto target = Load({.projection = Projection::kPath});
  uint32_t lost = 0;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    const SamplingOptions sampling = seed % 2 == 0 ? SamplingOptions{} : Sampled(seed);
    TargetSession session(*target, sampling), beside(*target, sampling);
    for (TargetSession* const one : {&session, &beside}) one->Read(RandomTokens(30, seed));
    const std::vector<TokenId> text = beside.Write(12);
    beside.Truncate(30);
    const std::vector<DraftedNode> nodes = DraftOf(text, 6);
    std::vector<Pass> passes = {session.PassOver(nodes), beside.PassOver(nodes)};
    std::vector<PassResult> results(2);
    passes[0].pruning = Pruning::kWatch;
    target->Run({}, passes, results);
    const PassResult watched = results[0];
    ASSERT_TRUE(watched.status.ok()) << watched.status;
    EXPECT_TRUE(watched.outcome == results[1].outcome) << "nothing is taken out of either";
    EXPECT_EQ(results[1].pruned.node_count, 0u);

    passes[0].pruning = Pruning::kOn;
    target->Run({}, passes, results);
    EXPECT_TRUE(watched.outcome == results[1].outcome);
    EXPECT_EQ(results[0].pruned.node_count, watched.pruned.node_count);
    EXPECT_EQ(results[0].pruned.rows, watched.pruned.rows);
    EXPECT_EQ(results[0].pruned.lost_count, 0u) << "what is not there is not on the way";
    EXPECT_EQ(DepthOf(nodes, results[0].outcome.node) + watched.pruned.lost_count,
              DepthOf(nodes, watched.outcome.node));
    EXPECT_EQ(results[0].outcome.next, text[DepthOf(nodes, results[0].outcome.node)]);
    lost += watched.pruned.lost_count;

    // Only what is on the way to the outcome can be committed.
    const Outcome elsewhere = {results[0].outcome.node == 0 ? 1u : 0u, 7};
    ExpectRefusal(target->Commit(session.id(), elsewhere), absl::StatusCode::kInvalidArgument,
                  "not on the way to the outcome of the last pass");
    session.Commit(results[0].outcome, nodes);
    const TokenId next = session.Write(2).front();
    EXPECT_EQ(next, text[session.history().size() - 30 - 2]);
    OUTRIDER_CHECK_OK(target->Close(session.id()));
    OUTRIDER_CHECK_OK(target->Close(beside.id()));
  }
  EXPECT_GT(lost, 0u) << "the exits are often wrong";
}

}  // namespace
}  // namespace outrider
