// How fast matrix products are, by type, instruction set and rows.
//
//   build/release/bench/kernels_bench --threads=2 [--benchmark_filter=memory/Q4_0/amx]
//
//   memory/Q4_0/amx/rows:16
//     All matrices of some layers of a 1.1B shape, more than 512 MiB of them, through Multiplier
//     and its pool, as a pass of a model does. Each iteration also reads the same bytes without
//     computing and runs the pass with one row, in turns, so that the ratios hold on a machine that
//     others use. Counters, of medians:
//       to_read      time / time of the plain read: 1 is the memory wall
//       to_one_row   time / time with one row: what more rows cost
//       GB/s         of weights
//
//   cache/Q4_0/amx/rows:16
//     One thread and eight panels that stay in its cache: what the arithmetic costs.
//       block_ns     per 32 x 16 weights
//       to_peak      multiplications / what this thread's best instruction for them, and nothing
//                    else, was measured to do (x86)
//
// Results are checked against the reference before anything is timed.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/median.h"
#include "bench/peak.h"
#include "benchmark/benchmark.h"
#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/products/products.h"
#include "common/kernels/testing/product_inputs.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

constexpr uint32_t kRowsMax = 64;
constexpr uint64_t kBytesMin = uint64_t{512} << 20;

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool AgreesWithReference(const PanelType& type, const Kernels& kernels, uint32_t row_count) {
  constexpr uint32_t kInputs = 256;
  Bytes panels = MakePanels(type, 2, kInputs, Weights::kRandom, 1);
  RowsOf x(row_count, kInputs, type.block(), Rows::kRandom, 2);
  std::vector<float> expected(row_count * 32);
  std::vector<float> actual(row_count * 32);
  (KernelsFor(Isa::kScalar).products.*type.kernel)(panels.data(), 2, 32, x.First(row_count),
                                                   expected.data(), 32);
  (kernels.products.*type.kernel)(panels.data(), 2, 32, x.First(row_count), actual.data(), 32);
  return std::memcmp(expected.data(), actual.data(), expected.size() * sizeof(float)) == 0;
}

// Matrices of a Llama-like model of 1.1 billion weights, in the groups that share their input.
struct MatrixShape {
  uint32_t outputs;
  uint32_t inputs;
};
const std::vector<std::vector<MatrixShape>> kLayer = {
    {{2048, 2048}, {256, 2048}, {256, 2048}},
    {{2048, 2048}},
    {{5632, 2048}, {5632, 2048}},
    {{2048, 5632}},
};
constexpr uint32_t kInputsMax = 5632;

// As many layers as make kBytesMin.
class Layers {
 public:
  explicit Layers(const PanelType& type) {
    const TensorType tensor_type = *TensorTypeFromName(type.name);
    uint64_t layer_bytes = 0;
    for (const auto& group : kLayer) {
      for (const auto& [outputs, inputs] : group) {
        layer_bytes += PackedBytes(tensor_type, outputs, inputs);
      }
    }
    const uint64_t count = (kBytesMin + layer_bytes - 1) / layer_bytes;
    buffer_ = *PageBuffer::CreateLarge(count * layer_bytes);
    std::byte* at = buffer_.bytes().data();
    for (uint64_t layer = 0; layer < count; ++layer) {
      for (const auto& shapes : kLayer) {
        std::vector<WeightMatrix>& group = groups_.emplace_back();
        for (const auto& [outputs, inputs] : shapes) {
          group.push_back({tensor_type, WeightLayout::kPanels, outputs, inputs, at});
          // A few panels over and over: what they hold does not change the time.
          Bytes some = MakePanels(type, 8, inputs, Weights::kRandom, inputs);
          const size_t size = PackedBytes(tensor_type, outputs, inputs);
          for (size_t i = 0; i < size; i += some.size()) {
            std::memcpy(at + i, some.data(), std::min(some.size(), size - i));
          }
          at += size;
        }
      }
    }
  }

  std::span<const std::byte> bytes() const { return buffer_.bytes(); }
  const std::vector<std::vector<WeightMatrix>>& groups() const { return groups_; }

  // The layers of one type at a time: benchmarks come sorted by type.
  static const Layers& Of(const PanelType& type) {
    static std::pair<const PanelType*, std::unique_ptr<Layers>> kept;
    if (kept.first != &type) {
      kept.second.reset();
      kept = {&type, std::make_unique<Layers>(type)};
    }
    return *kept.second;
  }

 private:
  PageBuffer buffer_;
  std::vector<std::vector<WeightMatrix>> groups_;
};

void RunPass(const Layers& layers, Multiplier& multiplier, const std::vector<float>& x,
             uint32_t row_count, std::vector<float>& out) {
  for (const std::vector<WeightMatrix>& group : layers.groups()) {
    Product products[3];
    float* to = out.data();
    for (size_t i = 0; i < group.size(); ++i) {
      products[i] = {&group[i], to, group[i].outputs};
      to += size_t{kRowsMax} * group[i].outputs;
    }
    const uint32_t inputs = group[0].inputs;
    multiplier.Multiply(
        {.values = x.data(), .stride = inputs, .row_count = row_count, .inputs = inputs},
        {products, group.size()});
  }
}

void FromMemory(benchmark::State& state, const PanelType& type, Isa isa, uint32_t thread_count) {
  const auto row_count = static_cast<uint32_t>(state.range(0));
  const Kernels& kernels = KernelsFor(isa);
  if (!AgreesWithReference(type, kernels, row_count)) {
    return state.SkipWithError("the results are not the reference's");
  }
  const Layers& layers = Layers::Of(type);
  const std::unique_ptr<ThreadPool> pool = *ThreadPool::Create(thread_count);
  Multiplier multiplier = *Multiplier::Create(kernels, *pool, kRowsMax, kInputsMax);
  Seeded seeded(1);
  std::vector<float> x(size_t{kRowsMax} * kInputsMax);
  for (float& value : x) value = seeded.Unit();
  std::vector<float> out(size_t{kRowsMax} * 2 * 5632);

  std::vector<double> reads;
  std::vector<double> ones;
  std::vector<double> times;
  for (auto _ : state) {
    const double begin = Seconds();
    pool->ParallelRanges(layers.bytes().size() / 128, [&](size_t first, size_t end, uint32_t) {
      ReadStreams(layers.bytes().subspan(first * 128, (end - first) * 128));
    });
    const double after_read = Seconds();
    RunPass(layers, multiplier, x, 1, out);
    const double after_one = Seconds();
    RunPass(layers, multiplier, x, row_count, out);
    const double end = Seconds();
    reads.push_back(after_read - begin);
    ones.push_back(after_one - after_read);
    times.push_back(end - after_one);
    state.SetIterationTime(end - after_one);
  }
  state.counters["to_read"] = Median(times) / Median(reads);
  state.counters["to_one_row"] = Median(times) / Median(ones);
  state.counters["GB/s"] = static_cast<double>(layers.bytes().size()) / Median(times) * 1e-9;
}

void FromCache(benchmark::State& state, const PanelType& type, Isa isa) {
  constexpr uint32_t kInputs = 2048;
  constexpr uint32_t kPanels = 8;
  const auto row_count = static_cast<uint32_t>(state.range(0));
  const Kernels& kernels = KernelsFor(isa);
  if (!AgreesWithReference(type, kernels, row_count)) {
    return state.SkipWithError("the results are not the reference's");
  }
  Bytes panels = MakePanels(type, kPanels, kInputs, Weights::kRandom, 1);
  RowsOf x(row_count, kInputs, type.block(), Rows::kRandom, 2);
  const ActivationRows rows = x.First(row_count);
  std::vector<float> out(size_t{row_count} * kPanels * kPanelOutputs);
  std::vector<double> times;
  for (auto _ : state) {
    const double begin = Seconds();
    (kernels.products.*type.kernel)(panels.data(), kPanels, kPanels * kPanelOutputs, rows,
                                    out.data(), kPanels * kPanelOutputs);
    benchmark::ClobberMemory();
    times.push_back(Seconds() - begin);
    state.SetIterationTime(times.back());
  }
  const double seconds = Median(times);
  constexpr double kBlocks = kPanels * kInputs / 32.0;
  state.counters["block_ns"] = seconds / kBlocks * 1e9;
  if (const double peak = PeakProducts(isa, type.quants != nullptr); peak > 0) {
    state.counters["to_peak"] = kBlocks * 32 * kPanelOutputs * row_count / seconds / peak;
  }
}

// Takes --threads=N out of the arguments.
uint32_t TakeThreadCount(int& argc, char** argv) {
  constexpr std::string_view kFlag = "--threads=";
  uint32_t count = 2;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(kFlag)) {
      count = static_cast<uint32_t>(std::atoi(argv[i] + kFlag.size()));
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return count;
}

int Main(int argc, char** argv) {
  const uint32_t thread_count = TakeThreadCount(argc, argv);
  const std::vector<int64_t> row_counts = {1, 2, 4, 8, 16, 32, 64};
  for (const PanelType& type : kPanelTypes) {
    for (const Isa isa : SupportedIsas()) {
      if (isa == Isa::kScalar) continue;
      const std::string name = Concat(type.name, "/", Name(isa));
      benchmark::RegisterBenchmark(Concat("memory/", name).c_str(),
                                   [&type, isa, thread_count](benchmark::State& state) {
                                     FromMemory(state, type, isa, thread_count);
                                   })
          ->ArgsProduct({row_counts})
          ->ArgName("rows")
          ->UseManualTime()
          ->Iterations(9)
          ->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(
          Concat("cache/", name).c_str(),
          [&type, isa](benchmark::State& state) { FromCache(state, type, isa); })
          ->ArgsProduct({row_counts})
          ->ArgName("rows")
          ->UseManualTime()
          ->MinTime(0.05)
          ->Unit(benchmark::kMicrosecond);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
