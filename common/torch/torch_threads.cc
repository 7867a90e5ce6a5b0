#include "common/torch/torch_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

namespace outrider {

void SetTorchThreads(uint32_t thread_count) {
  at::set_num_threads(static_cast<int>(thread_count));
  // Which BLAS there is shows when the program is loaded (Debian's alternatives), so it is asked
  // for by name.
  using SetThreads = void (*)(int);
  if (void* const symbol = dlsym(RTLD_DEFAULT, "openblas_set_num_threads"); symbol != nullptr) {
    reinterpret_cast<SetThreads>(symbol)(static_cast<int>(thread_count));
  }
}

}  // namespace outrider
