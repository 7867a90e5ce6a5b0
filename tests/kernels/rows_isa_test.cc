// Every instruction set gives the bits of the reference (NUMERICS.md), on inputs that hurt: odd
// tails, misaligned rows, outliers, zeros of both signs, subnormals, huge numbers, infinities and
// NaN. Of a NaN only that it is one is compared.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/paged_keys.h"
#include "tests/kernels/row_tables_here.h"

namespace outrider {
namespace {

std::vector<NamedRows> IsasHere() {
  std::vector<NamedRows> tables = RowTablesHere();
  tables.erase(tables.begin());
  return tables;
}

class RowsIsaTest : public testing::TestWithParam<NamedRows> {
 protected:
  const RowKernels& isa() const { return *GetParam().rows; }
};

INSTANTIATE_TEST_SUITE_P(Isas, RowsIsaTest, testing::ValuesIn(IsasHere()),
                         [](const auto& named) { return std::string(named.param.name); });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowsIsaTest);  // no kernels of this processor's own

// A row that begins `offset` floats past a 64-byte boundary, with guards on both sides.
class Row {
 public:
  Row(const std::vector<float>& values, uint32_t offset)
      : count_(values.size()), offset_(offset), storage_(values.size() + 96, kGuard) {
    std::copy(values.begin(), values.end(), data());
  }
  Row(size_t count, uint32_t offset) : Row(std::vector<float>(count, kGuard), offset) {}

  float* data() {
    const uintptr_t start = reinterpret_cast<uintptr_t>(storage_.data());
    return storage_.data() + (64 - start % 64) % 64 / sizeof(float) + 16 + offset_;
  }
  std::vector<float> values() { return {data(), data() + count_}; }
  bool GuardsStand() {
    for (int i = 1; i <= 16; ++i) {
      if (data()[-i] != kGuard || data()[count_ - 1 + i] != kGuard) return false;
    }
    return true;
  }

 private:
  static constexpr float kGuard = 12345.0f;
  size_t count_;
  uint32_t offset_;
  std::vector<float> storage_;
};

// "" where all bits agree.
std::string Difference(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(actual[i]) && std::isnan(expected[i])) continue;
    if (std::bit_cast<uint32_t>(actual[i]) != std::bit_cast<uint32_t>(expected[i])) {
      return std::to_string(i) + ": " + std::to_string(actual[i]) + ", not " +
             std::to_string(expected[i]);
    }
  }
  return "";
}

// The kinds of row: 0 is benign, the others each hurt in their own way.
constexpr uint32_t kKinds = 8;

std::vector<float> MakeRow(size_t count, uint32_t kind, uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> row = numbers.Gaussians(count, 3.0f);
  const auto spoil = [&](float value) { row[numbers.Below(static_cast<uint32_t>(count))] = value; };
  switch (kind) {
    case 1:
      spoil(1e4f);
      break;
    case 2:
      for (float& value : row) value = numbers.Below(2) != 0 ? 0.0f : -0.0f;
      break;
    case 3:
      for (float& value : row) value *= 0x1p-130f;  // subnormal
      break;
    case 4:
      for (float& value : row) value *= 1e36f;
      break;
    case 5:
      spoil(std::numeric_limits<float>::infinity());
      break;
    case 6:
      spoil(-std::numeric_limits<float>::infinity());
      break;
    case 7:
      spoil(std::bit_cast<float>(0x7fc12345u));
      spoil(std::bit_cast<float>(0xffffffffu));
      break;
    default:
      break;
  }
  return row;
}

// Runs `kernel(rows, x, y, z, count, out)` by the reference and by the instruction set, for tails,
// alignments and kinds of row, and compares what each leaves in x and out.
template <class Kernel>
void ExpectEqualBits(const RowKernels& isa, Kernel kernel) {
  std::vector<uint32_t> counts = {64, 255, 1000};
  for (uint32_t count = 1; count <= 33; ++count) counts.push_back(count);
  for (const uint32_t count : counts) {
    for (uint32_t kind = 0; kind < kKinds; ++kind) {
      const uint32_t offset = (count + kind) % 16;
      const std::vector<float> x = MakeRow(count, kind, 100 * count + kind);
      const std::vector<float> y = MakeRow(count, 0, 100 * count + kind + 1);
      const std::vector<float> z = MakeRow(count, 0, 100 * count + kind + 2);
      Row expected_x(x, 0), expected_out(count, 0), y0(y, 0), z0(z, 0);
      kernel(kScalarRows, expected_x.data(), y0.data(), z0.data(), count, expected_out.data());
      Row actual_x(x, offset), actual_out(count, offset / 2), y1(y, offset / 3), z1(z, 1);
      kernel(isa, actual_x.data(), y1.data(), z1.data(), count, actual_out.data());
      ASSERT_EQ(Difference(actual_x.values(), expected_x.values()), "") << count << " " << kind;
      ASSERT_EQ(Difference(actual_out.values(), expected_out.values()), "") << count << " " << kind;
      ASSERT_TRUE(actual_x.GuardsStand() && actual_out.GuardsStand()) << count << " " << kind;
    }
  }
}

TEST_P(RowsIsaTest, Exp) {
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float*, float*, uint32_t count,
                            float* out) { rows.exp(x, count, out); });
}

// One float in ten thousand and those around each limit; and where tanh is a polynomial of which the
// highest power moves one result in some thousands, one in 37.
TEST_P(RowsIsaTest, ExpAndActivationsOverAllFloats) {
  std::vector<float> x;
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 9973) {
    x.push_back(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (uint32_t bits = std::bit_cast<uint32_t>(0.25f); bits < std::bit_cast<uint32_t>(0.625f);
       bits += 37) {
    x.push_back(std::bit_cast<float>(bits));
  }
  for (const float limit : {0x1.62e42ep+6f, -0x1.5d589ep+6f, 0.625f, 7.0f}) {
    for (uint32_t step = 0; step < 40; ++step) {
      x.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(limit) + step - 20));
      x.push_back(-x.back());
    }
  }
  const std::vector<float> ones(x.size(), 1.0f);
  std::vector<float> expected(x.size()), actual(x.size());
  const uint32_t count = static_cast<uint32_t>(x.size());
  kScalarRows.exp(x.data(), count, expected.data());
  isa().exp(x.data(), count, actual.data());
  EXPECT_EQ(Difference(actual, expected), "");
  kScalarRows.silu_gate(x.data(), ones.data(), count, expected.data());
  isa().silu_gate(x.data(), ones.data(), count, actual.data());
  EXPECT_EQ(Difference(actual, expected), "");
  kScalarRows.gelu_tanh(x.data(), count, expected.data());
  isa().gelu_tanh(x.data(), count, actual.data());
  EXPECT_EQ(Difference(actual, expected), "");
  for (const float cap : {1.0f, 30.0f}) {
    kScalarRows.soft_cap(x.data(), cap, count, expected.data());
    isa().soft_cap(x.data(), cap, count, actual.data());
    EXPECT_EQ(Difference(actual, expected), "");
  }
  kScalarRows.clamped_silu_gate(x.data(), ones.data(), count, expected.data());
  isa().clamped_silu_gate(x.data(), ones.data(), count, actual.data());
  EXPECT_EQ(Difference(actual, expected), "");
  kScalarRows.clamped_silu_gate(ones.data(), x.data(), count, expected.data());
  isa().clamped_silu_gate(ones.data(), x.data(), count, actual.data());
  EXPECT_EQ(Difference(actual, expected), "");
}

TEST_P(RowsIsaTest, Norms) {
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float* out) { rows.rms_norm(x, y, 1e-5f, count, out); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float* z, uint32_t count,
                            float* out) { rows.layer_norm(x, y, z, 1e-5f, count, out); });
}

TEST_P(RowsIsaTest, WeightedSums) {
  for (const uint32_t term_count : {1u, 2u, 3u}) {
    ExpectEqualBits(isa(), [=](const RowKernels& rows, float* x, float* y, float* z, uint32_t count,
                               float* out) {
      const WeightedRow terms[] = {{x, 0.3f}, {y, -1.7f}, {z, 0.1f}};
      rows.weighted_sum(terms, term_count, count, out);
    });
  }
}

TEST_P(RowsIsaTest, InPlace) {
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float*) { rows.add(x, y, count); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float*) { rows.rms_norm(x, y, 1e-5f, count, x); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float*) { rows.silu_gate(x, y, count, x); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float*, float*, uint32_t count,
                            float*) { rows.soft_cap(x, 2.5f, count, x); });
  ExpectEqualBits(isa(),
                  [](const RowKernels& rows, float* x, float*, float*, uint32_t count, float*) {
                    const WeightedRow scaled = {x, 0.3f};
                    rows.weighted_sum(&scaled, 1, count, x);
                  });
}

TEST_P(RowsIsaTest, Gates) {
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float* out) { rows.silu_gate(x, y, count, out); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float* out) { rows.gelu_tanh_gate(x, y, count, out); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float*, float*, uint32_t count,
                            float* out) { rows.gelu_tanh(x, count, out); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float*, uint32_t count,
                            float* out) { rows.clamped_silu_gate(x, y, count, out); });
}

TEST_P(RowsIsaTest, SoftCaps) {
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float*, float*, uint32_t count,
                            float* out) { rows.soft_cap(x, 2.5f, count, out); });
}

TEST_P(RowsIsaTest, Rope) {
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float* z, uint32_t count,
                            float*) { rows.rope_interleaved(x, y, z, count / 2); });
  ExpectEqualBits(isa(), [](const RowKernels& rows, float* x, float* y, float* z, uint32_t count,
                            float*) { rows.rope_halves(x, y, z, count / 2); });
}

TEST_P(RowsIsaTest, Halves) {
  ExpectEqualBits(isa(),
                  [](const RowKernels& rows, float* x, float*, float*, uint32_t count, float* out) {
                    // Not in place: out holds at least 2 * count halves, the guards stand behind
                    // them.
                    std::vector<uint16_t> halves(count);
                    rows.to_half(x, count, halves.data());
                    for (uint32_t i = 0; i < count; ++i)
                      out[i] = halves[i];  // a NaN's bits are the contract's too
                  });
}

TEST_P(RowsIsaTest, Quantisation) {
  for (const uint32_t block : {32u, 256u}) {
    for (const uint32_t blocks : {1u, 2u, 3u, 8u}) {
      for (uint32_t kind = 0; kind < kKinds; ++kind) {
        for (const float scale : {1.0f, 1e-37f, 0x1p-20f}) {
          const uint32_t count = block * blocks;
          Row x(MakeRow(count, kind, 31 * count + kind), kind);
          for (uint32_t i = 0; i < count; ++i) x.data()[i] *= scale;
          std::vector<int8_t> quants[2];
          std::vector<float> scales[2];
          std::vector<int16_t> sums[2];
          for (int i = 0; i < 2; ++i) {
            quants[i].assign(count + 16, 99);
            scales[i].assign(blocks + 4, 99.0f);
            sums[i].assign(count / 16 + 8, 99);
            (i == 0 ? kScalarRows : isa())
                .quantize(x.data(), count, block, quants[i].data(), scales[i].data(),
                          sums[i].data());
          }
          ASSERT_EQ(Difference(scales[1], scales[0]), "") << kind;
          ASSERT_EQ(quants[1], quants[0]) << kind;
          ASSERT_EQ(sums[1], sums[0]) << kind;
        }
      }
    }
  }
}

// ---- Attention

std::vector<float> Attend(const RowKernels& rows, const AttentionCase& from, CutInto cut,
                          uint64_t seed) {
  const StoredKeys stored(from, cut, seed);
  std::vector<float> outputs(size_t{from.head_count} * from.value_length + 16, 777.0f);
  rows.attend(stored.Task(outputs.data()));
  return outputs;
}

void ExpectEqualAttention(const RowKernels& isa, const AttentionCase& from) {
  const std::vector<float> expected = Attend(kScalarRows, from, CutInto::kWholeChunks, 1);
  for (const CutInto cut : {CutInto::kWholeChunks, CutInto::kSingles, CutInto::kRandom}) {
    ASSERT_EQ(Difference(Attend(isa, from, cut, 5), expected), "")
        << from.head_count << " heads of " << from.key_length << " and " << from.value_length
        << ", positions " << from.first_position << " +" << from.count;
  }
}

TEST_P(RowsIsaTest, AttentionOfEveryHeadLength) {
  for (uint32_t length = 1; length <= 34; ++length) {
    ExpectEqualAttention(isa(), MakeAttentionCase(2, length, 35 - length, 5, 50, length));
  }
  for (const uint32_t length : {48u, 64u, 80u, 96u, 128u, 200u, 256u, 512u}) {
    ExpectEqualAttention(isa(), MakeAttentionCase(3, length, length, 0, 70, length));
  }
}

TEST_P(RowsIsaTest, AttentionOfEveryHeadCount) {
  for (uint32_t heads = 1; heads <= 36; ++heads) {
    ExpectEqualAttention(isa(), MakeAttentionCase(heads, 32, 80, 3, 40, heads));
  }
}

TEST_P(RowsIsaTest, AttentionWithCappedScoresAndSinks) {
  for (uint32_t heads = 1; heads <= 36; ++heads) {
    AttentionCase from = MakeAttentionCase(heads, 32, 48, 3, 40, heads);
    from.soft_cap = 2.0f;
    ExpectEqualAttention(isa(), from);
    from.sinks = Numbers(heads).Gaussians(heads, 4.0f);
    ExpectEqualAttention(isa(), from);
    from.soft_cap = 0.0f;
    ExpectEqualAttention(isa(), from);
  }
}

TEST_P(RowsIsaTest, AttentionOfEveryWindow) {
  for (uint32_t first = 0; first <= 33; ++first) {
    for (const uint32_t count : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 33u, 65u}) {
      ExpectEqualAttention(isa(), MakeAttentionCase(2, 16, 16, first, count, first * 100 + count));
    }
  }
  ExpectEqualAttention(isa(), MakeAttentionCase(8, 64, 64, 4294960000u, 1000, 1));
}

TEST_P(RowsIsaTest, AttentionOfScoresThatHurt) {
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    for (const float scale : {1.0f, 1e-20f, 1e4f}) {
      AttentionCase from = MakeAttentionCase(5, 20, 24, 9, 90, kind);
      from.queries = MakeRow(from.queries.size(), kind, kind);
      for (float& query : from.queries) query *= scale;
      ExpectEqualAttention(isa(), from);
      from.soft_cap = 5.0f;
      from.sinks = MakeRow(5, kind, kind + 1);
      ExpectEqualAttention(isa(), from);
    }
  }
  // Halves of every kind, subnormal, infinite and NaN included.
  Numbers numbers(3);
  AttentionCase from = MakeAttentionCase(5, 20, 24, 9, 90, 1);
  for (uint16_t& value : from.values) value = static_cast<uint16_t>(numbers.Next());
  ExpectEqualAttention(isa(), from);
  for (uint32_t i = 0; i < 40; ++i) {
    from.keys[numbers.Below(90 * 20)] = static_cast<uint16_t>(numbers.Next() % 0x400);
  }
  ExpectEqualAttention(isa(), from);
  from.keys[35 * 20 + 3] = 0xfc00;
  ExpectEqualAttention(isa(), from);
}

}  // namespace
}  // namespace outrider
