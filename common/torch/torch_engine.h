// The engine on libtorch: on this machine's processor, or on a GPU where the libtorch found has
// CUDA.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
//                             LoadTorchEngine(*model, path, "cuda", {}, kernels, *pool, progress));
//
// It keeps the contract of engine.h with weights and keys in float32, but for one thing: libtorch's
// products round differently with the number of rows and threads, so EngineInfo says that it is not
// batch-invariant, and its numerics id is its own (of device class and libtorch's version).
//
// Logits, and hidden states where exits stand, come to the host; choosing and exits are the same
// code there as on any engine (engine/answers.h, engine/exit_heads.h).
//
// Memory: weights; for each sequence keys and values of its nodes, of as many cells as it has had,
//         growing by doubling, and of what it has heard. Every run allocates, as libtorch does.
//         Pages are counted as elsewhere, for those who plan by them: there is one for everything
//         that may be held.
// Errors: as engine.h says. FailedPrecondition when the build or the machine has no libtorch
//         (no_torch.cc, torch_loader.cc), or libtorch not the device.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

class TorchTransformer;

// `path` starts messages about the model; `device` is as libtorch calls it: "cpu", "cuda",
// "cuda:1". Kernels and pool outlive the engine; libtorch gets as many threads as the pool has, in
// the whole process. `progress` may be null.
absl::StatusOr<std::unique_ptr<Engine>> LoadTorchEngine(const ModelFile& model,
                                                        const std::string& path,
                                                        const std::string& device,
                                                        const EngineOptions& options,
                                                        const Kernels& kernels, ThreadPool& pool,
                                                        const LoadProgress& progress);

// From a model that is there already, on its device. `path` is the file it came from, where exits
// look for its head.
absl::StatusOr<std::unique_ptr<Engine>> CreateTorchEngine(TorchTransformer model,
                                                          const std::string& path,
                                                          const EngineOptions& options,
                                                          const Kernels& kernels, ThreadPool& pool);

}  // namespace outrider
