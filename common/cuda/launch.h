// Kernels on their way to a GPU: the one thing that nvcc compiles (launch.cu). Everything else only
// sees these.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "common/cuda/kernels/any_kernel.h"
#include "common/cuda/kernels/products.h"

namespace outrider::gpu {

struct Grid {
  uint32_t x;
  uint32_t y;
};

cudaError_t Launch(const AnyKernel& kernel, Grid grid, cudaStream_t stream);
// By the kernel that fits (kernels/product_choice.h).
cudaError_t Launch(const Product& product, PanelKind weights, cudaStream_t stream);

// What the driver has made of a kernel.
struct KernelCost {
  const char* name;
  uint32_t threads;
  int registers;
  size_t shared_bytes;  // for a model of ordinary shape
  size_t local_bytes;   // spilled: none, one hopes
  int blocks_per_multiprocessor;
};

// Whether kernels are there for the present device; cudaErrorNoKernelImageForDevice otherwise.
cudaError_t FindKernels();
// Of all kernels. `costs` has room for kKernelCount.
inline constexpr uint32_t kKernelCount = 28;
cudaError_t MeasureKernels(std::span<KernelCost> costs);

}  // namespace outrider::gpu
