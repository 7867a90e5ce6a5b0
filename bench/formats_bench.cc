// How fast blocks become floats and floats blocks, on one core. Rates count the float side: 4 bytes
// an element, so types compare with each other and with the memory's bandwidth.
//
//   build/release/bench/formats_bench [--benchmark_filter=Quantize/Q4_K]
//
// Each run first checks its result: floats against the golden files the tests use, blocks by the
// error they leave.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"
#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"
#include "common/formats/tensors/tensor_type.h"

namespace outrider {
namespace {

constexpr size_t kElements = 1 << 20;  // 4 MiB of floats: a tensor's band, larger than L2

std::string ReadGolden(std::string_view name, std::string_view suffix) {
  const std::string path = Concat(OUTRIDER_TEST_DATA_DIR, "/dequantize/", name, suffix);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// `golden` again and again.
std::vector<std::byte> Repeated(const std::string& golden, size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(golden[i % golden.size()]);
  return out;
}

void Dequantizing(benchmark::State& state, TensorType type) {
  const std::string blocks = ReadGolden(Name(type), ".blocks");
  const std::string values = ReadGolden(Name(type), ".f32");
  if (blocks.empty() || values.empty()) {
    state.SkipWithError("tests/data/dequantize is missing");
    return;
  }
  const std::vector<std::byte> input = Repeated(blocks, RowBytes(type, kElements));
  const std::vector<std::byte> expected = Repeated(values, kElements * sizeof(float));
  std::vector<float> output(kElements);
  if (!Dequantize(type, input, output).ok() ||
      std::memcmp(output.data(), expected.data(), expected.size()) != 0) {
    state.SkipWithError("the floats are not ggml's");
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(Dequantize(type, input, output));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kElements * sizeof(float)));
}

// `tolerance`: the root mean square error allowed, in units of the values' standard deviation.
void Quantizing(benchmark::State& state, TensorType type, double tolerance) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::vector<float> values(kElements);
  for (float& value : values) value = normal(random);
  std::vector<std::byte> blocks(RowBytes(type, kElements));
  std::vector<float> back(kElements);
  const bool done = Quantize(type, values, blocks).ok() && Dequantize(type, blocks, back).ok();
  double squares = 0;
  for (size_t i = 0; i < kElements; ++i) squares += std::pow(back[i] - values[i], 2.0);
  if (!done || !(std::sqrt(squares / kElements) <= tolerance * 0.02)) {
    state.SkipWithError("the blocks do not hold the values");
    return;
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(Quantize(type, values, blocks));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kElements * sizeof(float)));
}

void RegisterAll() {
  for (const TensorType type :
       {TensorType::kF32, TensorType::kF16, TensorType::kBF16, TensorType::kQ8_0, TensorType::kQ4_0,
        TensorType::kQ4_1, TensorType::kQ5_0, TensorType::kQ5_1, TensorType::kQ2_K,
        TensorType::kQ3_K, TensorType::kQ4_K, TensorType::kQ5_K, TensorType::kQ6_K}) {
    benchmark::RegisterBenchmark(Concat("Dequantize/", Name(type)).c_str(), Dequantizing, type);
  }
  const auto quantizing = [](TensorType type, double tolerance) {
    benchmark::RegisterBenchmark(Concat("Quantize/", Name(type)).c_str(), Quantizing, type,
                                 tolerance);
  };
  quantizing(TensorType::kF32, 0);
  quantizing(TensorType::kF16, 0x1p-12);
  quantizing(TensorType::kBF16, 0x1p-9);
  quantizing(TensorType::kQ8_0, 0.007);
  quantizing(TensorType::kQ4_0, 0.1);
  quantizing(TensorType::kQ4_K, 0.08);
  quantizing(TensorType::kQ6_K, 0.02);
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  outrider::RegisterAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
