// The one door of liboutrider_torch.so, the module that brings the target on libtorch.
//
// libtorch is 170 MB in memory and takes a second to load, threads of its BLAS included: too much
// for a server that never uses it. So a program links torch_loader.cc, which opens the module when
// somebody asks for the target. Both come from one build and lie in one directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/torch/torch_target.h"

namespace outrider {

inline constexpr char kTorchModule[] = "liboutrider_torch.so";
inline constexpr char kTorchModuleEntry[] = "OutriderLoadTorchTarget";

// LoadTorchTarget(), with the result in the last.
using TorchModuleEntry = void(const ModelFile& model, const std::string& path,
                              const TorchTargetOptions& options, const LoadProgress& progress,
                              absl::StatusOr<std::unique_ptr<Target>>& target);

}  // namespace outrider

extern "C" outrider::TorchModuleEntry OutriderLoadTorchTarget;
