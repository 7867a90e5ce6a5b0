#include "adapters/training/torch_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>

#include <climits>

namespace outrider {
namespace {

// OpenBLAS is found at run time: which BLAS there is is the machine's choice (update-alternatives).
using SetOpenBlasThreads = void (*)(int);

SetOpenBlasThreads FindOpenBlas() {
  return reinterpret_cast<SetOpenBlasThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
}

}  // namespace

void SetTorchThreads(int count) {
  at::set_num_threads(count);
  // A step takes and frees the same large tensors again and again; given back to the kernel in
  // between they would be cleared anew each time.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  if (const SetOpenBlasThreads set = FindOpenBlas()) set(count);
}

bool HasOpenBlas() {
  return FindOpenBlas() != nullptr;
}

bool HasBfloat16Products() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace outrider
