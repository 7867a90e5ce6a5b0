// A plan keeps to its budget, whatever that is, and has no better use for what is left; one that is
// too small is refused with the least that works.
#include "client/planner/memory_plan.h"

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// 22 layers of 50 MiB, as those of a 1.1B target are.
MemoryNeeds Needs(uint64_t head_bytes) {
  MemoryNeeds needs;
  needs.process_bytes = 40 * kMiB;
  needs.draft_weight_bytes = 60 * kMiB;
  needs.draft = {.kv_bytes = 10 * kMiB, .scratch_bytes = 5 * kMiB};
  needs.target = {.kv_bytes = 90 * kMiB, .scratch_bytes = 30 * kMiB};
  needs.weights = {.layer_bytes = std::vector<uint64_t>(22, 50 * kMiB),
                   .head_bytes = head_bytes,
                   .layer_file_bytes = std::vector<uint64_t>(22, 50 * kMiB),
                   .head_file_bytes = head_bytes,
                   .kept_bytes = kMiB,
                   .staging_bytes = kMiB / 4};
  return needs;
}

uint64_t Planned(const MemoryNeeds& needs, const StreamOptions& stream) {
  return needs.FixedBytes() + MemoryBytes(needs.weights, stream);
}

TEST(MemoryPlan, KeepsToItsBudgetAndMoreNeverReadsMore) {
  for (const uint64_t head : {10 * kMiB, 68 * kMiB, 400 * kMiB}) {
    const MemoryNeeds needs = Needs(head);
    uint64_t bytes_before = UINT64_MAX;
    uint32_t refused = 0;
    for (uint64_t budget = 200 * kMiB; budget < 2000 * kMiB; budget += 7 * kMiB) {
      SCOPED_TRACE(Concat(head / kMiB, " MiB of head, ", budget / kMiB, " MiB"));
      const absl::StatusOr<MemoryPlan> plan = PlanMemory(needs, budget);
      if (!plan.ok()) {
        ASSERT_EQ(bytes_before, UINT64_MAX) << "less was enough";
        ++refused;
        continue;
      }
      ASSERT_LE(Planned(needs, plan->stream), budget);
      ASSERT_EQ(plan->planned_bytes, Planned(needs, plan->stream));
      ASSERT_LE(plan->bytes_per_pass, bytes_before);
      bytes_before = plan->bytes_per_pass;
      // Nothing more would fit.
      StreamOptions more = plan->stream;
      ++more.pinned_layer_count;
      if (more.pinned_layer_count <= 22) {
        ASSERT_GT(Planned(needs, more), budget);
      }
    }
    EXPECT_GT(refused, 0u);
    EXPECT_EQ(bytes_before, 0u) << "all of it fits into two gigabytes";
  }
}

TEST(MemoryPlan, TooLittleNamesTheLeastThatWorks) {
  const MemoryNeeds needs = Needs(150 * kMiB);
  const absl::Status refused = PlanMemory(needs, 100 * kMiB).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  // What is there whatever the budget; slots for two layers, the head, what is kept, and two pages.
  constexpr uint64_t kLeastMiB = 235 + 100 + 150 + 5 + 1;
  EXPECT_THAT(Message(refused), HasSubstr(Concat("the least that works is ", kLeastMiB, "MiB")));
  EXPECT_THAT(Message(refused), HasSubstr("the draft 75"));
  const MemoryPlan least = *PlanMemory(needs, kLeastMiB * kMiB);
  EXPECT_EQ(least.stream.pinned_layer_count, 0u);
  EXPECT_TRUE(least.stream.pins_head);
  EXPECT_TRUE(PlanMemory(needs, least.least_bytes).ok());
  EXPECT_FALSE(PlanMemory(needs, least.least_bytes - 1).ok());
}

// Two slots that hold the head too are less than the head and two slots for layers, where it is less
// than two of those.
TEST(MemoryPlan, TheHeadIsStreamedWhereItMustBe) {
  const MemoryNeeds needs = Needs(60 * kMiB);
  const MemoryPlan least = *PlanMemory(needs, PlanMemory(needs, 4096 * kMiB)->least_bytes);
  EXPECT_FALSE(least.stream.pins_head);
  EXPECT_EQ(least.bytes_per_pass, 22 * 50 * kMiB + 60 * kMiB);
  EXPECT_TRUE(PlanMemory(needs, least.least_bytes + 61 * kMiB)->stream.pins_head);
}

// Exits look into it between any two layers.
TEST(MemoryPlan, TheHeadStaysWhereThereAreExits) {
  MemoryNeeds needs = Needs(60 * kMiB);
  const uint64_t without = PlanMemory(needs, 4096 * kMiB)->least_bytes;
  needs.exits_bytes = 7 * kMiB;
  const absl::Status refused = PlanMemory(needs, without).status();
  EXPECT_THAT(Message(refused), HasSubstr("its exits 7,"));
  // Two slots for layers and the head, in place of two slots for either.
  const uint64_t least = PlanMemory(needs, 4096 * kMiB)->least_bytes;
  EXPECT_EQ(least, without + (7 + 60 - 2 * 10) * kMiB);
  for (uint64_t budget = least; budget < 2000 * kMiB; budget += 13 * kMiB) {
    const MemoryPlan plan = *PlanMemory(needs, budget);
    ASSERT_TRUE(plan.stream.pins_head);
    ASSERT_LE(Planned(needs, plan.stream), budget);
  }
}

// Of 640 experts a row uses 80. Layers are read by every pass and come first; then as many experts as fit.
TEST(MemoryPlan, ReadsMostUntilHalfOfTheLayersStay) {
  const MemoryNeeds needs = Needs(10 * kMiB);
  EXPECT_TRUE(PlanMemory(needs, 400 * kMiB)->ReadsMost());
  EXPECT_FALSE(PlanMemory(needs, 1100 * kMiB)->ReadsMost());
}

TEST(MemoryPlan, ExpertsHaveWhatLayersLeave) {
  MemoryNeeds needs = Needs(10 * kMiB);
  needs.weights.layer_bytes.assign(10, 8 * kMiB);
  needs.weights.layer_file_bytes = needs.weights.layer_bytes;
  needs.weights.experts = {.count = 640,
                           .used_count = 80,
                           .place_least = 16,
                           .place_bytes = 2 * kMiB,
                           .file_bytes = 640 * 2 * kMiB};
  const uint64_t least_bytes = PlanMemory(needs, 8192 * kMiB)->least_bytes;
  const MemoryPlan least = *PlanMemory(needs, least_bytes);
  EXPECT_EQ(least.stream.expert_place_count, 16u);
  EXPECT_EQ(least.stream.pinned_layer_count, 0u);
  uint64_t bytes_before = UINT64_MAX;
  for (uint64_t budget = least_bytes; budget < least_bytes + 1600 * kMiB; budget += 37 * kMiB) {
    const MemoryPlan plan = *PlanMemory(needs, budget);
    ASSERT_LE(Planned(needs, plan.stream), budget);
    ASSERT_LE(plan.bytes_per_pass, bytes_before);
    bytes_before = plan.bytes_per_pass;
    ASSERT_FALSE(plan.ReadsMost()) << "what rows have of their own is hidden by nothing";
    ASSERT_EQ(plan.reads().Bytes(1), plan.bytes_per_pass);
    ASSERT_EQ(plan.reads().Bytes(8) > plan.bytes_per_pass, plan.stream.expert_place_count < 640);
    if (plan.stream.expert_place_count > 16 + 4) {
      ASSERT_EQ(plan.stream.pinned_layer_count, 10u);
    }
  }
  EXPECT_EQ(bytes_before, 0u);
}

}  // namespace
}  // namespace outrider
