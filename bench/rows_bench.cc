// What the row kernels cost, in cycles of this core, for every instruction set the machine has.
//
//   build/release/bench/rows_bench [--benchmark_filter=attend]
//
// Attention is counted per key and head, and against its floor: the fmas of q.k and of the values,
// at the rate independent fmas reach. Everything else in it (summing lanes, exp, widening) comes on
// top. The other kernels are counted in bytes of the row per cycle.
//
// Counters are medians over the iterations. A cycle (one addition of a long chain) and an fma are
// measured beside each of them, so frequency and neighbours cancel, as far as they can.
//
// Each run first checks that the results have the reference's bits.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "bench/median.h"
#include "benchmark/benchmark.h"
#include "common/formats/tensors/half.h"
#include "common/kernels/attention.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

const RowKernels& RowsOf(Isa isa) {
  return KernelsFor(isa).rows;
}

std::vector<float> Gaussian(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

double Nanoseconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

double NanosecondsPerCycle() {
  constexpr int kAdditions = 20000;
  const double nanoseconds = Nanoseconds([] {
    uint64_t x = 0;
    for (int i = 0; i < kAdditions; ++i) {
      x += 1;
      asm volatile("" : "+r"(x));  // one addition at a time
    }
  });
  return nanoseconds / kAdditions;
}

#if defined(__x86_64__)

// Twelve independent fmas hide each other's latency.
#define OUTRIDER_TWELVE_FMAS(r)                    \
  ".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\n" \
  "vfmadd231ps %%" r "12, %%" r "13, %%" r         \
  "\\n\n"                                          \
  ".endr\n"
#define OUTRIDER_ALL_REGISTERS                                                             \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
      "xmm11", "xmm12", "xmm13"

// An fma of one register of the instruction set.
double NanosecondsPerFma(Isa isa) {
  constexpr int kLoops = 1000;
  asm volatile("vzeroall" ::: OUTRIDER_ALL_REGISTERS);  // whatever lay there might be slow
  const double nanoseconds = Nanoseconds([&] {
    if (isa != Isa::kAvx2) {
      for (int i = 0; i < kLoops; ++i) {
        asm volatile(OUTRIDER_TWELVE_FMAS("zmm")::: OUTRIDER_ALL_REGISTERS);
      }
    } else {
      for (int i = 0; i < kLoops; ++i) {
        asm volatile(OUTRIDER_TWELVE_FMAS("ymm")::: OUTRIDER_ALL_REGISTERS);
      }
    }
  });
  return nanoseconds / (12 * kLoops);
}

uint32_t FloatsPerRegister(Isa isa) {
  return isa != Isa::kAvx2 ? 16 : 8;
}

#endif

struct Medians {
  double work;   // of one call, in nanoseconds
  double cycle;  // likewise
  double fma;    // likewise; 0 where it is not known
};

Medians Measure(benchmark::State& state, [[maybe_unused]] Isa isa,
                const std::function<void()>& work) {
  std::vector<double> works, cycles, fmas;
  for (auto _ : state) {
    works.push_back(Nanoseconds(work));
    cycles.push_back(NanosecondsPerCycle());
#if defined(__x86_64__)
    fmas.push_back(NanosecondsPerFma(isa));
#endif
  }
  return {Median(works), Median(cycles), fmas.empty() ? 0 : Median(fmas)};
}

// As the model keeps its rows: from a multiple of 64 bytes on.
template <class Number>
Number* Aligned(std::vector<Number>& storage) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(storage.data());
  return storage.data() + (64 - start % 64) % 64 / sizeof(Number);
}

// One row's attention over pages of a cache that hold nothing else.
struct Attention {
  Attention(uint32_t heads, uint32_t length, uint32_t context)
      : queries(Gaussian(size_t{heads} * length + 16, 1)),
        outputs(queries.size()),
        expected(queries.size()) {
    const size_t page_halves = size_t{2} * kChunk * length;
    for (const float value : Gaussian((context + kChunk) * size_t{2} * length, 2)) {
      pages.push_back(FloatToHalf(value));
    }
    for (uint32_t done = 0; done < context; done += kChunk) {
      runs.push_back(
          {Aligned(pages) + done / kChunk * page_halves, 0, std::min(kChunk, context - done)});
    }
    task = {.queries = Aligned(queries),
            .outputs = Aligned(expected),
            .head_count = heads,
            .key_length = length,
            .value_length = length,
            .scale = 0.125f,
            .first_position = 0,
            .runs = runs.data(),
            .run_count = static_cast<uint32_t>(runs.size()),
            .keys_at = 0,
            .values_at = size_t{kChunk} * length};
    RowsOf(Isa::kScalar).attend(task);
    task.outputs = Aligned(outputs);
  }

  std::vector<float> queries, outputs, expected;
  std::vector<uint16_t> pages;
  std::vector<KeyRun> runs;
  AttentionTask task;
};

void Attend(benchmark::State& state, Isa isa) {
  const uint32_t heads = static_cast<uint32_t>(state.range(0));
  const uint32_t length = static_cast<uint32_t>(state.range(1));
  const uint32_t context = static_cast<uint32_t>(state.range(2));
  Attention attention(heads, length, context);
  const RowKernels& rows = RowsOf(isa);
  rows.attend(attention.task);
  if (std::memcmp(Aligned(attention.outputs), Aligned(attention.expected),
                  size_t{heads} * length * sizeof(float)) != 0) {
    state.SkipWithError("the outputs are not the reference's");
    return;
  }
  const Medians medians = Measure(state, isa, [&] { rows.attend(attention.task); });
  state.counters["cycles/key/head"] = medians.work / medians.cycle / heads / context;
#if defined(__x86_64__)
  const double fmas = 2.0 * length / FloatsPerRegister(isa) * heads * context;
  state.counters["fmas/cycle"] = medians.cycle / medians.fma;
  state.counters["times_floor"] = medians.work / (fmas * medians.fma);
#endif
}

// kernel(rows, x, y, out)
using RowKernel = std::function<void(const RowKernels&, float*, const float*, float*)>;

void Row(benchmark::State& state, Isa isa, uint32_t count, const RowKernel& kernel) {
  const std::vector<float> x = Gaussian(count, 1);
  const std::vector<float> y = Gaussian(count, 2);
  std::vector<float> expected_x = x, expected(count), actual_x = x, actual(count);
  kernel(RowsOf(Isa::kScalar), expected_x.data(), y.data(), expected.data());
  kernel(RowsOf(isa), actual_x.data(), y.data(), actual.data());
  if (std::memcmp(expected.data(), actual.data(), count * sizeof(float)) != 0 ||
      expected_x != actual_x) {
    state.SkipWithError("the outputs are not the reference's");
    return;
  }
  constexpr int kCalls = 32;  // a call is short beside the clock
  const Medians medians = Measure(state, isa, [&] {
    for (int i = 0; i < kCalls; ++i) {
      kernel(RowsOf(isa), actual_x.data(), y.data(), actual.data());
      benchmark::ClobberMemory();
    }
  });
  state.counters["bytes/cycle"] = count * sizeof(float) * kCalls * medians.cycle / medians.work;
}

void RegisterRow(Isa isa, const std::string& name, uint32_t count, RowKernel kernel) {
  benchmark::RegisterBenchmark(
      (name + "/" + std::to_string(count) + "/" + std::string(Name(isa))).c_str(),
      [=](benchmark::State& state) { Row(state, isa, count, kernel); });
}

void RegisterRows(Isa isa, uint32_t count) {
  RegisterRow(isa, "rms_norm", count,
              [count](const RowKernels& rows, float* x, const float* y, float* out) {
                rows.rms_norm(x, y, 1e-5f, count, out);
              });
  RegisterRow(isa, "layer_norm", count,
              [count](const RowKernels& rows, float* x, const float* y, float* out) {
                rows.layer_norm(x, y, y, 1e-5f, count, out);
              });
  RegisterRow(isa, "add", count,
              [count](const RowKernels& rows, float*, const float* y, float* out) {
                rows.add(out, y, count);
              });
  RegisterRow(isa, "silu_gate", count,
              [count](const RowKernels& rows, float* x, const float* y, float* out) {
                rows.silu_gate(x, y, count, out);
              });
  RegisterRow(isa, "exp", count,
              [count](const RowKernels& rows, float* x, const float*, float* out) {
                rows.exp(x, count, out);
              });
  for (const uint32_t block : {32u, 256u}) {
    RegisterRow(isa, "quantize" + std::to_string(block), count,
                [count, block](const RowKernels& rows, float* x, const float*, float* out) {
                  // Quants, scales and sums fit where the row's floats would.
                  int8_t* quants = reinterpret_cast<int8_t*>(out);
                  float* scales = out + count / 4;
                  int16_t* sums = reinterpret_cast<int16_t*>(out + count / 2);
                  rows.quantize(x, count, block, quants, scales, sums);
                });
  }
}

void RegisterAll() {
  for (const Isa isa : SupportedIsas()) {
    if (isa == Isa::kScalar || isa == Isa::kAmx) continue;  // AMX has AVX-512's
    benchmark::RegisterBenchmark((std::string("attend/") + std::string(Name(isa))).c_str(), Attend,
                                 isa)
        ->ArgNames({"heads", "length", "context"})
        ->Args({8, 64, 1000})  // TinyLlama 1.1B, Llama 3.2 1B: 32 heads, 4 or 8 KV heads
        ->Args({8, 64, 4000})
        ->Args({4, 128, 1000})  // Llama 3 8B
        ->Args({7, 64, 1000})   // Qwen2.5 0.5B
        ->Args({1, 128, 1000})  // Llama 2 7B
        ->Args({1, 64, 1000});  // GPT-2
    RegisterRows(isa, 2048);
  }
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::RegisterAll();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
