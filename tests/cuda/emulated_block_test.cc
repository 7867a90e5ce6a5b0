// The watch that the emulation keeps over shared memory: what a GPU would do silently wrong is
// stopped here.
#include "common/cuda/block/emulated_block.h"

#include "gtest/gtest.h"

namespace outrider::gpu {
namespace {

constexpr uint32_t kThreads = 64;

EmulatedBlock MakeBlock() {
  return EmulatedBlock(0, 0, kThreads, 1024);
}

TEST(EmulatedBlock, WhatIsWrittenIsReadAfterASync) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  block.Each([&](uint32_t t) { shared.Set(t, t, 3 * t); });
  block.Sync();
  block.Each(
      [&](uint32_t t) { EXPECT_EQ(shared.Get(t, kThreads - 1 - t), 3 * (kThreads - 1 - t)); });
}

TEST(EmulatedBlockDeathTest, ReadsOfWhatOthersWroteWaitForASync) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  block.Each([&](uint32_t t) { shared.Set(t, t, t); });
  EXPECT_DEATH(block.Each([&](uint32_t t) { shared.Get(t, (t + 1) % kThreads); }), "after a Sync");
}

TEST(EmulatedBlockDeathTest, WritesWaitForThoseWhoRead) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  block.Each([&](uint32_t t) { shared.Set(t, t, t); });
  block.Sync();
  block.Each([&](uint32_t t) { shared.Get(t, 0); });
  EXPECT_DEATH(block.Each([&](uint32_t t) { shared.Set(t, t, 0); }), "after a Sync");
}

TEST(EmulatedBlockDeathTest, TwoDoNotWriteToOnePlace) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  EXPECT_DEATH(block.Each([&](uint32_t t) { shared.Set(t, t / 2, t); }), "two threads");
}

TEST(EmulatedBlockDeathTest, NobodyReadsWhatNobodyWroteNorPastAnEnd) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  EXPECT_DEATH(shared.Get(0, 0), "before it is read");
  EXPECT_DEATH(shared.Get(0, kThreads), "as far as it goes");
}

TEST(EmulatedBlockDeathTest, WhoMovesOnHasAllSharedMemoryAndNothingInIt) {
  EmulatedBlock block = MakeBlock();
  const auto before = block.Share<uint32_t>(256);
  block.Each([&](uint32_t t) { before.Set(t, t, t); });
  block.MoveTo(3, 5);
  EXPECT_EQ(block.x(), 3u);
  EXPECT_EQ(block.y(), 5u);
  block.Each([&](uint32_t t) { EXPECT_EQ(before.Get(t, kThreads - 1 - t), kThreads - 1 - t); });
  const auto shared = block.Share<uint32_t>(256);
  EXPECT_DEATH(shared.Get(0, 0), "before it is read");
}

TEST(EmulatedBlockDeathTest, ABodySaysHowMuchItShares) {
  EmulatedBlock block = MakeBlock();
  EXPECT_DEATH(block.Share<uint32_t>(257), "the shared memory it uses");
}

TEST(EmulatedBlock, PartnersShareAWarpAndSeeWhatTheOtherHas) {
  EmulatedBlock block = MakeBlock();
  auto mine = block.Private<Pair<uint32_t>>();
  block.Each([&](uint32_t t) { mine[t] = {t, 100 + t}; });
  for (const uint32_t by : {1u, 5u, 31u}) {
    auto theirs = block.OfPartners(mine, by);
    block.Each([&](uint32_t t) {
      const uint32_t partner = t / kWarpLanes * kWarpLanes + (LaneOf(t) ^ by);
      EXPECT_EQ(theirs[t].first, partner);
      EXPECT_EQ(theirs[t].second, 100 + partner);
      EXPECT_EQ(mine[t].first, t);
    });
  }
}

TEST(EmulatedBlockDeathTest, NobodyHasAPartnerInAnotherWarp) {
  EmulatedBlock block = MakeBlock();
  auto mine = block.Private<uint32_t>();
  EXPECT_DEATH(block.OfPartners(mine, kWarpLanes), "share a warp");
}

// Groups of 32, of which there are two.
TEST(EmulatedBlock, WhatAGroupHasWrittenItReadsWhenItHasWaited) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  for (uint32_t round = 0; round < 2; ++round) {
    block.Each([&](uint32_t t) { shared.Set(t, t, t + round); });
    block.SyncGroups<32>();
    block.Each([&](uint32_t t) { EXPECT_EQ(shared.Get(t, t ^ 31), (t ^ 31) + round); });
    block.SyncGroups<32>();
  }
}

TEST(EmulatedBlockDeathTest, GroupsDoNotWaitForOneAnother) {
  EmulatedBlock block = MakeBlock();
  const auto shared = block.Share<uint32_t>(kThreads);
  block.Each([&](uint32_t t) { shared.Set(t, t, t); });
  EXPECT_DEATH(block.Each([&](uint32_t t) { shared.Get(t, t ^ 1); }), "after a Sync");
  block.SyncGroups<32>();
  EXPECT_DEATH(block.Each([&](uint32_t t) { shared.Get(t, t ^ 32); }), "after a Sync");
  block.Each([&](uint32_t t) { shared.Get(t, t ^ 1); });
  EXPECT_DEATH(block.Each([&](uint32_t t) { shared.Set(t, t, 0); }), "after a Sync");
  EXPECT_DEATH(block.SyncGroups<64>(), "groups remain");
}

// Two batches of a quad each, by every lane of a block of one warp.
TEST(EmulatedBlockDeathTest, CopiesAreThereWhenTheyHaveBeenAwaited) {
  EmulatedBlock block(0, 0, kWarpLanes, 1024);
  const auto shared = block.Share<uint32_t>(256);
  alignas(16) uint32_t values[128];
  for (uint32_t i = 0; i < 128; ++i) values[i] = 7 * i;
  for (uint32_t batch = 0; batch < 2; ++batch) {
    block.Each([&](uint32_t t) {
      shared.CopyFour(t, 128 * batch + 4 * t, values + 4 * t, batch == 0 || t % 2 == 0);
    });
    block.CloseBatch();
  }
  EXPECT_DEATH(shared.Get(0, 0), "when it is there");
  EXPECT_DEATH(shared.Set(0, 0, 1), "a copy is on its way");
  block.AwaitBatches<1>();
  EXPECT_EQ(shared.Get(1, 5), 35u);
  EXPECT_DEATH(shared.Get(0, 5), "after a Sync");
  EXPECT_DEATH(shared.Get(0, 128), "when it is there");
  block.AwaitBatches<0>();
  block.Sync();
  EXPECT_EQ(shared.GetFour(5, 128).at[3], 21u);
  EXPECT_EQ(shared.Get(5, 128 + 7), 0u);  // where nothing was to be copied
}

TEST(EmulatedBlock, TheLastBlockToComeIsToldSo) {
  uint32_t counter = 0;
  for (uint32_t round = 0; round < 2; ++round) {
    for (uint32_t x = 0; x < 4; ++x) {
      EmulatedBlock block(x, 0, kThreads, 0);
      EXPECT_EQ(block.IsLastToCome(&counter, 4), x == 3);
    }
    EXPECT_EQ(counter, 0u);
  }
}

// Sixteen inputs of sixteen outputs, a line each; and who gets what, by the drawing.
TEST(EmulatedBlock, TransposedHalvesAreFragments) {
  EmulatedBlock block(0, 0, kWarpLanes, 512);
  const auto shared = block.Share<uint32_t>(128);
  auto weights = block.Private<WeightFragment>();
  block.Each([&](uint32_t t) {
    for (uint32_t i = 4 * t; i < 4 * t + 4; ++i) shared.Set(t, i, 2 * i | (2 * i + 1) << 16);
  });
  block.Sync();
  const auto line = [](uint32_t lane) { return lane / 16 * 8 + lane % 8; };
  block.ReadTransposed(
      shared, [&](uint32_t t) { return 8 * line(t) + 4 * (t / 8 % 2); },
      [&](uint32_t t) { return &weights[t]; });
  block.Each([&](uint32_t t) {
    for (uint32_t d = 0; d < 4; ++d) {
      const uint32_t output = GroupOf(t) + 8 * (d % 2), input = 8 * (d / 2) + 2 * PlaceOf(t);
      EXPECT_EQ(weights[t].dwords[d], (16 * input + output) | (16 * (input + 1) + output) << 16);
    }
  });
}

// The drawing in matrix_fragments.h, against the product it stands for.
TEST(EmulatedBlock, TilesAreMatrices) {
  EmulatedBlock block(0, 0, kWarpLanes, 0);
  auto weights = block.Private<WeightFragment>();
  auto rows = block.Private<RowFragment>();
  auto sums = block.Private<SumFragment>();
  const auto weight = [](uint32_t n, uint32_t k) { return static_cast<int8_t>(n * 37 + k * 11); };
  const auto input = [](uint32_t r, uint32_t k) { return static_cast<int8_t>(r * 53 - k * 7); };
  block.Each([&](uint32_t t) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t k = 4 * PlaceOf(t) + i;
      for (uint32_t d = 0; d < 4; ++d) {
        const int8_t byte = weight(GroupOf(t) + d % 2 * 8, k + d / 2 * 16);
        weights[t].dwords[d] |= uint32_t{static_cast<uint8_t>(byte)} << 8 * i;
      }
      for (uint32_t d = 0; d < 2; ++d) {
        const int8_t byte = input(GroupOf(t), k + d * 16);
        rows[t].dwords[d] |= uint32_t{static_cast<uint8_t>(byte)} << 8 * i;
      }
    }
  });
  block.MultiplyTilesFrom<1>([&](uint32_t t) { return IntTile{&weights[t], &rows[t], &sums[t]}; });
  block.Each([&](uint32_t t) {
    for (uint32_t i = 0; i < 4; ++i) {
      int32_t sum = 1;
      for (uint32_t k = 0; k < kTileInputs; ++k) {
        sum += weight(OutputOfSum(t, i), k) * input(RowOfSum(t, i), k);
      }
      EXPECT_EQ(sums[t].sums[i], sum);
    }
  });
}

}  // namespace
}  // namespace outrider::gpu
