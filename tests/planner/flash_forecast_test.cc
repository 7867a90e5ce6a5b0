// What a forecast says where the answer is known without one.
#include "client/planner/flash_forecast.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

// A gigabyte a second, and products that take a tenth of that time a row.
FlashSetting Setting() {
  FlashSetting setting = {.reads = {.row_bytes = 1'000'000'000},
                          .target_bytes = 1'000'000'000,
                          .draft_bytes = 10'000'000,
                          .flash_bytes_per_second = 1e9};
  for (size_t i = 0; i < KernelSpeed::kRows.size(); ++i) {
    setting.target.product_seconds[i] = 0.05e-9 * KernelSpeed::kRows[i];
    setting.draft.product_seconds[i] = 0.1e-9;
  }
  return setting;
}

TEST(FlashForecast, ReadsHideAsManyRowsAsTheyTakeTimeFor) {
  const FlashForecast forecast = Forecast(Setting());
  EXPECT_DOUBLE_EQ(forecast.alone_seconds, 1.0);
  EXPECT_EQ(forecast.hidden_nodes, 19u);  // and the root
  // Drafted tokens are worth more than a millisecond each until they are hardly ever right.
  EXPECT_GE(forecast.nodes, 10u);
  EXPECT_LE(forecast.nodes, 19u);
  EXPECT_NEAR(forecast.tokens_per_second, 1 / (1 - 0.7), 0.15);
}

TEST(FlashForecast, WhatPassesCommittedIsAChance) {
  EXPECT_NEAR(AcceptanceOf(1 + 0.7 + 0.49 + 0.343, 3), 0.7, 1e-6);
  EXPECT_NEAR(AcceptanceOf(1, 8), 0, 1e-6);
  EXPECT_NEAR(AcceptanceOf(9, 8), 0.999, 1e-6);  // all of it
  EXPECT_LT(AcceptanceOf(3, 24), AcceptanceOf(3, 4));
  FlashSetting often = Setting(), seldom = Setting();
  often.acceptance = 0.8;
  seldom.acceptance = 0.3;
  EXPECT_GT(Forecast(often).tokens_per_second, 1.5 * Forecast(seldom).tokens_per_second);
}

TEST(FlashForecast, WithoutADraftItIsAPassAToken) {
  FlashSetting setting = Setting();
  setting.draft_bytes = 0;
  const FlashForecast forecast = Forecast(setting);
  EXPECT_EQ(forecast.nodes, 0u);
  EXPECT_DOUBLE_EQ(forecast.tokens_per_second, 1.0);
}

TEST(FlashForecast, WhatIsAllInMemoryIsAsFastAsItsProducts) {
  FlashSetting setting = Setting();
  setting.reads.row_bytes = 0;
  const FlashForecast forecast = Forecast(setting);
  EXPECT_DOUBLE_EQ(forecast.alone_seconds, 0.05);
  EXPECT_EQ(forecast.hidden_nodes, 0u);
}

// 20 rows are computed while all is read; of a run of n more rows a row takes 50 ms.
TEST(FlashForecast, APromptIsRunsOfWhichEachReadsAll) {
  const FlashSetting setting = Setting();
  EXPECT_FALSE(HidesReads(setting, 19));
  EXPECT_TRUE(HidesReads(setting, 21));
  EXPECT_DOUBLE_EQ(PromptSeconds(setting, 10, 64), 1.0);
  EXPECT_NEAR(PromptSeconds(setting, 64, 64), 3.2, 1e-9);
  EXPECT_NEAR(PromptSeconds(setting, 128, 64), 6.4, 1e-9);
  EXPECT_NEAR(PromptSeconds(setting, 129, 64), 7.4, 1e-9);  // the last token's run reads it again
  EXPECT_NEAR(PromptSeconds(setting, 129, 129), 6.45, 1e-9);
}

// Qwen3-30B in Q4_0: 16.3 GB of experts, 6 of 128 used, none in memory, and all else.
PassReads ExpertReads() {
  return {.row_bytes = 800'000'000,
          .expert_bytes = 760'000'000,
          .experts = {.count = 128 * 48, .used_count = 6 * 48}};
}

TEST(FlashForecast, ReadsHideNoRowsThatBringExpertsOfTheirOwn) {
  FlashSetting setting = Setting();
  setting.reads = ExpertReads();
  setting.target_bytes = 40'000'000;
  setting.expert_bytes = 760'000'000;
  const FlashForecast forecast = Forecast(setting);
  EXPECT_DOUBLE_EQ(forecast.alone_seconds, 0.8);
  EXPECT_EQ(forecast.hidden_nodes, 0u);
  EXPECT_GE(forecast.nodes, 1u);
  EXPECT_LE(forecast.nodes, 3u);  // four rows, of which three tokens hardly pay for the reads
  EXPECT_LE(forecast.tokens_per_second, 1.2 / forecast.alone_seconds);
}

// By recorded routes four rows use 2.6 times the experts of one, and sixteen 5.6 times.
TEST(PassReads, AreMoreForMoreRowsWhereThoseBringExperts) {
  const PassReads reads = ExpertReads();
  EXPECT_DOUBLE_EQ(reads.Bytes(1), 800e6);
  EXPECT_NEAR(reads.Bytes(4), 40e6 + 2.59 * 760e6, 100e6);
  EXPECT_NEAR(reads.Bytes(16), 40e6 + 5.58 * 760e6, 700e6);
  const PassReads dense = {.row_bytes = 800'000'000};
  EXPECT_DOUBLE_EQ(dense.Bytes(16), 800e6);
}

TEST(PassReads, SayWhereASessionBegins) {
  PassReads reads = ExpertReads();
  EXPECT_GE(NodesForReads(reads, 15), 2u);
  EXPECT_LE(NodesForReads(reads, 15), 3u);
  reads.row_bytes += 10 * reads.expert_bytes;  // layers that all rows share
  EXPECT_GE(NodesForReads(reads, 15), 5u);
  EXPECT_EQ(NodesForReads({.row_bytes = 800'000'000}, 15), 15u);
}

TEST(KernelSpeed, IsALineBetweenWhatWasMeasured) {
  KernelSpeed speed;
  speed.product_seconds = {1, 4, 8, 16, 64};  // at 1, 4, 16, 32, 64 rows
  EXPECT_DOUBLE_EQ(speed.ProductSeconds(1), 1);
  EXPECT_DOUBLE_EQ(speed.ProductSeconds(10), 6);
  EXPECT_DOUBLE_EQ(speed.ProductSeconds(32), 16);
  EXPECT_DOUBLE_EQ(speed.ProductSeconds(64), 64);
}

}  // namespace
}  // namespace outrider
