// Runs are as long as it takes for computing to hide what they read, and no longer; where memory is
// short, shorter.
#include "client/planner/run_rows.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kRowBytes = kMiB / 10;
constexpr RunLimits kLimits = {.pass = 17, .usual = 273, .most = 4112};

// 24 layers of 45 MiB and a head of 40; of a run each row takes a tenth of a megabyte.
absl::StatusOr<MemoryPlan> PlanOf(uint32_t rows, uint64_t budget) {
  MemoryNeeds needs = {.process_bytes = 40 * kMiB,
                       .target = {.kv_bytes = 30 * kMiB, .scratch_bytes = rows * kRowBytes},
                       .run_rows = rows,
                       .spared_bytes = (rows - LeastRows(kLimits)) * kRowBytes,
                       .weights = {.layer_bytes = std::vector<uint64_t>(24, 45 * kMiB),
                                   .head_bytes = 40 * kMiB,
                                   .layer_file_bytes = std::vector<uint64_t>(24, 45 * kMiB),
                                   .head_file_bytes = 40 * kMiB}};
  return PlanMemory(needs, budget);
}

PlanOfRows Within(uint64_t budget) {
  return [budget](uint32_t rows) { return PlanOf(rows, budget); };
}

// A row is computed in as much time as a thousandth of the model is read at a gigabyte a second.
FlashSetting Machine(double bytes_per_second) {
  FlashSetting machine = SettingOf(*PlanOf(273, 4096 * kMiB), 2);
  machine.flash_bytes_per_second = bytes_per_second;
  for (size_t i = 0; i < KernelSpeed::kRows.size(); ++i) {
    machine.target.product_seconds[i] = 1e-12 * KernelSpeed::kRows[i];
  }
  return machine;
}

TEST(RunRows, AreForTokensOfAPromptAndAPassBesides) {
  const RunLimits limits = RowsFor(4096, 16);
  EXPECT_EQ(limits.pass, 17u);
  EXPECT_EQ(limits.usual, 256u + 17);
  EXPECT_EQ(limits.most, 4096u + 16);
  EXPECT_EQ(LeastRows(limits), 16u + 17);
  EXPECT_EQ(RowsFor(100, 0).most, RowsFor(100, 0).usual);
}

// All is read, and with every so many rows a little more, in as much time as a thousand rows are
// computed in, or as fifty.
PlanOfRows Reading(uint32_t rows_per_byte) {
  return [=](uint32_t rows) {
    absl::StatusOr<MemoryPlan> plan = PlanOf(rows, 4096 * kMiB);
    plan->bytes_per_pass = 1000 * kMiB + rows / rows_per_byte;
    return plan;
  };
}

TEST(RunRows, AreTheLeastWhoseComputingHidesWhatTheyRead) {
  const PlanOfRows plan_of = Reading(/*rows_per_byte=*/1);
  const FlashSetting slow = Machine(1e9), fast = Machine(20e9);
  const uint32_t rows = RowsThatHide(kLimits, slow, plan_of);
  FlashSetting setting = slow;
  setting.reads = plan_of(rows)->reads();
  EXPECT_TRUE(HidesReads(setting, rows));
  EXPECT_FALSE(HidesReads(setting, rows - 64));
  EXPECT_GT(rows, 800u);
  EXPECT_LT(rows, 1200u);
  EXPECT_EQ(RowsThatHide(kLimits, fast, plan_of), kLimits.usual);
  EXPECT_EQ(RowsThatHide(kLimits, Machine(1e6), plan_of), kLimits.most);
}

TEST(RunRows, GoOnWhereNothingMoreIsReadForThem) {
  const FlashSetting fast = Machine(20e9);
  const uint32_t rows = RowsThatHide(kLimits, fast, Reading(/*rows_per_byte=*/100'000));
  EXPECT_GE(rows, 1024u + kLimits.pass);
  EXPECT_LT(rows, 1024u + kLimits.pass + 64);
  EXPECT_EQ(RowsThatHide(kLimits, fast, Reading(/*rows_per_byte=*/400)), 273u + 64);
  const RunLimits few = {.pass = 17, .usual = 273, .most = 500};
  EXPECT_EQ(RowsThatHide(few, fast, Reading(/*rows_per_byte=*/100'000)), 500u);
}

// What is left over holds more rows, but hardly more is read for them.
TEST(RunRows, TakeTheMemoryOfNoLayerThatStays) {
  uint32_t longest = 0;
  for (uint64_t budget = 300 * kMiB; budget < 900 * kMiB; budget += 11 * kMiB) {
    SCOPED_TRACE(Concat(budget / kMiB, " MiB"));
    const uint64_t bytes_max = 51 * PlanOf(kLimits.usual, budget)->bytes_per_pass / 50;
    const uint32_t rows = RowsThatHide(kLimits, Machine(1e6), Within(budget));
    longest = std::max(longest, rows);
    ASSERT_LE(PlanOf(rows, budget)->bytes_per_pass, bytes_max);
    ASSERT_GT(PlanOf(rows + 64, budget)->bytes_per_pass, bytes_max);
  }
  EXPECT_GT(longest, kLimits.usual + 128);
}

TEST(RunRows, AreFewerWhereThereIsNoRoom) {
  const uint64_t least = PlanOf(LeastRows(kLimits), 4096 * kMiB)->least_bytes;
  EXPECT_EQ(PlanOf(kLimits.usual, 4096 * kMiB)->least_bytes, least);
  EXPECT_EQ(RowsThatFit(kLimits, Within(least)), LeastRows(kLimits));
  EXPECT_FALSE(PlanOf(LeastRows(kLimits) + 1, least).ok());
  EXPECT_EQ(RowsThatFit(kLimits, Within(least + 16 * kRowBytes)), 32u + 17);
  EXPECT_EQ(RowsThatFit(kLimits, Within(least + 112 * kRowBytes)), 128u + 17);
  EXPECT_EQ(RowsThatFit(kLimits, Within(least + 240 * kRowBytes)), kLimits.usual);
  EXPECT_EQ(RowsThatFit(kLimits, Within(least - 1)), LeastRows(kLimits));  // and its plan says so
}

}  // namespace
}  // namespace outrider
