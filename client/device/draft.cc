#include "client/device/draft.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/model/model_spec.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/speculation/drafting/ngram_drafter.h"
#include "common/tokens/chooser.h"
#include "common/torch/load_engine.h"

namespace outrider {
namespace {

constexpr uint32_t kRowsOfARun = 64;  // nodes, and a prompt's chunk

// One thread is through with so little before another has woken.
constexpr uint64_t kOneThreadBytes = uint64_t{8} << 20;

// A drafter whose engine others use as well.
class TurnTaker final : public Drafter {
 public:
  TurnTaker(std::unique_ptr<LmDrafter> drafter, Mutex& turn)
      : drafter_(std::move(drafter)), turn_(turn) {}
  ~TurnTaker() override {
    MutexLock lock(turn_);
    drafter_.reset();  // gives its sequence back
  }

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation) override {
    MutexLock lock(turn_);
    return drafter_->Propose(committed, nodes, contexts, proposals, cancellation);
  }

 private:
  std::unique_ptr<LmDrafter> drafter_;
  Mutex& turn_;
};

// The threads that are of use for such a model.
absl::StatusOr<std::shared_ptr<ThreadPool>> PoolFor(const ModelFile& model,
                                                    std::shared_ptr<ThreadPool> offered) {
  uint64_t bytes = 0;
  for (const ModelTensor& tensor : model.tensors()) bytes += tensor.bytes;
  if (bytes > kOneThreadBytes) return offered;
  return ThreadPool::Create(1);
}

}  // namespace

Draft::Draft(const Limits& limits, int32_t vocabulary_size)
    : limits_(limits), vocabulary_size_(vocabulary_size) {}

EngineOptions Draft::OptionsFor(const Limits& limits, const ModelFile& model) {
  return {.context_length = std::min(limits.context_length, model.hyperparameters().context_length),
          .sequence_count_max = limits.conversation_count_max,
          .node_count_max = limits.node_count_max,
          .row_count_max = kRowsOfARun};
}

absl::StatusOr<std::unique_ptr<Draft>> Draft::Load(const std::string& path,
                                                   const std::string& engine, const Limits& limits,
                                                   const Kernels& kernels,
                                                   std::shared_ptr<ThreadPool> pool,
                                                   const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(pool, PoolFor(*model, std::move(pool)));
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Engine> loaded,
      LoadEngine(engine, *model, path, OptionsFor(limits, *model), kernels, *pool, progress));
  return Over(limits, std::move(pool), std::move(loaded));
}

absl::StatusOr<std::unique_ptr<Draft>> Draft::Load(const std::string& path, const Limits& limits,
                                                   const Kernels& kernels,
                                                   std::shared_ptr<ThreadPool> pool,
                                                   FlashTurns& turns,
                                                   const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(pool, PoolFor(*model, std::move(pool)));
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(*model, path));
  const EngineOptions options = OptionsFor(limits, *model);
  spec.LimitContext(options.context_length);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ResidentWeights> weights,
                            ResidentWeights::Load(*model, spec, path, *pool, progress));
  const uint64_t content_hash = weights->content_hash();
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Engine> engine,
      CpuEngine::Create(spec, std::make_shared<TurnTakingWeights>(std::move(weights), turns),
                        content_hash, options, kernels, *pool));
  return Over(limits, std::move(pool), std::move(engine));
}

std::unique_ptr<Draft> Draft::Over(const Limits& limits, std::shared_ptr<ThreadPool> pool,
                                   std::unique_ptr<Engine> engine) {
  const auto vocabulary_size = static_cast<int32_t>(engine->info().vocabulary_size);
  auto draft = std::make_unique<Draft>(limits, vocabulary_size);
  draft->pool_ = std::move(pool);
  draft->engine_ = std::move(engine);
  return draft;
}

absl::StatusOr<std::unique_ptr<Drafter>> Draft::NewDrafter(const SamplingOptions& sampling) {
  if (engine_ == nullptr) return std::make_unique<NgramDrafter>(limits_.context_length);
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create(sampling, vocabulary_size_));
  MutexLock lock(turn_);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<LmDrafter> drafter,
                            LmDrafter::Create(*engine_, chooser));
  return std::make_unique<TurnTaker>(std::move(drafter), turn_);
}

}  // namespace outrider
