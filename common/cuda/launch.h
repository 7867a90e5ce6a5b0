// Kernels on their way to a GPU: the one thing that nvcc compiles (launch.cu). Everything else only
// sees these.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/attend_rows.h"
#include "common/cuda/kernels/best_of_rows.h"
#include "common/cuda/kernels/exit_kernels.h"
#include "common/cuda/kernels/expert_rows.h"
#include "common/cuda/kernels/grouped_products.h"
#include "common/cuda/kernels/joint_products.h"
#include "common/cuda/kernels/norm_rows.h"
#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quantize_rows.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/kernels/split_products.h"

namespace outrider::gpu {

struct Grid {
  uint32_t x;
  uint32_t y;
};

cudaError_t Launch(const EmbedRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const NormRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const QuantizeRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const SplitRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const PlaceHeads& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const AttendRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const GateRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const CopySlots& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const BestOfRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const GatherOutputs& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const AdaptRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const RankCandidates& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const ChooseExperts& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const GroupRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const GatherRows& kernel, Grid grid, cudaStream_t stream);
cudaError_t Launch(const SumExperts& kernel, Grid grid, cudaStream_t stream);
// By the kernel that fits (kernels/product_choice.h).
cudaError_t Launch(const Product& product, PanelKind weights, cudaStream_t stream);
cudaError_t Launch(const JointProducts& products, PanelKind weights, cudaStream_t stream);
cudaError_t Launch(const GroupedProduct& product, PanelKind weights, cudaStream_t stream);

// What a kernel's launch says it takes.
struct KernelShape {
  const char* name;
  const char* body;  // its type, as a linker knows it
  uint32_t threads;
  size_t shared_bytes;  // for a model of ordinary shape
};

// Of all kernels. No GPU is asked.
inline constexpr uint32_t kKernelCount = 93;
std::array<KernelShape, kKernelCount> KernelShapes();

// What the driver has made of a kernel.
struct KernelCost {
  int registers;
  size_t local_bytes;  // spilled: none, one hopes
  int blocks_per_multiprocessor;
};

// Whether kernels are there for the present device; cudaErrorNoKernelImageForDevice otherwise.
cudaError_t FindKernels();
// In the order of KernelShapes().
cudaError_t MeasureKernels(std::array<KernelCost, kKernelCount>& costs);

}  // namespace outrider::gpu
