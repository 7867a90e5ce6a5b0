// The row kernels of the GPU, thread after thread, against the scalar references, bit for bit.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/cuda/block/emulated_block.h"
#include "common/cuda/kernels/attend_rows.h"
#include "common/cuda/kernels/best_of_rows.h"
#include "common/cuda/kernels/norm_rows.h"
#include "common/cuda/kernels/quantize_rows.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/tokens/maximum.h"
#include "gtest/gtest.h"
#include "tests/kernels/paged_keys.h"

namespace outrider::gpu {
namespace {

const RowKernels& Reference() {
  return KernelsFor(Isa::kScalar).rows;
}

template <typename T>
void ExpectBits(const std::vector<T>& actual, const std::vector<T>& expected,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] != actual[i] && expected[i] != expected[i]) continue;
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(T)), 0)
        << what << ", " << i << ": " << +actual[i] << " for " << +expected[i];
  }
}

// Ordinary numbers with outliers among them.
std::vector<float> Outlying(size_t count, uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> values = numbers.Gaussians(count, 1.0f);
  for (size_t i = 0; i < count; i += 37) values[i] *= 1000.0f;
  return values;
}

TEST(RowKernels, ExpAndActivationsAreTheContracts) {
  const ScopedIeeeMode ieee;
  std::vector<float> x = {0.0f,   -0.0f,      1e-40f,      88.72f,
                          88.73f, -87.33f,    -87.34f,     1e30f,
                          -1e30f, Infinity(), -Infinity(), std::numeric_limits<float>::quiet_NaN()};
  for (int i = -2000; i <= 2000; ++i) x.push_back(static_cast<float>(i) * 0.05f);
  std::vector<float> expected(x.size()), actual(x.size());
  Reference().exp(x.data(), static_cast<uint32_t>(x.size()), expected.data());
  for (size_t i = 0; i < x.size(); ++i) actual[i] = Exp(x[i]);
  ExpectBits(actual, expected, "exp");

  const auto length = static_cast<uint32_t>(x.size());
  const std::vector<float> up = Outlying(x.size(), 3);
  for (const Gate kind : {Gate::kSiluGated, Gate::kGeluTanhGated, Gate::kGeluTanh}) {
    actual = kind == Gate::kGeluTanh ? x : up;
    const GateRows body = {x.data(), actual.data(), length, kind};
    Emulate(body, 1, body.grid_y());
    if (kind == Gate::kSiluGated) {
      Reference().silu_gate(x.data(), up.data(), length, expected.data());
    } else if (kind == Gate::kGeluTanhGated) {
      Reference().gelu_tanh_gate(x.data(), up.data(), length, expected.data());
    } else {
      Reference().gelu_tanh(x.data(), length, expected.data());
    }
    ExpectBits(actual, expected, "gate " + std::to_string(static_cast<int>(kind)));
  }
}

TEST(RowKernels, NormsAreTheContractsWithAndWithoutAPart) {
  const ScopedIeeeMode ieee;
  // The last two are more than a block has on its way at a time.
  for (const uint32_t length : {1u, 15u, 64u, 300u, 1024u, 4096u, 4099u, 9000u}) {
    const std::vector<float> weight = Outlying(length, 1), bias = Outlying(length, 2);
    for (const bool has_part : {false, true}) {
      for (const bool has_bias : {false, true}) {
        std::vector<float> stream = Outlying(3 * length, 4);
        const std::vector<float> part = Outlying(3 * length, 5);
        std::vector<float> expected(3 * length), actual(3 * length), sum = stream;
        for (uint32_t row = 0; row < 3; ++row) {
          float* const x = sum.data() + row * length;
          if (has_part) Reference().add(x, part.data() + row * length, length);
          float* const out = expected.data() + row * length;
          if (has_bias) {
            Reference().layer_norm(x, weight.data(), bias.data(), 1e-5f, length, out);
          } else {
            Reference().rms_norm(x, weight.data(), 1e-5f, length, out);
          }
        }
        Emulate(NormRows{.stream = stream.data(),
                         .part = has_part ? part.data() : nullptr,
                         .weight = weight.data(),
                         .bias = has_bias ? bias.data() : nullptr,
                         .out = actual.data(),
                         .which = nullptr,
                         .length = length,
                         .epsilon = 1e-5f},
                3, 1);
        ExpectBits(actual, expected, "norm of " + std::to_string(length));
        ExpectBits(stream, sum, "stream of " + std::to_string(length));
      }
    }
  }
}

TEST(RowKernels, WithoutANormRowsAreAddedAndCopied) {
  constexpr uint32_t kLength = 300;
  for (const bool has_part : {false, true}) {
    std::vector<float> stream = Outlying(2 * kLength, 14), sum = stream;
    const std::vector<float> part = Outlying(2 * kLength, 15);
    std::vector<float> copy(2 * kLength);
    if (has_part) Reference().add(sum.data(), part.data(), 2 * kLength);
    Emulate(NormRows{.stream = stream.data(),
                     .part = has_part ? part.data() : nullptr,
                     .weight = nullptr,
                     .bias = nullptr,
                     .out = copy.data(),
                     .which = nullptr,
                     .length = kLength,
                     .epsilon = 1e-5f},
            2, 1);
    ExpectBits(stream, sum, "stream");
    ExpectBits(copy, sum, "copy");
  }
}

TEST(RowKernels, NormsOfChosenRowsAreTheirs) {
  std::vector<float> stream = Outlying(5 * 48, 6);
  const std::vector<float> weight = Outlying(48, 7);
  const std::vector<uint32_t> which = {4, 1};
  std::vector<float> expected(96), actual(96);
  for (size_t i = 0; i < 2; ++i) {
    Reference().rms_norm(stream.data() + which[i] * 48, weight.data(), 1e-6f, 48,
                         expected.data() + i * 48);
  }
  Emulate(NormRows{stream.data(), nullptr, weight.data(), nullptr, actual.data(), which.data(), 48,
                   1e-6f},
          2, 1);
  ExpectBits(actual, expected, "chosen rows");
}

TEST(RowKernels, QuantsScalesAndSumsAreTheContracts) {
  const ScopedIeeeMode ieee;
  constexpr uint32_t kInputs = 2560, kRows = 3;
  std::vector<float> x = Outlying(kRows * kInputs, 8);
  std::fill_n(x.begin() + 256, 256, 0.0f);
  for (size_t i = 512; i < 544; ++i) x[i] = 1e-39f;
  x[640] = 127.0f;  // so v is 1, and what follows are ties
  for (size_t i = 641; i < 672; ++i) x[i] = static_cast<float>(i) - 656.5f;
  x[700] = std::numeric_limits<float>::quiet_NaN();
  x[1500] = Infinity();
  x[2000] = 3e38f;
  for (const uint32_t block : {32u, 256u}) {
    const uint32_t block_count = kInputs / block;
    const RowTiles tiles = {kInputs, block};
    const uint32_t tile_count = kRows / kTileRows + 1;
    std::vector<int8_t> quants(tile_count * tiles.QuantsOfTile(), int8_t{-1}),
        expected_quants = quants;
    std::vector<float> scales(tile_count * tiles.ScalesOfTile(), -1.0f), expected_scales = scales;
    std::vector<int16_t> sums(tile_count * tiles.SumsOfTile(), int16_t{-1}), expected_sums = sums;
    for (uint32_t row = 0; row < kRows; ++row) {
      std::vector<int8_t> row_quants(kInputs);
      std::vector<float> row_scales(block_count);
      std::vector<int16_t> row_sums(kInputs / 16);
      Reference().quantize(x.data() + row * kInputs, kInputs, block, row_quants.data(),
                           row_scales.data(), row_sums.data());
      for (uint32_t k = 0; k < kInputs; ++k) expected_quants[tiles.Quant(row, k)] = row_quants[k];
      for (uint32_t b = 0; b < block_count; ++b) {
        expected_scales[tiles.Scale(row, b)] = row_scales[b];
      }
      for (uint32_t i = 0; i < kInputs / 16; ++i) expected_sums[tiles.Sum(row, i)] = row_sums[i];
    }
    const QuantizeRows body = {x.data(), quants.data(), scales.data(), sums.data(), kInputs, block};
    Emulate(body, kRows, body.grid_y());
    ExpectBits(quants, expected_quants, "quants");
    ExpectBits(scales, expected_scales, "scales");
    ExpectBits(sums, expected_sums, "sums");
  }
}

TEST(RowKernels, EmbeddingsAreLookedUpAndPositionsAdded) {
  constexpr uint32_t kLength = 300, kRows = 3, kTokens = 20;
  const size_t panel_bytes = kLength * kPanelOutputs * sizeof(float);
  // Entry e of a table has elements that say which it is, in panels of sixteen entries.
  const auto element = [](uint32_t table, uint32_t e, uint32_t k) {
    return static_cast<float>(table * 100000 + e * 1000 + k);
  };
  std::vector<float> tables[2];
  for (uint32_t table = 0; table < 2; ++table) {
    tables[table].resize(2 * kLength * kPanelOutputs);
    for (uint32_t e = 0; e < kTokens; ++e) {
      for (uint32_t k = 0; k < kLength; ++k) {
        const size_t panel = size_t{e / kPanelOutputs} * kLength * kPanelOutputs;
        tables[table][panel + k * kPanelOutputs + e % kPanelOutputs] = element(table, e, k);
      }
    }
  }
  const std::vector<uint32_t> tokens = {19, EmbedRows::kGiven, 3}, positions = {2, 17, 0};
  for (const bool are_learned : {false, true}) {
    const std::vector<float> given(kRows * kLength, 0.25f);
    std::vector<float> actual = given, expected = given;
    for (uint32_t row = 0; row < kRows; ++row) {
      for (uint32_t k = 0; k < kLength; ++k) {
        float& to = expected[row * kLength + k];
        if (tokens[row] != EmbedRows::kGiven) to = element(0, tokens[row], k);
        if (are_learned) to = to + element(1, positions[row], k);
      }
    }
    const auto panels = [&](uint32_t table) -> PanelTable {
      return {reinterpret_cast<const std::byte*>(tables[table].data()), panel_bytes,
              PanelKind::kF32};
    };
    const EmbedRows body = {.tokens = panels(0),
                            .positions = are_learned ? panels(1) : PanelTable{},
                            .token = tokens.data(),
                            .position = positions.data(),
                            .out = actual.data(),
                            .length = kLength};
    Emulate(body, kRows, body.grid_y());
    ExpectBits(actual, expected, "embeddings");
  }
}

// Three rows of two heads over one page of eight slots.
TEST(RowKernels, HeadsTurnAndAreKept) {
  const ScopedIeeeMode ieee;
  constexpr uint32_t kRows = 3, kHeads = 4, kKvHeads = 2, kKey = 10, kValue = 6, kSlots = 8;
  for (const bool interleaved : {false, true}) {
    for (const uint32_t pairs : {0u, 3u, 5u}) {
      std::vector<float> query = Outlying(kRows * kHeads * kKey, 9);
      const std::vector<float> key = Outlying(kRows * kKvHeads * kKey, 10);
      const std::vector<float> value = Outlying(kRows * kKvHeads * kValue, 11);
      const std::vector<float> cosines = Outlying(kRows * pairs, 12);
      const std::vector<float> sines = Outlying(kRows * pairs, 13);
      const size_t keys_at = 5, values_at = keys_at + kKvHeads * kSlots * kKey;
      std::vector<uint16_t> page(values_at + kKvHeads * kSlots * kValue, 7), expected_page = page;
      const std::vector<CellPlace> places = {{page.data(), 6}, {page.data(), 0}, {page.data(), 3}};

      std::vector<float> expected = query, turned = key;
      const auto turn = interleaved ? Reference().rope_interleaved : Reference().rope_halves;
      for (uint32_t row = 0; row < kRows; ++row) {
        const float* const c = cosines.data() + row * pairs;
        const float* const s = sines.data() + row * pairs;
        for (uint32_t head = 0; head < kHeads; ++head) {
          turn(expected.data() + (row * kHeads + head) * kKey, c, s, pairs);
        }
        for (uint32_t head = 0; head < kKvHeads; ++head) {
          float* const from = turned.data() + (row * kKvHeads + head) * kKey;
          turn(from, c, s, pairs);
          const size_t cell = head * kSlots + places[row].slot;
          Reference().to_half(from, kKey, expected_page.data() + keys_at + cell * kKey);
          Reference().to_half(value.data() + (row * kKvHeads + head) * kValue, kValue,
                              expected_page.data() + values_at + cell * kValue);
        }
      }
      const PlaceHeads body = {.query = query.data(),
                               .key = key.data(),
                               .value = value.data(),
                               .cosines = cosines.data(),
                               .sines = sines.data(),
                               .places = places.data(),
                               .head_count = kHeads,
                               .kv_head_count = kKvHeads,
                               .key_length = kKey,
                               .value_length = kValue,
                               .pair_count = pairs,
                               .interleaved = interleaved,
                               .keys_at = keys_at,
                               .values_at = values_at,
                               .slot_count = kSlots};
      Emulate(body, kRows, body.grid_y());
      ExpectBits(query, expected, "queries");
      ExpectBits(page, expected_page, "cells");
    }
  }
}

TEST(RowKernels, SlotsAreCopiedPieceByPiece) {
  const std::vector<SlotPiece> pieces = {{0, 3}, {40, 5}};
  std::vector<uint16_t> from(100), to(100, 9);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<uint16_t>(1000 + i);
  std::vector<uint16_t> expected = to;
  for (const SlotPiece& piece : pieces) {
    for (size_t i = 0; i < 2 * piece.length; ++i) {
      expected[piece.at + 6 * piece.length + i] = from[piece.at + 1 * piece.length + i];
    }
  }
  Emulate(CopySlots{pieces.data(), from.data(), to.data(), 1, 6, 2}, 2, 1);
  EXPECT_EQ(to, expected);
}

void ExpectMaximum(const std::vector<float>& row) {
  BestLogit best = {};
  Emulate(BestOfRows{row.data(), &best, static_cast<uint32_t>(row.size())}, 1, 1);
  const Maximum expected = FindMaximum(row);
  EXPECT_EQ(best.sound, expected.sound);
  if (!expected.sound) return;
  EXPECT_EQ(best.value, expected.value);
  EXPECT_EQ(best.token, static_cast<uint32_t>(expected.token));
}

// Fewer logits than threads, and more than all threads have on their way at a time.
TEST(RowKernels, TheLargestLogitIsTheChoosers) {
  for (const uint32_t length : {3u, 1003u, 40000u}) {
    std::vector<std::vector<float>> rows(8, Outlying(length, 29));
    const uint32_t last = length - 1;
    rows[1][last / 2 + 1] = rows[1][last / 3] = 9000.0f;  // the lowest of equal ones
    rows[2][last] = 9000.0f;
    rows[3][last / 2] = std::numeric_limits<float>::quiet_NaN();
    rows[4][1] = Infinity();
    std::ranges::fill(rows[5], -Infinity());
    std::ranges::fill(rows[6], -Infinity());
    rows[6][last - 1] = -1e30f;
    // Of equal ones in one thread, and in two warps, whose first has the higher id.
    if (length > 17 * 1024) rows[7][5 + 17 * 1024] = rows[7][5 + 1024] = rows[7][40] = 9000.0f;
    for (const std::vector<float>& row : rows) ExpectMaximum(row);
  }
}

// --- attention ---

// Chunk by chunk, as the runs of a batch are cut.
std::vector<uint32_t> ChunkRuns(const std::vector<KeyRun>& runs, uint32_t first_index) {
  std::vector<uint32_t> begins;
  uint32_t index = first_index, chunk = UINT32_MAX;
  for (uint32_t i = 0; i < runs.size(); ++i) {
    if (index / kChunk != chunk) begins.push_back(i);
    chunk = index / kChunk;
    index += runs[i].count;
  }
  begins.push_back(static_cast<uint32_t>(runs.size()));
  return begins;
}

void ExpectAttention(const AttentionCase& made, const StoredKeys& stored, const std::string& what) {
  const ScopedIeeeMode ieee;
  std::vector<float> expected(size_t{made.head_count} * made.value_length);
  std::vector<float> actual(expected.size());
  const AttentionTask task = stored.Task(expected.data());
  Reference().attend(task);

  const std::vector<KeyRun> runs(task.runs, task.runs + task.run_count);
  const std::vector<uint32_t> chunk_runs = ChunkRuns(runs, task.first_position);
  const SeenRuns seen = {made.first_position, made.first_position + made.count,
                         static_cast<uint32_t>(chunk_runs.size() - 1), 0};
  const AttendRows rows = {.query = made.queries.data(),
                           .out = actual.data(),
                           .seen = &seen,
                           .chunk_runs = chunk_runs.data(),
                           .runs = runs.data(),
                           .head_count = made.head_count,
                           .kv_head_count = 1,
                           .key_length = made.key_length,
                           .value_length = made.value_length,
                           .scale = task.scale,
                           .keys_at = task.keys_at,
                           .values_at = task.values_at,
                           .slot_count = kChunk};
  Emulate(AttendManyRows{rows}, 1, made.head_count);
  ExpectBits(actual, expected, what + ", many rows");
  std::ranges::fill(actual, 0.0f);
  Emulate(AttendFewRows{rows}, 1, made.head_count);
  ExpectBits(actual, expected, what + ", few rows");
}

// Whole chunks, part of the first, part of the last, more than a block takes in a round, and as many
// runs as there are positions; keys that can be loaded eight elements at a time, and others.
TEST(RowKernels, AttentionIsAMatterOfPositions) {
  struct Shape {
    uint32_t heads, key_length, value_length, first, count;
  };
  constexpr Shape kShapes[] = {{1, 64, 64, 0, 1},      {2, 128, 128, 0, 32}, {3, 16, 8, 5, 27},
                               {2, 40, 24, 31, 2},     {1, 128, 64, 7, 300}, {2, 8, 200, 64, 161},
                               {1, 512, 512, 100, 70}, {1, 1, 1, 0, 33},     {1, 80, 100, 9, 600},
                               {1, 70, 66, 0, 47}};
  for (const Shape& shape : kShapes) {
    AttentionCase made = MakeAttentionCase(shape.heads, shape.key_length, shape.value_length,
                                           shape.first, shape.count, 17);
    // Weights of about the same size: in which order they are added shows.
    for (float& query : made.queries) query *= 0.05f;
    for (const CutInto cut : {CutInto::kWholeChunks, CutInto::kSingles, CutInto::kRandom}) {
      for (const size_t keys_at : {0u, 3u}) {
        ExpectAttention(made, StoredKeys(made, cut, 3, keys_at),
                        std::to_string(shape.count) + " positions, cut " +
                            std::to_string(static_cast<int>(cut)));
      }
    }
  }
}

TEST(RowKernels, AttentionIsHonestAboutWhatIsNoNumber) {
  AttentionCase made = MakeAttentionCase(1, 32, 32, 10, 80, 19);
  made.keys[40 * 32] = 0xfc00;  // a key of minus infinity
  ExpectAttention(made, StoredKeys(made, CutInto::kRandom, 4), "an infinite key");
  made.values[60 * 32 + 3] = 0x7e00;
  ExpectAttention(made, StoredKeys(made, CutInto::kRandom, 5), "a value that is NaN");
}

// Queries that share a key head look at its cells, and at no other's.
TEST(RowKernels, AttentionFindsTheKeyHead) {
  const ScopedIeeeMode ieee;
  constexpr uint32_t kHeads = 6, kKvHeads = 3, kLength = 16, kCount = 20;
  Numbers numbers(23);
  const std::vector<float> query = numbers.Gaussians(kHeads * kLength, 1.0f);
  std::vector<uint16_t> page(2 * kKvHeads * kChunk * kLength);
  for (uint16_t& half : page) half = FloatToHalf(numbers.Gaussian(1.0f));
  const size_t values_at = kKvHeads * kChunk * kLength;
  const KeyRun run = {page.data(), 4, kCount};
  const SeenRuns seen = {4, 4 + kCount, 1, 0};
  const std::vector<uint32_t> chunk_runs = {0, 1};
  std::vector<float> actual(kHeads * kLength), expected(actual.size());
  const AttendRows rows = {
      query.data(), actual.data(), &seen, chunk_runs.data(), &run,  kHeads, kKvHeads, kLength,
      kLength,      0.25f,         0,     values_at,         kChunk};
  Emulate(AttendFewRows{rows}, 1, kHeads);
  for (uint32_t kv_head = 0; kv_head < kKvHeads; ++kv_head) {
    const size_t first = size_t{2} * kv_head * kLength;
    Reference().attend({.queries = query.data() + first,
                        .outputs = expected.data() + first,
                        .head_count = 2,
                        .key_length = kLength,
                        .value_length = kLength,
                        .scale = 0.25f,
                        .first_position = 4,
                        .runs = &run,
                        .run_count = 1,
                        .keys_at = size_t{kv_head} * kChunk * kLength,
                        .values_at = values_at + size_t{kv_head} * kChunk * kLength});
  }
  ExpectBits(actual, expected, "heads");
}

}  // namespace
}  // namespace outrider::gpu
