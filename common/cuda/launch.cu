// Every kernel is one body (common/cuda/kernels) run by a GPU's threads. Compiled with -fmad=false:
// a fused multiply-add is one where it is written, as on the host.
#include "common/cuda/launch.h"

#include <typeinfo>

#include "common/cuda/block/gpu_block.h"
#include "common/cuda/kernels/product_choice.h"

namespace outrider::gpu {
namespace {

// What a block may have of shared memory without being asked twice.
constexpr size_t kSharedBytesUnasked = 48 * 1024;
constexpr uint32_t kGridYMax = 65535;

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads, BlocksAtOnce<Body>())
    RunBody(const __grid_constant__ Body body) {
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
cudaError_t Measure(const Body& body, KernelCost& cost) {
  cudaFuncAttributes attributes;
  cudaError_t error = cudaFuncGetAttributes(&attributes, RunBody<Body>);
  if (error != cudaSuccess) return error;
  cost = {attributes.numRegs, attributes.localSizeBytes, 0};
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &cost.blocks_per_multiprocessor, RunBody<Body>, Body::kThreads, body.SharedBytes());
}

// Bodies of the shapes of a model with 7 billion weights, for what they take of shared memory.
NormRows NormOf7B() {
  NormRows body = {};
  body.length = 4096;
  return body;
}

AdaptRows AdaptOf7B() {
  AdaptRows body = {};
  body.length = 4096;
  return body;
}

AttendRows AttendOf7B() {
  AttendRows body = {};
  body.key_length = body.value_length = 128;
  return body;
}

// And of a layer with 64 experts.
ChooseExperts ChooseOf64() {
  ChooseExperts body = {};
  body.expert_count = 64;
  body.used_count = 8;
  return body;
}

GroupRows GroupOf64() {
  GroupRows body = {};
  body.expert_count = 64;
  return body;
}

// use(name, body) for each that there is.
template <typename Use>
void UseAllBodies(const Use& use) {
  use("embed", EmbedRows{});
  use("norm, rows of 4096", NormOf7B());
  use("quantize", QuantizeRows{});
  use("split", SplitRows{});
  use("place heads", PlaceHeads{});
  use("attend, heads of 128", AttendManyRows{AttendOf7B()});
  use("attend, few rows", AttendFewRows{AttendOf7B()});
  use("gate", GateRows{});
  use("copy slots", CopySlots{});
  use("best of rows", BestOfRows{});
  use("gather outputs", GatherOutputs{});
  use("adapt, rows of 4096", AdaptOf7B());
  use("rank candidates", RankCandidates{});
  use("F32 product", FloatProduct{});
  use("F16, 8 rows, few outputs", FewRowsSplit<F16Weights, 1, 1>{});
  use("F16, 8 rows", FewRowsSplit<F16Weights, 2, 1>{});
  use("F16, 16 rows, few outputs", FewRowsSplit<F16Weights, 1, 2>{});
  use("F16, 16 rows", FewRowsSplit<F16Weights, 2, 2>{});
  use("F16, 64 rows, quarters", SomeRowsSplit<F16Weights, kQuarters>{});
  use("F16, 64 rows", SomeRowsSplit<F16Weights, 1>{});
  use("BF16, 8 rows, few outputs", FewRowsSplit<Bf16Weights, 1, 1>{});
  use("BF16, 8 rows", FewRowsSplit<Bf16Weights, 2, 1>{});
  use("BF16, 16 rows, few outputs", FewRowsSplit<Bf16Weights, 1, 2>{});
  use("BF16, 16 rows", FewRowsSplit<Bf16Weights, 2, 2>{});
  use("BF16, 64 rows, quarters", SomeRowsSplit<Bf16Weights, kQuarters>{});
  use("BF16, 64 rows", SomeRowsSplit<Bf16Weights, 1>{});
  use("choose experts of 64", ChooseOf64());
  use("group rows by 64 experts", GroupOf64());
  use("gather rows", GatherRows{});
  use("sum experts", SumExperts{});
  use("Q8_0, one tile dealt", OneTileDealt<Q8_0Block>{});
  use("Q8_0, two tiles dealt", TwoTilesDealt<Q8_0Block>{});
  use("Q8_0, four tiles dealt", SomeTilesDealt<Q8_0Block>{});
  use("Q8_0, own rows", TilesOwned<Q8_0Block>{});
  use("Q4_0, one tile dealt", OneTileDealt<Q4_0Block>{});
  use("Q4_0, two tiles dealt", TwoTilesDealt<Q4_0Block>{});
  use("Q4_0, four tiles dealt", SomeTilesDealt<Q4_0Block>{});
  use("Q4_0, own rows", TilesOwned<Q4_0Block>{});
  use("Q4_K, one tile dealt", OneTileDealt<Q4_KBlock>{});
  use("Q4_K, two tiles dealt", TwoTilesDealt<Q4_KBlock>{});
  use("Q4_K, own rows", TilesOwned<Q4_KBlock>{});
  use("Q5_K, one tile dealt", OneTileDealt<Q5_KBlock>{});
  use("Q5_K, two tiles dealt", TwoTilesDealt<Q5_KBlock>{});
  use("Q5_K, own rows", TilesOwned<Q5_KBlock>{});
  use("Q6_K, one tile dealt", OneTileDealt<Q6_KBlock>{});
  use("Q6_K, two tiles dealt", TwoTilesDealt<Q6_KBlock>{});
  use("Q6_K, own rows", TilesOwned<Q6_KBlock>{});
  use("F16, 8 rows, few outputs, jointly", Jointly<FewRowsSplit<F16Weights, 1, 1>>{});
  use("F16, 8 rows, jointly", Jointly<FewRowsSplit<F16Weights, 2, 1>>{});
  use("F16, 16 rows, few outputs, jointly", Jointly<FewRowsSplit<F16Weights, 1, 2>>{});
  use("F16, 16 rows, jointly", Jointly<FewRowsSplit<F16Weights, 2, 2>>{});
  use("BF16, 8 rows, few outputs, jointly", Jointly<FewRowsSplit<Bf16Weights, 1, 1>>{});
  use("BF16, 8 rows, jointly", Jointly<FewRowsSplit<Bf16Weights, 2, 1>>{});
  use("BF16, 16 rows, few outputs, jointly", Jointly<FewRowsSplit<Bf16Weights, 1, 2>>{});
  use("BF16, 16 rows, jointly", Jointly<FewRowsSplit<Bf16Weights, 2, 2>>{});
  use("Q8_0, one tile dealt, jointly", Jointly<OneTileDealt<Q8_0Block>>{});
  use("Q8_0, two tiles dealt, jointly", Jointly<TwoTilesDealt<Q8_0Block>>{});
  use("Q8_0, four tiles dealt, jointly", Jointly<SomeTilesDealt<Q8_0Block>>{});
  use("Q4_0, one tile dealt, jointly", Jointly<OneTileDealt<Q4_0Block>>{});
  use("Q4_0, two tiles dealt, jointly", Jointly<TwoTilesDealt<Q4_0Block>>{});
  use("Q4_0, four tiles dealt, jointly", Jointly<SomeTilesDealt<Q4_0Block>>{});
  use("Q4_K, one tile dealt, jointly", Jointly<OneTileDealt<Q4_KBlock>>{});
  use("Q4_K, two tiles dealt, jointly", Jointly<TwoTilesDealt<Q4_KBlock>>{});
  use("Q5_K, one tile dealt, jointly", Jointly<OneTileDealt<Q5_KBlock>>{});
  use("Q5_K, two tiles dealt, jointly", Jointly<TwoTilesDealt<Q5_KBlock>>{});
  use("Q6_K, one tile dealt, jointly", Jointly<OneTileDealt<Q6_KBlock>>{});
  use("Q6_K, two tiles dealt, jointly", Jointly<TwoTilesDealt<Q6_KBlock>>{});
  use("F32 product, by expert", ProductOfGroups<FloatProduct>{});
  use("F16, 8 rows, few outputs, by expert", ProductOfGroups<FewRowsSplit<F16Weights, 1, 1>>{});
  use("F16, 8 rows, by expert", ProductOfGroups<FewRowsSplit<F16Weights, 2, 1>>{});
  use("F16, 16 rows, few outputs, by expert", ProductOfGroups<FewRowsSplit<F16Weights, 1, 2>>{});
  use("F16, 16 rows, by expert", ProductOfGroups<FewRowsSplit<F16Weights, 2, 2>>{});
  use("BF16, 8 rows, few outputs, by expert", ProductOfGroups<FewRowsSplit<Bf16Weights, 1, 1>>{});
  use("BF16, 8 rows, by expert", ProductOfGroups<FewRowsSplit<Bf16Weights, 2, 1>>{});
  use("BF16, 16 rows, few outputs, by expert", ProductOfGroups<FewRowsSplit<Bf16Weights, 1, 2>>{});
  use("BF16, 16 rows, by expert", ProductOfGroups<FewRowsSplit<Bf16Weights, 2, 2>>{});
  use("Q8_0, one tile dealt, by expert", ProductOfGroups<OneTileDealt<Q8_0Block>>{});
  use("Q8_0, two tiles dealt, by expert", ProductOfGroups<TwoTilesDealt<Q8_0Block>>{});
  use("Q8_0, four tiles dealt, by expert", ProductOfGroups<SomeTilesDealt<Q8_0Block>>{});
  use("Q8_0, own rows, by expert", ProductOfGroups<TilesOwned<Q8_0Block>>{});
  use("Q4_0, one tile dealt, by expert", ProductOfGroups<OneTileDealt<Q4_0Block>>{});
  use("Q4_0, two tiles dealt, by expert", ProductOfGroups<TwoTilesDealt<Q4_0Block>>{});
  use("Q4_0, four tiles dealt, by expert", ProductOfGroups<SomeTilesDealt<Q4_0Block>>{});
  use("Q4_0, own rows, by expert", ProductOfGroups<TilesOwned<Q4_0Block>>{});
  use("Q4_K, one tile dealt, by expert", ProductOfGroups<OneTileDealt<Q4_KBlock>>{});
  use("Q4_K, two tiles dealt, by expert", ProductOfGroups<TwoTilesDealt<Q4_KBlock>>{});
  use("Q4_K, own rows, by expert", ProductOfGroups<TilesOwned<Q4_KBlock>>{});
  use("Q5_K, one tile dealt, by expert", ProductOfGroups<OneTileDealt<Q5_KBlock>>{});
  use("Q5_K, two tiles dealt, by expert", ProductOfGroups<TwoTilesDealt<Q5_KBlock>>{});
  use("Q5_K, own rows, by expert", ProductOfGroups<TilesOwned<Q5_KBlock>>{});
  use("Q6_K, one tile dealt, by expert", ProductOfGroups<OneTileDealt<Q6_KBlock>>{});
  use("Q6_K, two tiles dealt, by expert", ProductOfGroups<TwoTilesDealt<Q6_KBlock>>{});
  use("Q6_K, own rows, by expert", ProductOfGroups<TilesOwned<Q6_KBlock>>{});
}

}  // namespace

cudaError_t Launch(const EmbedRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const NormRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const QuantizeRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const SplitRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const PlaceHeads& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const AttendRows& kernel, Grid grid, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  UseAttendBody(kernel, grid.x, [&](const auto& body) { error = LaunchBody(body, grid, stream); });
  return error;
}
cudaError_t Launch(const GateRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const CopySlots& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const BestOfRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const GatherOutputs& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const AdaptRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const RankCandidates& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const ChooseExperts& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const GroupRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const GatherRows& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}
cudaError_t Launch(const SumExperts& kernel, Grid grid, cudaStream_t stream) {
  return LaunchBody(kernel, grid, stream);
}

cudaError_t Launch(const Product& product, PanelKind weights, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  UseProduct(product, weights, [&](const auto& body, uint32_t x, uint32_t y) {
    error = LaunchBody(body, {x, y}, stream);
  });
  return error;
}

cudaError_t Launch(const JointProducts& products, PanelKind weights, cudaStream_t stream) {
  cudaError_t first = cudaSuccess;
  UseJointProducts(products, weights, [&](const auto& body, uint32_t x, uint32_t y) {
    const cudaError_t error = LaunchBody(body, {x, y}, stream);
    if (first == cudaSuccess) first = error;
  });
  return first;
}

cudaError_t Launch(const GroupedProduct& product, PanelKind weights, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  UseGroupedProduct(product, weights, [&](const auto& body, uint32_t x, uint32_t y) {
    error = LaunchBody(body, {x, y}, stream);
  });
  return error;
}

cudaError_t FindKernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, RunBody<GateRows>);
}

std::array<KernelShape, kKernelCount> KernelShapes() {
  std::array<KernelShape, kKernelCount> shapes;
  uint32_t at = 0;
  UseAllBodies([&]<typename Body>(const char* name, const Body& body) {
    shapes[at++] = {name, typeid(Body).name(), Body::kThreads, body.SharedBytes()};
  });
  return shapes;
}

cudaError_t MeasureKernels(std::array<KernelCost, kKernelCount>& costs) {
  uint32_t at = 0;
  cudaError_t first = cudaSuccess;
  UseAllBodies([&](const char*, const auto& body) {
    const cudaError_t error = Measure(body, costs[at++]);
    if (first == cudaSuccess) first = error;
  });
  return first;
}

}  // namespace outrider::gpu
