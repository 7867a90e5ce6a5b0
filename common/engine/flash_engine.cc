#include "common/engine/flash_engine.h"

#include <utility>

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<FlashEngine> LoadFlashEngine(std::shared_ptr<const ModelFile> model,
                                            const std::string& path, const EngineOptions& options,
                                            const StreamOptions& stream, const Kernels& kernels,
                                            ThreadPool& pool, const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(*model, path));
  // Before anything is read.
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions complete, CheckOptions(spec, options));
  spec.LimitContext(complete.context_length);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<StreamingWeights> opened,
                            StreamingWeights::Open(*model, spec, path, stream, progress));
  // What is to be read is said in terms of the model's tensors, so it stays as long as they do.
  const std::shared_ptr<StreamingWeights> weights(
      opened.release(), [model = std::move(model)](const StreamingWeights* gone) { delete gone; });
  FlashEngine flash{.weights = weights, .engine = nullptr};
  OUTRIDER_ASSIGN_OR_RETURN(flash.engine, CpuEngine::Create(spec, weights, weights->content_hash(),
                                                            options, kernels, pool));
  return flash;
}

}  // namespace outrider
