// What a forecast says where the answer is known without one.
#include "client/planner/flash_forecast.h"

#include "gtest/gtest.h"

namespace outrider {
namespace {

// A gigabyte a second, and products that take a tenth of that time a row.
FlashSetting Setting() {
  FlashSetting setting = {.bytes_per_pass = 1'000'000'000,
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

TEST(FlashForecast, WithoutADraftItIsAPassAToken) {
  FlashSetting setting = Setting();
  setting.draft_bytes = 0;
  const FlashForecast forecast = Forecast(setting);
  EXPECT_EQ(forecast.nodes, 0u);
  EXPECT_DOUBLE_EQ(forecast.tokens_per_second, 1.0);
}

TEST(FlashForecast, WhatIsAllInMemoryIsAsFastAsItsProducts) {
  FlashSetting setting = Setting();
  setting.bytes_per_pass = 0;
  const FlashForecast forecast = Forecast(setting);
  EXPECT_DOUBLE_EQ(forecast.alone_seconds, 0.05);
  EXPECT_EQ(forecast.hidden_nodes, 0u);
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
