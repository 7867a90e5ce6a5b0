#include "adapters/training/torch_setup.h"

#include <ATen/Context.h>
#include <dlfcn.h>
#include <malloc.h>

#include <climits>

#include "common/torch/torch_threads.h"

namespace outrider {

void PrepareTorch() {
  SetTorchThreads(1);
  // A step takes and frees the same large tensors again and again; given back to the kernel in
  // between they would be cleared anew each time. Arenas of their own would do that for threads.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_ARENA_MAX, 1);
}

at::Device TrainingDevice() {
  return at::globalContext().hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

bool HasOpenBlas() {
  return dlsym(RTLD_DEFAULT, "openblas_set_num_threads") != nullptr;
}

bool HasBfloat16Products(const at::Device& device) {
  if (!device.is_cpu()) return true;
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace outrider
