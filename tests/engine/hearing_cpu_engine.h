// The processor's engine over a model whose layers all hear an encoder (tests/model/hearing.h).
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_engine.h"
#include "common/kernels/isa.h"
#include "common/model/weights/resident_weights.h"
#include "tests/model/hearing.h"

namespace outrider {

inline absl::StatusOr<std::unique_ptr<Engine>> MakeHearingCpuEngine(const std::string& path,
                                                                    const EngineOptions& options,
                                                                    ThreadPool& pool) {
  struct Weights {
    explicit Weights(std::unique_ptr<ResidentWeights> file) : of_file(std::move(file)) {}

    const std::unique_ptr<ResidentWeights> of_file;
    HearingStore store{*of_file};
  };
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(*model, path));
  const auto weights =
      std::make_shared<Weights>(OrDie(ResidentWeights::Load(*model, spec, path, pool, nullptr)));
  for (LayerSpec& layer : spec.layers) layer.cross_attention = kHearing;
  return CpuEngine::Create(spec, std::shared_ptr<WeightStore>(weights, &weights->store),
                           weights->of_file->content_hash(), options, KernelsFor(BestIsa()), pool);
}

}  // namespace outrider
