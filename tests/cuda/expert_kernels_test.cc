// The kernels of layers with experts, thread after thread, against the scalar references, bit for
// bit: who chooses whom, who gets which place, every expert's products with its own rows, and sums.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/base/ieee_mode.h"
#include "common/cuda/block/emulated_block.h"
#include "common/cuda/kernels/expert_rows.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/cuda/kernels/quantize_rows.h"
#include "common/cuda/testing/rows_on_gpu.h"
#include "common/cuda/testing/segments_by_reference.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/kernels/testing/product_inputs.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/layers/expert_feed_forward.h"
#include "gtest/gtest.h"

namespace outrider::gpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

const Kernels& Reference() {
  return KernelsFor(Isa::kScalar);
}

bool SameBits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof(a)) == 0;
}

std::vector<float> Floats(size_t count, uint64_t seed) {
  Seeded seeded(seed);
  std::vector<float> values(count);
  for (float& value : values) value = 4.0f * seeded.Unit();
  return values;
}

// --- choosing ---

void ExpectChoices(const std::vector<float>& logits, uint32_t used_count, const std::string& what) {
  const ScopedIeeeMode ieee;
  const auto expert_count = static_cast<uint32_t>(logits.size());
  for (const bool renormalize : {false, true}) {
    std::vector<outrider::ExpertChoice> expected(used_count);
    std::vector<float> p = logits;
    outrider::ChooseExperts({expert_count, used_count, renormalize}, Reference().rows, p.data(),
                            expected);
    // Of the second of two rows.
    std::vector<float> rows(expert_count, 1.0f);
    rows.insert(rows.end(), logits.begin(), logits.end());
    std::vector<ExpertChoice> actual(2 * used_count);
    Emulate(ChooseExperts{rows.data(), actual.data(), expert_count, used_count, renormalize}, 2, 1);
    for (uint32_t c = 0; c < used_count; ++c) {
      const ExpertChoice& choice = actual[used_count + c];
      ASSERT_EQ(choice.expert, expected[c].expert) << what << ", choice " << c;
      ASSERT_TRUE(SameBits(choice.weight, expected[c].weight))
          << what << ", choice " << c << ": " << choice.weight << " for " << expected[c].weight;
    }
  }
}

struct Routers {
  uint32_t expert_count, used_count;
};
constexpr Routers kRouters[] = {{1, 1}, {5, 2}, {20, 20}, {60, 4}, {64, 8}, {200, 130}};

TEST(ExpertKernels, ChoicesAreTheProcessors) {
  for (const auto& [expert_count, used_count] : kRouters) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      const std::vector<float> logits = Floats(expert_count, seed);
      ExpectChoices(logits, used_count, std::to_string(expert_count) + " experts");
      std::vector<float> equal = logits;
      for (float& value : equal) value = std::round(value);  // zeros of either sign among them
      ExpectChoices(equal, used_count, std::to_string(expert_count) + " experts, some as good");
    }
    ExpectChoices(std::vector<float>(expert_count, -2.0f), used_count, "all as good");
  }
}

TEST(ExpertKernels, ChoicesAmongWhatIsNoNumberAreTheProcessors) {
  for (const auto& [expert_count, used_count] : kRouters) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      std::vector<float> logits = Floats(expert_count, seed);
      Seeded seeded(seed + 100);
      for (float& value : logits) {
        const uint32_t kind = seeded.Below(6);
        if (kind == 0) value = kNan;
        if (kind == 1) value = seed % 2 == 0 ? Infinity() : -Infinity();
      }
      ExpectChoices(logits, used_count, std::to_string(expert_count) + " experts, not all numbers");
      logits[0] = kNan;
      ExpectChoices(logits, used_count, std::to_string(expert_count) + " experts, the first none");
    }
    ExpectChoices(std::vector<float>(expert_count, kNan), used_count, "no numbers");
    ExpectChoices(std::vector<float>(expert_count, -Infinity()), used_count, "minus infinity");
  }
}

// --- grouping ---

// Choices get places by expert, and in their own order among those of one.
void ExpectGroups(const std::vector<uint32_t>& experts, uint32_t used_count, uint32_t expert_count,
                  const std::string& what) {
  std::vector<uint32_t> by_place(experts.size());
  std::iota(by_place.begin(), by_place.end(), 0u);
  std::ranges::stable_sort(by_place, {}, [&](uint32_t choice) { return experts[choice]; });

  std::vector<ExpertChoice> choices;
  for (const uint32_t expert : experts) choices.push_back({expert, kNan});
  constexpr uint32_t kUnset = 12345678;
  std::vector<ExpertRows> groups(expert_count, {kUnset, kUnset, kUnset});
  std::vector<uint32_t> place_of(experts.size(), kUnset), row_at(experts.size(), kUnset);
  Emulate(GroupRows{.choices = choices.data(),
                    .groups = groups.data(),
                    .place_of = place_of.data(),
                    .row_at = row_at.data(),
                    .choice_count = static_cast<uint32_t>(experts.size()),
                    .used_count = used_count,
                    .expert_count = expert_count},
          1, 1);
  for (uint32_t place = 0; place < by_place.size(); ++place) {
    ASSERT_EQ(place_of[by_place[place]], place) << what;
    ASSERT_EQ(row_at[place], by_place[place] / used_count) << what;
  }
  uint32_t group = 0;
  for (const bool chosen : {true, false}) {
    uint32_t first = 0;
    for (uint32_t expert = 0; expert < expert_count; ++expert) {
      const auto count = static_cast<uint32_t>(std::ranges::count(experts, expert));
      if ((count > 0) == chosen) {
        ASSERT_EQ(groups[group].expert, expert) << what << ", group " << group;
        ASSERT_EQ(groups[group].count, count) << what << ", group " << group;
        if (chosen) {
          ASSERT_EQ(groups[group].first_place, first) << what << ", group " << group;
        }
        ++group;
      }
      first += count;
    }
  }
}

TEST(ExpertKernels, RowsHavePlacesByExpert) {
  std::mt19937 random(3);
  for (const auto& [expert_count, used_count] :
       {Routers{5, 2}, Routers{64, 8}, Routers{300, 3}, Routers{1500, 2}}) {
    for (const uint32_t row_count : {1u, 7u, 8u, 9u, 64u, 300u}) {
      std::vector<uint32_t> any, same;
      std::vector<uint32_t> all(expert_count);
      std::iota(all.begin(), all.end(), 0u);
      for (uint32_t row = 0; row < row_count; ++row) {
        std::ranges::shuffle(all, random);
        any.insert(any.end(), all.begin(), all.begin() + used_count);
        for (uint32_t c = 0; c < used_count; ++c) same.push_back(expert_count - 1 - c);
      }
      const std::string what =
          std::to_string(row_count) + " rows of " + std::to_string(expert_count) + " experts";
      ExpectGroups(any, used_count, expert_count, what);
      ExpectGroups(same, used_count, expert_count, what + ", all to the same");
    }
  }
}

TEST(ExpertKernels, RowsGoToTheirPlaces) {
  const ScopedIeeeMode ieee;
  constexpr uint32_t kInputs = 512;
  const std::vector<float> x = Floats(3 * kInputs, 5);
  const std::vector<uint32_t> which = {2, 0, 0, 1, 2};
  std::vector<float> gathered(5 * kInputs);
  const GatherRows gather = {x.data(), which.data(), gathered.data(), kInputs};
  Emulate(gather, 5, gather.grid_y());
  for (size_t i = 0; i < gathered.size(); ++i) {
    ASSERT_EQ(gathered[i], x[which[i / kInputs] * kInputs + i % kInputs]);
  }
  // And as they are quantised.
  struct Quants {
    static RowTiles Tiles() { return {kInputs, 32}; }
    std::vector<int8_t> quants = std::vector<int8_t>(Tiles().QuantsOfTile());
    std::vector<float> scales = std::vector<float>(Tiles().ScalesOfTile());
    std::vector<int16_t> sums = std::vector<int16_t>(Tiles().SumsOfTile());
    bool operator==(const Quants&) const = default;
  };
  Quants expected, actual;
  const auto quantize = [&](const float* from, const uint32_t* rows, Quants& to) {
    const QuantizeRows body = {.x = from,
                               .quants = to.quants.data(),
                               .scales = to.scales.data(),
                               .sums = to.sums.data(),
                               .inputs = kInputs,
                               .block_length = 32,
                               .which = rows};
    Emulate(body, 5, body.grid_y());
  };
  quantize(gathered.data(), nullptr, expected);
  quantize(x.data(), which.data(), actual);
  EXPECT_TRUE(actual == expected);
}

// --- products ---

struct Kind {
  const char* name;
  PanelKind kind;
};
constexpr Kind kKinds[] = {{"F32", PanelKind::kF32},   {"F16", PanelKind::kF16},
                           {"BF16", PanelKind::kBf16}, {"Q8_0", PanelKind::kQ8_0},
                           {"Q4_0", PanelKind::kQ4_0}, {"Q4_K", PanelKind::kQ4_K},
                           {"Q5_K", PanelKind::kQ5_K}, {"Q6_K", PanelKind::kQ6_K}};

const PanelType& TypeNamed(const std::string& name) {
  for (const PanelType& type : kPanelTypes) {
    if (type.name == name) return type;
  }
  ADD_FAILURE() << name;
  return kPanelTypes[0];
}

// What one expert's product comes to by itself: by the reference, of rows as this machine has them,
// or with weights for which a GPU has bits of its own, by the kernel for as many rows.
void MultiplyAlone(const Kind& kind, const Product& product, const ActivationRows& x) {
  if (HasOwnBits(kind.kind)) {
    UseProduct(product, kind.kind, [](const auto& body, uint32_t grid_x, uint32_t grid_y) {
      Emulate(body, grid_x, grid_y);
    });
    return;
  }
  MultiplyByReference(TypeNamed(kind.name), product.panels, product.outputs, x, product.out,
                      product.out_stride);
  for (uint32_t r = 0; r < x.row_count; ++r) {
    for (uint32_t n = 0; n < product.outputs; ++n) {
      product.out[r * product.out_stride + n] += product.bias[n];
    }
  }
}

// Experts with so many rows each, one expert after another.
void ExpectProducts(const Kind& kind, uint32_t inputs, const std::vector<uint32_t>& counts,
                    Weights weights, Rows contents) {
  const ScopedIeeeMode ieee;
  const PanelType& type = TypeNamed(kind.name);
  constexpr uint32_t kOutputs = 27, kPanels = 2, kStride = kOutputs + 3;
  const auto expert_count = static_cast<uint32_t>(counts.size());
  const uint32_t place_count = std::accumulate(counts.begin(), counts.end(), 0u);
  Bytes panels = MakePanels(type, kPanels * expert_count, inputs, weights, 5);
  RowsOf rows(place_count, inputs, type.block(), contents, 7);
  const RowsOnGpu rows_on_gpu(rows.First(place_count), type.block());
  GpuRows x = rows_on_gpu.View();
  std::vector<uint32_t> terms(size_t{place_count} * inputs);
  if (HasOwnBits(kind.kind)) {
    const SplitRows split = {x.values, terms.data(), inputs};
    Emulate(split, place_count, split.grid_y());
    x.terms = terms.data();
  }
  const std::vector<float> bias = Floats(size_t{expert_count} * kOutputs, 9);

  std::vector<float> expected(place_count * kStride, -1.0f), actual = expected;
  std::vector<ExpertRows> groups;
  uint32_t first = 0;
  for (uint32_t expert = 0; expert < expert_count; ++expert) {
    groups.push_back({expert, first, counts[expert]});
    if (counts[expert] == 0) continue;
    MultiplyAlone(kind,
                  {.panels = panels.data() + expert * kPanels * type.Size(inputs),
                   .panel_bytes = type.Size(inputs),
                   .outputs = kOutputs,
                   .inputs = inputs,
                   .bias = &bias[expert * kOutputs],
                   .x = x.Some(first, counts[expert]),
                   .out = &expected[first * kStride],
                   .out_stride = kStride},
                  SomeRows(rows.First(place_count), first, counts[expert]));
    first += counts[expert];
  }
  std::ranges::reverse(groups);  // in whatever order they come
  const GroupedProduct product = {.product = {.panels = panels.data(),
                                              .panel_bytes = type.Size(inputs),
                                              .outputs = kOutputs,
                                              .inputs = inputs,
                                              .bias = bias.data(),
                                              .x = x,
                                              .out = actual.data(),
                                              .out_stride = kStride},
                                  .groups = groups.data(),
                                  .group_count = expert_count};
  UseGroupedProduct(product, kind.kind, [](const auto& body, uint32_t grid_x, uint32_t grid_y) {
    Emulate(body, grid_x, grid_y);
  });
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(SameBits(actual[i], expected[i]))
        << kind.name << ", " << inputs << " inputs, " << place_count << " places, weights "
        << static_cast<int>(weights) << ", rows " << static_cast<int>(contents) << ", place "
        << i / kStride << ", output " << i % kStride << ": " << actual[i] << " for " << expected[i];
  }
}

class ExpertProducts : public testing::TestWithParam<Kind> {};

// Few rows an expert, with one that gets many; many, with some that get few or none; all to one.
TEST_P(ExpertProducts, AreEachExpertsOwn) {
  const uint32_t block = TypeNamed(GetParam().name).block();
  const uint32_t several = block == 256 ? 9 * block : 1100 / block * block;
  const std::vector<uint32_t> kCounts[] = {{1},        {0, 1, 0, 0},         {7, 0, 8, 9, 1},
                                           {0, 64, 0}, {64, 9, 0, 66, 1, 8}, {1, 0, 65, 1, 0, 1}};
  for (const uint32_t inputs : {block == 1 ? 36 : block, several}) {
    for (const std::vector<uint32_t>& counts : kCounts) {
      ExpectProducts(GetParam(), inputs, counts, Weights::kRandom, Rows::kRandom);
    }
    for (const Weights weights : {Weights::kOneBits, Weights::kAnyScales}) {
      for (const Rows rows : {Rows::kHighest, Rows::kTiny, Rows::kNotFinite}) {
        ExpectProducts(GetParam(), inputs, {3, 0, 11}, weights, rows);
        ExpectProducts(GetParam(), inputs, {0, 40}, weights, rows);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ExpertProducts, testing::ValuesIn(kKinds),
                         [](const auto& tried) { return std::string(tried.param.name); });

// --- sums ---

void ExpectSums(uint32_t row_count, uint32_t used_count, uint32_t length, bool has_shared) {
  const ScopedIeeeMode ieee;
  const size_t place_count = size_t{row_count} * used_count;
  std::vector<float> answers = Floats(place_count * length, 1);
  answers[length / 2] = kNan;
  std::vector<float> x = Floats(size_t{row_count} * length, 2);
  const std::vector<float> weights = Floats(place_count, 3);
  const std::vector<float> gate = Floats(length, 4), shared = Floats(x.size(), 5);
  if (row_count > 2) {
    for (uint32_t i = 0; i < length; ++i) x[2 * length + i] = -1e3f * gate[i];  // a share of zero
    x[length] = kNan;
  }
  std::vector<uint32_t> place_of(place_count);
  std::iota(place_of.begin(), place_of.end(), 0u);
  std::ranges::shuffle(place_of, std::mt19937(5));
  std::vector<ExpertChoice> choices;
  for (const float weight : weights) choices.push_back({0, weight});

  std::vector<float> expected(x.size()), actual(x.size());
  for (uint32_t row = 0; row < row_count; ++row) {
    float* const out = expected.data() + size_t{row} * length;
    std::vector<WeightedRow> terms;
    for (uint32_t c = row * used_count; c < (row + 1) * used_count; ++c) {
      terms.push_back({answers.data() + size_t{place_of[c]} * length, weights[c]});
    }
    Reference().rows.weighted_sum(terms.data(), used_count, length, out);
    if (!has_shared) continue;
    std::vector<float> panel(size_t{length} * kPanelOutputs);
    for (uint32_t i = 0; i < length; ++i) panel[i * kPanelOutputs] = gate[i];
    float z = 0;
    Reference().products.f32(reinterpret_cast<const std::byte*>(panel.data()), 1, 1,
                             {.row_count = 1,
                              .inputs = length,
                              .values = x.data() + size_t{row} * length,
                              .value_stride = length},
                             &z, 1);
    z = -z;
    Reference().rows.exp(&z, 1, &z);
    const WeightedRow scaled = {shared.data() + size_t{row} * length, 1.0f / (1.0f + z)};
    std::vector<float> beside(length);
    Reference().rows.weighted_sum(&scaled, 1, length, beside.data());
    Reference().rows.add(out, beside.data(), length);
  }
  const SumExperts body = {.answers = answers.data(),
                           .choices = choices.data(),
                           .place_of = place_of.data(),
                           .shared_answers = has_shared ? shared.data() : nullptr,
                           .shared_gate = has_shared ? gate.data() : nullptr,
                           .x = x.data(),
                           .out = actual.data(),
                           .used_count = used_count,
                           .length = length};
  Emulate(body, row_count, body.grid_y());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_TRUE(SameBits(actual[i], expected[i]))
        << row_count << " rows of " << length << ", row " << i / length << ", element "
        << i % length << ": " << actual[i] << " for " << expected[i];
  }
}

TEST(ExpertKernels, SumsAreTheContracts) {
  for (const uint32_t row_count : {1u, 7u, 64u}) {
    for (const uint32_t used_count : {1u, 2u, 8u}) {
      for (const uint32_t length : {20u, 300u, 1024u}) {
        ExpectSums(row_count, used_count, length, false);
        ExpectSums(row_count, used_count, length, true);
      }
    }
  }
}

}  // namespace
}  // namespace outrider::gpu
