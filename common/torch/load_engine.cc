#include "common/torch/load_engine.h"

#include <charconv>
#include <optional>

#include "common/base/status.h"
#include "common/cuda/cuda_engine.h"
#include "common/engine/cpu_engine.h"
#include "common/torch/torch_engine.h"

namespace outrider {
namespace {

constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kTorch = "torch";
constexpr std::string_view kCuda = "cuda";
constexpr std::string_view kTorchCuda = "torch:cuda";

// Which GPU `device` means, where it is `kind` or `kind`:N.
std::optional<uint32_t> OrdinalOf(std::string_view device, std::string_view kind) {
  if (device == kind) return 0;
  if (!device.starts_with(kind) || device.substr(kind.size()).find(':') != 0) return std::nullopt;
  const std::string_view digits = device.substr(kind.size() + 1);
  uint32_t ordinal = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return ordinal;
}

}  // namespace

absl::Status CheckDevice(std::string_view device) {
  if (device == kCpu || device == kTorch || OrdinalOf(device, kCuda) ||
      OrdinalOf(device, kTorchCuda)) {
    return absl::OkStatus();
  }
  return InvalidArgument(device, " is none of cpu, cuda, cuda:N, torch, torch:cuda, torch:cuda:N");
}

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const std::string& device,
                                                   const ModelFile& model, const std::string& path,
                                                   const EngineOptions& options,
                                                   const Kernels& kernels, ThreadPool& pool,
                                                   const LoadProgress& progress) {
  OUTRIDER_RETURN_IF_ERROR(CheckDevice(device));
  if (device == kCpu) return LoadCpuEngine(model, path, options, kernels, pool, progress);
  if (const std::optional<uint32_t> ordinal = OrdinalOf(device, kCuda)) {
    return LoadCudaEngine(model, path, *ordinal, options, kernels, pool, progress);
  }
  const std::string torch_device =
      device == kTorch ? std::string(kCpu) : device.substr(kTorch.size() + 1);
  return LoadTorchEngine(model, path, torch_device, options, kernels, pool, progress);
}

}  // namespace outrider
