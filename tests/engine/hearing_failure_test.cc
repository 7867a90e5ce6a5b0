// An engine that is told what an encoder says, and cannot read the weights it needs for that.
#include <memory>
#include <vector>

#include "common/engine/cpu_engine.h"
#include "common/kernels/isa.h"
#include "common/model/weights/resident_weights.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/engine/target_session.h"
#include "tests/model/hearing.h"
#include "tests/model/random_model.h"

namespace outrider {
namespace {

class FailingStore final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;

  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    if (key.layer == failing_layer) return absl::DataLossError("the flash is gone");
    return store_.Acquire(key);
  }

  uint32_t failing_layer = UINT32_MAX;
};

TEST(HearingFailure, HasChangedNothing) {
  const ScratchDir dir;
  const std::string path = dir.File("model.gguf");
  WriteRandomModel(SmallModel("llama"), TensorType::kQ8_0, path);
  const auto file = OrDie(ModelFile::Open(path));
  ModelSpec spec = OrDie(ModelSpec::From(*file, path));
  const auto pool = OrDie(ThreadPool::Create(2));
  const auto weights = OrDie(ResidentWeights::Load(*file, spec, path, *pool, nullptr));
  HearingStore hearing(*weights);
  const auto store = std::make_shared<FailingStore>(hearing);
  for (LayerSpec& layer : spec.layers) layer.cross_attention = kHearing;
  const auto engine = OrDie(
      CpuEngine::Create(spec, store, 1, {.encoder_length_max = 40}, KernelsFor(BestIsa()), *pool));
  const Ledger& ledger = engine->ledger();
  const uint32_t group = ledger.group_count() - 1;

  const std::vector<float> states = EncoderStates(40, 1);
  const SequenceId sequence = OrDie(engine->Open());
  OUTRIDER_CHECK_OK(engine->Reserve(sequence, 5, 0));
  store->failing_layer = 1;
  ExpectRefusal(engine->Hear(sequence, states), absl::StatusCode::kDataLoss, "the flash is gone");
  EXPECT_EQ(ledger.free_count(group), ledger.group(group).page_count);
  store->failing_layer = UINT32_MAX;
  OUTRIDER_CHECK_OK(engine->Hear(sequence, states));
  EXPECT_EQ(ledger.held_count(group), 2u);
}

}  // namespace
}  // namespace outrider
