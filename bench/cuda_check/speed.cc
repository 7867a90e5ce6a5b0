#include "bench/cuda_check/speed.h"

#include <cuda_runtime_api.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/cuda_check/the_gpu.h"
#include "bench/median.h"
#include "common/base/status.h"
#include "common/cuda/cuda_queue.h"
#include "common/cuda/cuda_status.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/cuda/launch.h"
#include "common/formats/tensors/panel_layout.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

using Clock = std::chrono::steady_clock;

// So much is read before anything is read again: more than any GPU caches.
constexpr size_t kWeightBytes = size_t{1} << 30;
constexpr uint32_t kRounds = 7;

absl::Status PrintCosts() {
  std::array<gpu::KernelCost, gpu::kKernelCount> costs;
  OUTRIDER_RETURN_IF_ERROR(CudaStatus(gpu::MeasureKernels(costs), "the kernels"));
  int threads_max = 0;
  OUTRIDER_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetAttribute(&threads_max, cudaDevAttrMaxThreadsPerMultiProcessor,
                                        static_cast<int>(GpuOrdinal())),
                 "the GPU"));
  std::printf("\n%-20s %8s %10s %8s %8s %10s\n", "kernel", "threads", "registers", "shared",
              "spilled", "occupancy");
  const std::array<gpu::KernelShape, gpu::kKernelCount> shapes = gpu::KernelShapes();
  for (size_t i = 0; i < shapes.size(); ++i) {
    std::printf("%-20s %8u %10d %8zu %8zu %9.0f%%\n", shapes[i].name, shapes[i].threads,
                costs[i].registers, shapes[i].shared_bytes, costs[i].local_bytes,
                100.0 * costs[i].blocks_per_multiprocessor * shapes[i].threads / threads_max);
  }
  return absl::OkStatus();
}

struct Kind {
  const char* name;
  TensorType type;
  gpu::PanelKind kind;
  uint32_t block;  // of rows
};

constexpr Kind kKinds[] = {{"F16", TensorType::kF16, gpu::PanelKind::kF16, 1},
                           {"BF16", TensorType::kBF16, gpu::PanelKind::kBf16, 1},
                           {"Q8_0", TensorType::kQ8_0, gpu::PanelKind::kQ8_0, 32},
                           {"Q4_0", TensorType::kQ4_0, gpu::PanelKind::kQ4_0, 32},
                           {"Q4_K", TensorType::kQ4_K, gpu::PanelKind::kQ4_K, 256},
                           {"Q5_K", TensorType::kQ5_K, gpu::PanelKind::kQ5_K, 256},
                           {"Q6_K", TensorType::kQ6_K, gpu::PanelKind::kQ6_K, 256}};
constexpr uint32_t kRowCounts[] = {1, 8, 16, 32, 64, 512};
constexpr uint32_t kInputs = 4096, kOutputs = 11008;

// A square's worth of matrices of a layer with 7 billion weights, one after another.
absl::Status PrintProduct(DeviceQueue& queue, const Kind& kind, double bandwidth) {
  const size_t panel_bytes = PanelBytes(kind.type, kInputs);
  const size_t matrix_bytes = panel_bytes * PanelCount(kOutputs);
  const size_t matrix_count = kWeightBytes / matrix_bytes;
  constexpr size_t kRowsMax = 512;
  OUTRIDER_ASSIGN_OR_RETURN(const DeviceBuffer weights,
                            DeviceBuffer::Create(queue, matrix_count * matrix_bytes, "weights"));
  OUTRIDER_ASSIGN_OR_RETURN(
      const DeviceBuffer x,
      DeviceBuffer::Create(queue, kRowsMax * kInputs * sizeof(float), "rows"));
  OUTRIDER_ASSIGN_OR_RETURN(
      const DeviceBuffer out,
      DeviceBuffer::Create(queue, kRowsMax * kOutputs * sizeof(float), "results"));
  OUTRIDER_ASSIGN_OR_RETURN(
      const DeviceBuffer sums,
      DeviceBuffer::Create(queue, gpu::RoomFor(kRowsMax, kOutputs) * sizeof(float), "sums"));
  constexpr size_t kCounterBytes = gpu::kSharedBlocks * sizeof(uint32_t);
  OUTRIDER_ASSIGN_OR_RETURN(const DeviceBuffer counters,
                            DeviceBuffer::Create(queue, kCounterBytes, "counters"));
  OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaMemset(counters.data(), 0, kCounterBytes), "counters"));
  // What is multiplied does not matter to how long it takes, as long as it is no subnormal number.
  OUTRIDER_RETURN_IF_ERROR(
      CudaStatus(cudaMemset(weights.data(), 0, matrix_count * matrix_bytes), "weights"));
  OUTRIDER_RETURN_IF_ERROR(
      CudaStatus(cudaMemset(x.data(), 0, kRowsMax * kInputs * sizeof(float)), "rows"));
  std::printf("%-6s", kind.name);
  for (const uint32_t rows : kRowCounts) {
    gpu::GpuRows taken = {.row_count = rows, .inputs = kInputs};
    taken.values = x.As<float>();
    taken.value_stride = kInputs;
    taken.terms = x.As<uint32_t>();
    taken.quants = x.As<int8_t>();
    taken.scales = x.As<float>();
    taken.sums = x.As<int16_t>();
    taken.block = kind.block;
    std::vector<double> seconds;
    for (uint32_t round = 0; round < kRounds; ++round) {
      const Clock::time_point begin = Clock::now();
      for (size_t i = 0; i < matrix_count; ++i) {
        if (gpu::TakesTerms(kind.kind, kOutputs, rows)) {
          const gpu::SplitRows split = {x.As<float>(), x.As<uint32_t>(), kInputs};
          queue.Run(split, rows, split.grid_y());
        }
        queue.Multiply({.panels = weights.data() + i * matrix_bytes,
                        .panel_bytes = panel_bytes,
                        .outputs = kOutputs,
                        .inputs = kInputs,
                        .bias = nullptr,
                        .x = taken,
                        .out = out.As<float>(),
                        .out_stride = kOutputs,
                        .room = {sums.As<float>(), counters.As<uint32_t>()}},
                       kind.kind);
      }
      OUTRIDER_RETURN_IF_ERROR(queue.Wait());
      seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    }
    const double floor = static_cast<double>(matrix_count * matrix_bytes) / bandwidth;
    std::printf(" %11.2f", Median(seconds) / floor);
  }
  std::printf("\n");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> CopyBandwidth() {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceQueue> queue, OpenCudaQueue(GpuOrdinal()));
  OUTRIDER_ASSIGN_OR_RETURN(const DeviceBuffer from,
                            DeviceBuffer::Create(*queue, kWeightBytes, "a copy"));
  OUTRIDER_ASSIGN_OR_RETURN(const DeviceBuffer to,
                            DeviceBuffer::Create(*queue, kWeightBytes, "a copy"));
  std::vector<double> seconds;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const Clock::time_point begin = Clock::now();
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpy(to.data(), from.data(), kWeightBytes, cudaMemcpyDeviceToDevice), "a copy"));
    OUTRIDER_RETURN_IF_ERROR(CudaStatus(cudaDeviceSynchronize(), "a copy"));
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2.0 * static_cast<double>(kWeightBytes) / Median(seconds);
}

absl::Status PrintSpeed() {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<DeviceQueue> queue, OpenCudaQueue(GpuOrdinal()));
  OUTRIDER_RETURN_IF_ERROR(PrintCosts());
  OUTRIDER_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth());
  std::printf("\nA copy on the device: %.0f GB/s\n", bandwidth / 1e9);
  std::printf("Products of %u x %u, time over that of reading the weights so fast, by rows:\n",
              kOutputs, kInputs);
  std::printf("%-6s", "");
  for (const uint32_t rows : kRowCounts) std::printf(" %11u", rows);
  std::printf("\n");
  for (const Kind& kind : kKinds) OUTRIDER_RETURN_IF_ERROR(PrintProduct(*queue, kind, bandwidth));
  return absl::OkStatus();
}

}  // namespace outrider
