// A few seconds' look at what a plan will run on: how fast this file is read, and how fast layers of
// it are packed and multiplied. Nothing is kept.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const FlashSpeed flash, ProbeFlash(*target, 3s, progress));
//   OUTRIDER_ASSIGN_OR_RETURN(const KernelSpeed kernels, ProbeKernels(*target, path, ..., {2s}));
//
// Memory: that of a layer, or of what is looked at of it, and a few megabytes of reads.
// Errors: what files have to say.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "client/planner/flash_forecast.h"
#include "common/base/monotonic_time.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"

namespace outrider {

struct FlashSpeed {
  double bytes_per_second = 0;
  std::string backend;  // how it was read (base/direct_file.h)
};

// Reads the model's first file from its beginning, as a store does, for so long or to its end.
// `progress` is told how many bytes have come; it may be null.
absl::StatusOr<FlashSpeed> ProbeFlash(const ModelFile& model, Duration time_max,
                                      const std::function<void(uint64_t bytes)>& progress);

struct KernelProbe {
  Duration time;                    // about so long
  uint64_t bytes_max = UINT64_MAX;  // of them, packed; but one is looked at, however large
};

// Of the first layer's matrices.
absl::StatusOr<KernelSpeed> ProbeKernels(const ModelFile& model, const std::string& path,
                                         const Kernels& kernels, ThreadPool& pool,
                                         const KernelProbe& probe);

}  // namespace outrider
