// An engine by the name of its device, for programs whose users choose one:
//
//   cpu            this processor, by our own arithmetic
//   cuda           a GPU, by our own kernels; cuda:1 is the second
//   torch          this processor, by libtorch
//   torch:cuda     a GPU, by libtorch; torch:cuda:1 is the second
//
//   OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
//                             LoadEngine("cuda", *model, path, {}, kernels, *pool, progress));
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

// InvalidArgument for a name that means no device, before a model is opened for nothing. Whether
// the machine has the device is known only when it is used.
absl::Status CheckDevice(std::string_view device);

// `path` starts messages about the model. Kernels and pool outlive the engine. Besides the errors
// of loading: FailedPrecondition, in a sentence, for a device that there is not.
absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const std::string& device,
                                                   const ModelFile& model, const std::string& path,
                                                   const EngineOptions& options,
                                                   const Kernels& kernels, ThreadPool& pool,
                                                   const LoadProgress& progress);

}  // namespace outrider
