#include "bench/peak.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "benchmark/benchmark.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "common/kernels/amx_tiles.h"
#endif

namespace outrider {
namespace {

#if defined(__x86_64__)

constexpr int kRounds = 20000;

// Eight accumulators: more than latency times ports asks for. The asm keeps them in registers and
// the compiler from seeing that they are not used.
#define OUTRIDER_EIGHT(instruction)                                                         \
  instruction(0) instruction(1) instruction(2) instruction(3) instruction(4) instruction(5) \
      instruction(6) instruction(7)

// Zeros, so that no sum is slowed by what it holds.
void ClearFactors() {
  asm volatile("vpxor %%xmm8, %%xmm8, %%xmm8\nvpxor %%xmm9, %%xmm9, %%xmm9" : : : "xmm8", "xmm9");
}

double Vpmaddubsw() {
  ClearFactors();
#define OUTRIDER_ONE(n) "vpmaddubsw %%ymm8, %%ymm9, %%ymm" #n "\n"
  for (int i = 0; i < kRounds; ++i) {
    asm volatile(OUTRIDER_EIGHT(OUTRIDER_ONE)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
  }
#undef OUTRIDER_ONE
  return 32.0 * 8 * kRounds;
}

double FmaOfEight() {
  ClearFactors();
#define OUTRIDER_ONE(n) "vfmadd231ps %%ymm8, %%ymm9, %%ymm" #n "\n"
  for (int i = 0; i < kRounds; ++i) {
    asm volatile(OUTRIDER_EIGHT(OUTRIDER_ONE)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
  }
#undef OUTRIDER_ONE
  return 8.0 * 8 * kRounds;
}

// vpdpbusd waits five cycles for its accumulator, on two ports: ten are needed.
double Vpdpbusd() {
  ClearFactors();
#define OUTRIDER_ONE(n) "vpdpbusd %%zmm8, %%zmm9, %%zmm" #n "\n"
  for (int i = 0; i < kRounds; ++i) {
    asm volatile(OUTRIDER_EIGHT(OUTRIDER_ONE) OUTRIDER_ONE(10) OUTRIDER_ONE(11)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm10",
                   "xmm11");
  }
#undef OUTRIDER_ONE
  return 64.0 * 10 * kRounds;
}

double FmaOfSixteen() {
  ClearFactors();
#define OUTRIDER_ONE(n) "vfmadd231ps %%zmm8, %%zmm9, %%zmm" #n "\n"
  for (int i = 0; i < kRounds; ++i) {
    asm volatile(OUTRIDER_EIGHT(OUTRIDER_ONE)
                 :
                 :
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
  }
#undef OUTRIDER_ONE
  return 16.0 * 8 * kRounds;
}

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

#undef OUTRIDER_EIGHT

double MeasurePeak(Isa isa, bool integers) {
  double (*loop)() = nullptr;
  if (isa == Isa::kAvx2) loop = integers ? Vpmaddubsw : FmaOfEight;
  if (isa == Isa::kAvx512) loop = integers ? Vpdpbusd : FmaOfSixteen;
  if (isa == Isa::kAmx) loop = integers ? Tdpbssd : FmaOfSixteen;
  if (loop == nullptr) return 0;
  double best = 0;
  for (int i = 0; i < 20; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const double products = loop();
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
