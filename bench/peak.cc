#include "bench/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "benchmark/benchmark.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "common/kernels/products/amx_tiles.h"
#endif

namespace outrider {
namespace {

#if defined(__x86_64__)

constexpr int kRounds = 20000;

// An instruction, whose last register is left open, to each of ten accumulators in turn: vpdpbusd,
// the slowest, waits five cycles for one, on two ports. The asm keeps them in registers and the
// compiler from seeing that they are not used.
#define OUTRIDER_TEN_TIMES(instruction)                                            \
  asm volatile(".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 10, 11\n" instruction "\\n\n.endr" \
               :                                                                   \
               :                                                                   \
               : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm10", "xmm11")

// Multiplications done: `products` in each of ten instructions a round.
template <typename TenTimes>
double Rounds(double products, TenTimes ten_times) {
  // Zeros, so that no sum is slowed by what it holds.
  asm volatile("vpxor %%xmm8, %%xmm8, %%xmm8\nvpxor %%xmm9, %%xmm9, %%xmm9" : : : "xmm8", "xmm9");
  for (int i = 0; i < kRounds; ++i) ten_times();
  return products * 10 * kRounds;
}

double Vpmaddubsw() {
  return Rounds(32, [] { OUTRIDER_TEN_TIMES("vpmaddubsw %%ymm8, %%ymm9, %%ymm"); });
}

double FmaOfEight() {
  return Rounds(8, [] { OUTRIDER_TEN_TIMES("vfmadd231ps %%ymm8, %%ymm9, %%ymm"); });
}

double Vpdpbusd() {
  return Rounds(64, [] { OUTRIDER_TEN_TIMES("vpdpbusd %%zmm8, %%zmm9, %%zmm"); });
}

double FmaOfSixteen() {
  return Rounds(16, [] { OUTRIDER_TEN_TIMES("vfmadd231ps %%zmm8, %%zmm9, %%zmm"); });
}

#undef OUTRIDER_TEN_TIMES

double Tdpbssd() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) SetTile(config, tile, 16, 64);
  LoadConfig(config);
  for (int i = 0; i < kRounds; ++i) {
    MultiplySignedSigned<0, 6, 7>();
    MultiplySignedSigned<1, 6, 7>();
    MultiplySignedSigned<2, 6, 7>();
    MultiplySignedSigned<3, 6, 7>();
  }
  ReleaseTiles();
  return 16.0 * 16 * 64 * 4 * kRounds;
}

struct PeakLoops {
  Isa isa;
  double (*integers)();
  double (*floats)();
};

constexpr PeakLoops kPeakLoops[] = {
    {Isa::kAvx2, Vpmaddubsw, FmaOfEight},
    {Isa::kAvx512, Vpdpbusd, FmaOfSixteen},
    {Isa::kAmx, Tdpbssd, FmaOfSixteen},
};

double MeasurePeak(Isa isa, bool integers) {
  const auto* const loops = std::ranges::find(kPeakLoops, isa, &PeakLoops::isa);
  if (loops == std::end(kPeakLoops)) return 0;
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double products = integers ? loops->integers() : loops->floats();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    best = std::max(best, products / elapsed.count());
  }
  return best;
}

#else

double MeasurePeak(Isa, bool) {
  return 0;
}

#endif

}  // namespace

void ReadStreams(std::span<const std::byte> bytes) {
  constexpr size_t kLine = 64;
  constexpr size_t kAhead = 2048;
  const size_t half = bytes.size() / 2 / kLine * kLine;
  uint64_t sum = 0;
  // A word of each line brings the line.
  for (size_t i = 0; i + kLine <= half; i += kLine) {
    for (const std::byte* const at : {bytes.data() + i, bytes.data() + half + i}) {
      __builtin_prefetch(at + kAhead);
      uint64_t word;
      std::memcpy(&word, at, sizeof(word));
      sum += word;
    }
  }
  benchmark::DoNotOptimize(sum);
}

double PeakProducts(Isa isa, bool integers) {
  static std::map<std::pair<Isa, bool>, double> peaks;
  const auto [entry, is_new] = peaks.try_emplace({isa, integers});
  if (is_new) entry->second = MeasurePeak(isa, integers);
  return entry->second;
}

}  // namespace outrider
