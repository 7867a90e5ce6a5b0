// Every kernel is one body (common/cuda/kernels) run by a GPU's threads. Compiled with -fmad=false:
// a fused multiply-add is one where it is written, as on the host.
#include "common/cuda/launch.h"

#include <variant>

#include "common/cuda/block/gpu_block.h"
#include "common/cuda/kernels/product_choice.h"

namespace outrider::gpu {
namespace {

// What a block may have of shared memory without being asked twice.
constexpr size_t kSharedBytesUnasked = 48 * 1024;
constexpr uint32_t kGridYMax = 65535;

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads) RunBody(const Body body) {
  extern __shared__ __align__(16) std::byte shared[];
  GpuBlock block(shared);
  body(block);
}

template <typename Body>
cudaError_t LaunchBody(const Body& body, Grid grid, cudaStream_t stream) {
  if (grid.x == 0 || grid.y == 0) return cudaSuccess;
  if (grid.y > kGridYMax) return cudaErrorInvalidConfiguration;
  const size_t shared_bytes = body.SharedBytes();
  if (shared_bytes > kSharedBytesUnasked) {
    const cudaError_t error = cudaFuncSetAttribute(
        RunBody<Body>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
  }
  RunBody<Body><<<dim3(grid.x, grid.y), Body::kThreads, shared_bytes, stream>>>(body);
  return cudaGetLastError();
}

template <typename Body>
cudaError_t Measure(const char* name, const Body& body, KernelCost& cost) {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, RunBody<Body>);
  if (error != cudaSuccess) return error;
  cost = {name, Body::kThreads, attributes.numRegs, body.SharedBytes(), attributes.localSizeBytes,
          0};
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &cost.blocks_per_multiprocessor, RunBody<Body>, Body::kThreads, cost.shared_bytes);
}

// Bodies of the shapes of a model with 7 billion weights, for what they take of shared memory.
NormRows NormOf7B() {
  NormRows body = {};
  body.length = 4096;
  return body;
}

AttendRows AttendOf7B() {
  AttendRows body = {};
  body.key_length = body.value_length = 128;
  return body;
}

// And of one with 128 experts, of which rows use 8.
RouteRows RouteOf128() {
  RouteRows body = {};
  body.expert_count = 128;
  body.used_count = 8;
  return body;
}

GroupChoices GroupOf128() {
  GroupChoices body = {};
  body.expert_count = 128;
  return body;
}

}  // namespace

cudaError_t Launch(const AnyKernel& kernel, Grid grid, cudaStream_t stream) {
  return std::visit([&](const auto& body) { return LaunchBody(body, grid, stream); }, kernel);
}

cudaError_t Launch(const Product& product, PanelKind weights, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  UseProduct(product, weights, [&](const auto& body, uint32_t x, uint32_t y) {
    error = LaunchBody(body, {x, y}, stream);
  });
  return error;
}

cudaError_t FindKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, RunBody<GateRows>);
}

cudaError_t MeasureKernels(std::span<KernelCost> costs) {
  if (costs.size() < kKernelCount) return cudaErrorInvalidValue;
  uint32_t at = 0;
  cudaError_t first = cudaSuccess;
  const auto measure_as = [&](const char* name, const auto& body) {
    const cudaError_t error = Measure(name, body, costs[at++]);
    if (first == cudaSuccess) first = error;
  };
  const auto measure = [&](const auto& body) { measure_as(body.kName, body); };
  measure(EmbedRows{});
  measure(NormOf7B());
  measure(QuantizeRows{});
  measure(PlaceHeads{});
  measure(AttendOf7B());
  measure(GateRows{});
  measure(CopySlots{});
  measure(BestOfRows{});
  measure(RouteOf128());
  measure(GroupOf128());
  measure(GatherRows{});
  measure(SumExperts{});
  measure(CapRows{});
  measure(RaceRows{});
  measure(ShortlistRows{});
  measure_as("F32", FloatProduct<F32Weights>{});
  measure_as("F16", FloatProduct<F16Weights>{});
  measure_as("BF16", FloatProduct<Bf16Weights>{});
  measure_as("Q8_0, few rows", FewRowsProduct<Q8_0Block>{});
  measure_as("Q8_0, many rows", ManyRowsProduct<Q8_0Block>{});
  measure_as("Q4_0, few rows", FewRowsProduct<Q4_0Block>{});
  measure_as("Q4_0, many rows", ManyRowsProduct<Q4_0Block>{});
  measure_as("Q4_K, few rows", FewRowsProduct<Q4_KBlock>{});
  measure_as("Q4_K, many rows", ManyRowsProduct<Q4_KBlock>{});
  measure_as("Q5_K, few rows", FewRowsProduct<Q5_KBlock>{});
  measure_as("Q5_K, many rows", ManyRowsProduct<Q5_KBlock>{});
  measure_as("Q6_K, few rows", FewRowsProduct<Q6_KBlock>{});
  measure_as("Q6_K, many rows", ManyRowsProduct<Q6_KBlock>{});
  return first;
}

}  // namespace outrider::gpu
