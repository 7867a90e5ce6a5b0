// The target on libtorch: on this machine's processor, or on a GPU where the libtorch found has
// CUDA.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Target> target,
//                             LoadTorchTarget(*model, path, {.device = "cuda"}, progress));
//
// It keeps the contract of target.h with weights and keys in float32, but for one thing: libtorch's
// products round differently with the number of rows and threads, so TargetInfo says that it is not
// batch-invariant, and its numerics id is its own (of device class and libtorch's version).
//
// Memory: weights; for each sequence keys and values of as many positions as it has had, growing by
//         doubling. Every run allocates, as libtorch does.
// Errors: as target.h says. FailedPrecondition when the build or the machine has no libtorch
//         (no_torch.cc, torch_loader.cc), or libtorch not the device.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/formats/models/model_file.h"
#include "common/model/resident_weights.h"
#include "common/model/target.h"

namespace outrider {

struct TorchTargetOptions {
  std::string device = "cpu";       // as libtorch calls it: "cpu", "cuda", "cuda:1"
  uint32_t thread_count = 1;        // of libtorch, in the whole process
  uint32_t context_length = 0;      // of one sequence; 0: what the model was made for
  uint32_t sequence_count_max = 1;  // at a time
  uint32_t node_count_max = 63;     // drafted nodes of one pass
  uint32_t row_count_max = 256;     // of one run of the transformer, and so of a prompt's chunk
};

// `path` starts messages about the model. `progress` may be null.
absl::StatusOr<std::unique_ptr<Target>> LoadTorchTarget(const ModelFile& model,
                                                        const std::string& path,
                                                        const TorchTargetOptions& options,
                                                        const LoadProgress& progress);

}  // namespace outrider
