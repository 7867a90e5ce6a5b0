// Prints a hash of what each row kernel computes from seeded inputs, so that two processors can be
// compared where no test framework reaches: the lines must be equal everywhere.
//
//   rows_digest            the reference and every table of this machine must agree; their hashes
//
// Free of GoogleTest and Abseil: tests/kernels/CMakeLists.txt builds it for Arm from three files.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/paged_keys.h"
#include "tests/kernels/row_tables_here.h"

namespace outrider {
namespace {

// FNV-1a over 32-bit words. Which NaN a NaN is, is not specified.
class Hash {
 public:
  void Add(uint32_t word) { state_ = (state_ ^ word) * 0x100000001b3u; }
  void Add(const std::vector<float>& values) {
    for (const float value : values) {
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      Add((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits);
    }
  }
  template <class Integer>
  void AddIntegers(const std::vector<Integer>& values) {
    for (const Integer value : values) Add(static_cast<uint32_t>(value));
  }
  uint64_t value() const { return state_; }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

constexpr uint32_t kCounts[] = {1, 2, 7, 15, 16, 17, 31, 33, 64, 100, 257, 1000};

// Mostly ordinary numbers; one row in four is spoilt in some way.
std::vector<float> MakeRow(uint32_t count, uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> row = numbers.Gaussians(count, 4.0f);
  const float spoils[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(), 1e30f, 1e-40f};
  if (seed % 4 == 3) row[numbers.Below(count)] = spoils[numbers.Below(4)];
  if (seed % 16 == 7) {
    for (float& value : row) value *= 0x1p-130f;
  }
  return row;
}

// kernel(x, y, z, count, out)
template <class Kernel>
uint64_t DigestOfRows(Kernel kernel) {
  Hash hash;
  for (const uint32_t count : kCounts) {
    for (uint64_t seed = 0; seed < 32; ++seed) {
      std::vector<float> x = MakeRow(count, seed);
      const std::vector<float> y = MakeRow(count, 4 * seed + 100);
      const std::vector<float> z = MakeRow(count, 4 * seed + 200);
      std::vector<float> out(count);
      kernel(x.data(), y.data(), z.data(), count, out.data());
      hash.Add(x);
      hash.Add(out);
    }
  }
  return hash.value();
}

uint64_t DigestOfFloats(void (*kernel)(const float*, uint32_t, float*)) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 99991) {
    const uint32_t word = static_cast<uint32_t>(bits);
    x.emplace_back();
    std::memcpy(&x.back(), &word, sizeof(word));
  }
  std::vector<float> out(x.size());
  kernel(x.data(), static_cast<uint32_t>(x.size()), out.data());
  Hash hash;
  hash.Add(out);
  return hash.value();
}

uint64_t DigestOfQuantize(const RowKernels& rows) {
  Hash hash;
  for (const uint32_t block : {32u, 256u}) {
    for (uint64_t seed = 0; seed < 64; ++seed) {
      const uint32_t count = 3 * block;
      const std::vector<float> x = MakeRow(count, seed);
      std::vector<int8_t> quants(count);
      std::vector<float> scales(3);
      std::vector<int16_t> sums(count / 16);
      rows.quantize(x.data(), count, block, quants.data(), scales.data(), sums.data());
      hash.AddIntegers(quants);
      hash.Add(scales);
      hash.AddIntegers(sums);
    }
  }
  return hash.value();
}

uint64_t DigestOfToHalf(const RowKernels& rows) {
  Hash hash;
  for (const uint32_t count : kCounts) {
    std::vector<uint16_t> halves(count);
    for (const float scale : {1.0f, 1e-6f, 1e4f}) {
      std::vector<float> x = MakeRow(count, count);
      for (float& value : x) value *= scale;
      rows.to_half(x.data(), count, halves.data());
      hash.AddIntegers(halves);
    }
  }
  return hash.value();
}

uint64_t DigestOfAttend(const RowKernels& rows) {
  struct Shape {
    uint32_t heads, key_length, value_length, first, count;
  };
  Hash hash;
  uint64_t seed = 0;
  for (const Shape& shape :
       {Shape{8, 64, 64, 0, 200}, Shape{1, 128, 128, 17, 70}, Shape{7, 80, 96, 31, 34},
        Shape{5, 8, 16, 33, 1}, Shape{17, 33, 47, 5, 60}, Shape{2, 1, 1, 0, 33},
        Shape{1, 512, 512, 0, 33}}) {
    for (const CutInto cut : {CutInto::kWholeChunks, CutInto::kSingles, CutInto::kRandom}) {
      AttentionCase from = MakeAttentionCase(shape.heads, shape.key_length, shape.value_length,
                                             shape.first, shape.count, ++seed);
      if (seed % 5 == 0) from.queries[0] = std::numeric_limits<float>::quiet_NaN();
      if (seed % 3 == 1) from.soft_cap = 1.5f;
      if (seed % 2 == 1) from.sinks = Numbers(seed).Gaussians(shape.heads, 3.0f);
      const StoredKeys stored(from, cut, seed);
      std::vector<float> outputs(size_t{shape.heads} * shape.value_length);
      rows.attend(stored.Task(outputs.data()));
      hash.Add(outputs);
    }
  }
  return hash.value();
}

using Digests = std::vector<std::pair<std::string, uint64_t>>;

Digests DigestsOf(const RowKernels& rows) {
  return {
      {"quantize", DigestOfQuantize(rows)},
      {"rms_norm", DigestOfRows([&](float* x, const float* y, const float*, uint32_t count,
                                    float* out) { rows.rms_norm(x, y, 1e-6f, count, out); })},
      {"layer_norm",
       DigestOfRows([&](float* x, const float* y, const float* z, uint32_t count, float* out) {
         rows.layer_norm(x, y, z, 1e-5f, count, out);
       })},
      {"add", DigestOfRows([&](float* x, const float* y, const float*, uint32_t count, float*) {
         rows.add(x, y, count);
       })},
      {"weighted_sum",
       DigestOfRows([&](float* x, const float* y, const float* z, uint32_t count, float* out) {
         const WeightedRow terms[] = {{x, 0.3f}, {y, -1.7f}, {z, 0.1f}};
         rows.weighted_sum(terms, 3, count, out);
       })},
      {"rope_interleaved",
       DigestOfRows([&](float* x, const float* y, const float* z, uint32_t count, float*) {
         rows.rope_interleaved(x, y, z, count / 2);
       })},
      {"rope_halves", DigestOfRows([&](float* x, const float* y, const float* z, uint32_t count,
                                       float*) { rows.rope_halves(x, y, z, count / 2); })},
      {"silu_gate", DigestOfRows([&](float* x, const float* y, const float*, uint32_t count,
                                     float* out) { rows.silu_gate(x, y, count, out); })},
      {"gelu_tanh_gate", DigestOfRows([&](float* x, const float* y, const float*, uint32_t count,
                                          float* out) { rows.gelu_tanh_gate(x, y, count, out); })},
      {"gelu_tanh", DigestOfFloats(rows.gelu_tanh)},
      {"clamped_silu_gate",
       DigestOfRows([&](float* x, const float* y, const float*, uint32_t count, float* out) {
         rows.clamped_silu_gate(x, y, count, out);
       })},
      {"soft_cap", DigestOfRows([&](float* x, const float*, const float*, uint32_t count,
                                    float* out) { rows.soft_cap(x, 3.0f, count, out); })},
      {"exp", DigestOfFloats(rows.exp)},
      {"to_half", DigestOfToHalf(rows)},
      {"attend", DigestOfAttend(rows)},
  };
}

int Main() {
  const std::vector<NamedRows> tables = RowTablesHere();
  const Digests expected = DigestsOf(*tables[0].rows);
  int differences = 0;
  for (const NamedRows& table : tables) {
    const Digests digests = DigestsOf(*table.rows);
    for (size_t i = 0; i < digests.size(); ++i) {
      if (digests[i] == expected[i]) continue;
      std::fprintf(stderr, "%s of %s differs from the reference\n", digests[i].first.c_str(),
                   table.name);
      ++differences;
    }
  }
  for (const auto& [kernel, digest] : expected) {
    std::printf("%s %016llx\n", kernel.c_str(), static_cast<unsigned long long>(digest));
  }
  return differences == 0 ? 0 : 1;
}

}  // namespace
}  // namespace outrider

int main() {
  return outrider::Main();
}
