// What the engine on libtorch says beside the contracts of all engines and targets
// (../engine/*_contract_test.cc).
#include "common/torch/torch_engine.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "common/engine/cpu_target.h"
#include "common/text/tokenizer_source.h"
#include "common/torch/torch_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/contract_engine.h"
#include "tests/engine/hearing_cpu_engine.h"
#include "tests/engine/target_session.h"
#include "tests/model/random_model.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class TorchEngineTest : public testing::Test {
 protected:
  std::unique_ptr<Target> LoadTorch(const std::string& path, const EngineOptions& options) {
    return OrDie(EngineTarget::Create(
        OrDie(LoadTorchEngine(*OrDie(ModelFile::Open(path)), path, "cpu", options,
                              KernelsFor(BestIsa()), *pool_, nullptr))));
  }
  std::unique_ptr<Target> LoadCpu(const std::string& path, const EngineOptions& options) {
    return OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path)), path, options, KernelsFor(BestIsa()),
                               *pool_, nullptr));
  }

  ScratchDir dir_;
  std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(2));
};

// Every family, with drafts that are partly right: the window, learned positions and rope meet
// trees here, and the choices are those of the other program.
TEST_F(TorchEngineTest, WritesWhatTheCoreWrites) {
  const std::string path = dir_.File("model.gguf");
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3", "gpt2"}) {
    SCOPED_TRACE(family);
    WriteRandomModel(SmallModel(family), TensorType::kF32, path);
    const auto core = LoadCpu(path, {.sequence_count_max = 1});
    const auto torch = LoadTorch(path, {.sequence_count_max = 1, .row_count_max = 100});
    TargetSession expected(*core, Sampled(1));
    expected.Read(RandomTokens(60, 1));
    const std::vector<TokenId> text = expected.Write(60);
    TargetSession session(*torch, Sampled(1));
    session.Read(RandomTokens(60, 1));
    for (size_t at = 0, pass = 0; at < 50; ++pass) {
      const uint32_t depth = pass % 5;
      const auto future = std::span(text).subspan(at);
      const std::vector<DraftedNode> nodes = DraftOf(future, depth);
      const PassResult result = session.Run(nodes);
      ASSERT_TRUE(result.status.ok()) << result.status;
      ASSERT_EQ(result.outcome.next, future[depth]) << "token " << at + depth;
      session.Commit(result.outcome, nodes);
      at += depth + 1;
    }
  }
}

// Two programs, two arithmetics, one model: the core keeps what is heard as halves, which moves logits
// by some thousandths (../model/cross_attention_test.cc), another encoder by hundreds of times that.
TEST_F(TorchEngineTest, HearsWhatTheCoreHears) {
  const std::string path = dir_.File("model.gguf");
  WriteRandomModel(SmallModel("mistral"), TensorType::kF32, path);
  const EngineOptions options = {.encoder_length_max = 40};
  const std::vector<TokenId> tokens = RandomTokens(30, 1);
  const auto logits = [&](Engine& engine, uint32_t seed) {
    const SequenceId sequence = OrDie(engine.Open());
    OUTRIDER_CHECK_OK(engine.Hear(sequence, EncoderStates(40, seed)));
    OUTRIDER_CHECK_OK(engine.Reserve(sequence, 30, 0));
    const RunPart part = {.sequence = sequence, .chain = tokens};
    std::vector<float> last(kVocabulary);
    const LogitsOfRow asked = {29, last};
    EngineRun run = {.parts = {&part, 1}, .logits = {&asked, 1}};
    OUTRIDER_CHECK_OK(engine.Run(run));
    engine.Close(sequence);
    return last;
  };
  const auto core = OrDie(MakeHearingCpuEngine(path, options, *pool_));
  const auto torch = OrDie(MakeHearingEngine(path, options, *pool_));
  const std::vector<float> expected = logits(*core, 2), heard = logits(*torch, 2),
                           other = logits(*torch, 3);
  float miss = 0, change = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    miss = std::max(miss, std::abs(heard[i] - expected[i]));
    change = std::max(change, std::abs(other[i] - expected[i]));
  }
  EXPECT_TRUE(miss <= 0.02f) << miss;
  EXPECT_TRUE(change >= 0.3f) << change;
}

TEST_F(TorchEngineTest, SaysThatItsNumericsAreItsOwn) {
  const auto torch = LoadTorch(Stories(), {});
  const auto core = LoadCpu(Stories(), {});
  EXPECT_FALSE(torch->info().batch_invariant);
  EXPECT_TRUE(core->info().batch_invariant);
  EXPECT_NE(torch->info().numerics_id, core->info().numerics_id);
  EXPECT_EQ(torch->info().numerics_id, LoadTorch(Stories(), {})->info().numerics_id);
  EXPECT_NE(torch->info().numerics_id, LoadTorch(DamagedStories(), {})->info().numerics_id);
}

TEST_F(TorchEngineTest, ADeviceThatIsNotThereIsRefused) {
  const auto load = [&](const std::string& device) {
    return LoadTorchEngine(*OrDie(ModelFile::Open(Stories())), Stories(), device, {},
                           KernelsFor(BestIsa()), *pool_, nullptr)
        .status();
  };
  using enum absl::StatusCode;
  ExpectRefusal(load("meta"), kInvalidArgument,
                "libtorch computes on cpu or cuda here, not on meta");
  ExpectRefusal(load("cuda:99"), kFailedPrecondition, "cuda:99");
  ExpectRefusal(load("gpu"), kFailedPrecondition, "gpu: libtorch: ");
}

TEST(TorchStatus, MemoryThatIsNotThereIsResourceExhausted) {
  const auto of = [](const auto& body) {
    return CatchTorch("x", [&]() -> absl::Status {
      body();
      return absl::OkStatus();
    });
  };
  using enum absl::StatusCode;
  EXPECT_TRUE(of([] {}).ok());
  ExpectRefusal(of([] { throw std::bad_alloc(); }), kResourceExhausted, "x: no memory: ");
  ExpectRefusal(of([] { at::empty({int64_t{1} << 50}, at::kFloat); }), kResourceExhausted,
                "x: no memory: ");
  const at::Tensor two = at::empty({2}, at::kFloat);
  const absl::Status status = of([&] { two.add(at::empty({3}, at::kFloat)); });
  ExpectRefusal(status, kFailedPrecondition, "x: libtorch: The size of tensor a (2) must match");
  EXPECT_THAT(std::string(Message(status)), testing::Not(HasSubstr("\n"))) << "no backtrace";
}

}  // namespace
}  // namespace outrider
