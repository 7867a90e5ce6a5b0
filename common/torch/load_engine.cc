#include "common/torch/load_engine.h"

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/torch/torch_engine.h"

namespace outrider {
namespace {

constexpr std::string_view kCpu = "cpu";
constexpr std::string_view kTorch = "torch";
constexpr std::string_view kTorchCuda = "torch:cuda";

}  // namespace

absl::Status CheckDevice(std::string_view device) {
  if (device == kCpu || device == kTorch || device == kTorchCuda) return absl::OkStatus();
  const bool is_numbered =
      device.starts_with(kTorchCuda) && device.size() > kTorchCuda.size() + 1 &&
      device[kTorchCuda.size()] == ':' &&
      device.find_first_not_of("0123456789", kTorchCuda.size() + 1) == device.npos;
  if (is_numbered) return absl::OkStatus();
  return InvalidArgument(device, " is none of cpu, torch, torch:cuda, torch:cuda:N");
}

absl::StatusOr<std::unique_ptr<Engine>> LoadEngine(const std::string& device,
                                                   const ModelFile& model, const std::string& path,
                                                   const EngineOptions& options,
                                                   const Kernels& kernels, ThreadPool& pool,
                                                   const LoadProgress& progress) {
  OUTRIDER_RETURN_IF_ERROR(CheckDevice(device));
  if (device == kCpu) return LoadCpuEngine(model, path, options, kernels, pool, progress);
  const std::string torch_device =
      device == kTorch ? std::string(kCpu) : device.substr(kTorch.size() + 1);
  return LoadTorchEngine(model, path, torch_device, options, kernels, pool, progress);
}

}  // namespace outrider
