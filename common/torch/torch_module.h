// The one door of liboutrider_torch.so, the module that brings the engine on libtorch.
//
// libtorch is 170 MB in memory and takes a second to load, threads of its BLAS included: too much
// for a program that never uses it. So programs link torch_loader.cc, which opens the module when
// somebody asks for the engine. Both come from one build and lie in one directory.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/torch/torch_engine.h"

namespace outrider {

inline constexpr char kTorchModule[] = "liboutrider_torch.so";
inline constexpr char kTorchModuleEntry[] = "OutriderLoadTorchEngine";

// LoadTorchEngine(), with the result in the last.
using TorchModuleEntry = void(const ModelFile& model, const std::string& path,
                              const std::string& device, const EngineOptions& options,
                              const Kernels& kernels, ThreadPool& pool,
                              const LoadProgress& progress,
                              absl::StatusOr<std::unique_ptr<Engine>>& engine);

}  // namespace outrider

extern "C" outrider::TorchModuleEntry OutriderLoadTorchEngine;
