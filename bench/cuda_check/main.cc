// outrider-cuda-check [ORDINAL] [--speed-only | --no-speed] [GoogleTest's options]
// outrider-cuda-check [ORDINAL] --passes MODEL.gguf
// outrider-cuda-check --kernels | --counts
//
// Everything that has to hold on a GPU, in one program that is built where there is none and
// carried to where there is one: every kernel against its emulation, bit for bit; the engine
// against the one on this machine's processor, bit for bit (both within rounding where weights are
// F16 or BF16); the laws of every engine and target; then what kernels take of the GPU, and what
// part of its bandwidth products reach. bench/README.md says what the figures mean. Not zero when
// anything is wrong; without a GPU, a sentence says so. --passes says instead how long passes of a
// model take (pass_speed.h).
//
// Two ask no GPU: --kernels says what each kernel's launch takes, for bench/cuda_check/registers, and
// --counts what a pass of Llama-2-7B moves and computes (pass_costs.h).
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "bench/cuda_check/pass_costs.h"
#include "bench/cuda_check/pass_speed.h"
#include "bench/cuda_check/speed.h"
#include "bench/cuda_check/the_gpu.h"
#include "common/base/status.h"
#include "common/cuda/devices.h"
#include "common/cuda/launch.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

// 2: there is no GPU to check.
int Refuse(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(Message(status)).c_str());
  return 2;
}

// A line each: name, type, threads, bytes of shared memory; tabs between.
int PrintKernels() {
  for (const gpu::KernelShape& shape : gpu::KernelShapes()) {
    std::printf("%s\t%s\t%u\t%zu\n", shape.name, shape.body, shape.threads, shape.shared_bytes);
  }
  return 0;
}

int Check(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  bool tests = true, speed = true;
  std::string passes_of;  // empty: of no model
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const char* const end = argument.data() + argument.size();
    if (argument == "--kernels") return PrintKernels();
    if (argument == "--counts") {
      PrintPassCosts();
      std::putchar('\n');
      PrintExitCosts();
      return 0;
    }
    if (argument == "--passes") {
      if (i + 1 == argc) return Refuse(InvalidArgument("--passes wants a model's file"));
      passes_of = argv[++i];
    } else if (argument == "--speed-only") {
      tests = false;
    } else if (argument == "--no-speed") {
      speed = false;
    } else if (std::from_chars(argument.data(), end, GpuOrdinal()).ptr != end) {
      return Refuse(InvalidArgument(argument, " is no GPU's ordinal and no option"));
    }
  }
  const absl::StatusOr<std::vector<CudaDevice>> devices = CudaDevices();
  if (!devices.ok()) return Refuse(devices.status());
  if (GpuOrdinal() >= devices->size()) {
    return Refuse(FailedPrecondition("there is no GPU ", GpuOrdinal(), ": this machine has ",
                                     devices->size(), ", counted from 0"));
  }
  const CudaDevice& gpu = (*devices)[GpuOrdinal()];
  std::printf("GPU %d: %s, compute capability %d.%d, %.1f GB\n", gpu.ordinal, gpu.name.c_str(),
              gpu.compute_capability / 10, gpu.compute_capability % 10,
              static_cast<double>(gpu.memory_bytes) / 1e9);
  if (!passes_of.empty()) {
    const absl::Status status = PrintPassSpeed(passes_of);
    return status.ok() ? 0 : Refuse(status);
  }
  const int failed = tests ? RUN_ALL_TESTS() : 0;
  if (speed) {
    if (const absl::Status status = PrintSpeed(); !status.ok()) return Refuse(status);
  }
  return failed;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Check(argc, argv);
}
