// Who is evicted, by hand and beside a cache that knows the future; and how often guesses come true.
#include "common/model/weights/streaming/expert_cache.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "common/model/weights/streaming/expert_guesses.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/clairvoyant_cache.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kBytes = 1000;

std::vector<ExpertCache::Layer> Layers(uint32_t layer_count, uint32_t expert_count) {
  return {layer_count, {.expert_count = expert_count, .expert_bytes = kBytes}};
}

// A pass comes to it. True: it was there.
bool Ask(ExpertCache& cache, ExpertKey key) {
  const bool is_hit = cache.Use(key);
  if (!is_hit) cache.Take(key);
  return is_hit;
}

void AskTimes(ExpertCache& cache, ExpertKey key, int count) {
  for (int i = 0; i < count; ++i) Ask(cache, key);
}

// In the order in which they go, as more and more others are asked for, at the same layer.
std::vector<uint32_t> LayersInOrderOfEviction(ExpertCache& cache, uint32_t at_layer) {
  std::vector<std::optional<ExpertKey>> before;
  for (uint32_t p = 0; p < cache.place_count(); ++p) before.push_back(cache.KeyIn(p));
  std::vector<uint32_t> order;
  for (uint32_t other = 1; other <= before.size(); ++other) {
    const ExpertKey key = {at_layer, other};
    cache.Use(key);
    const uint32_t place = *cache.Take(key);
    cache.Hold(place);  // so that it is not the next to go
    order.push_back(before[place]->layer);
  }
  return order;
}

// Five layers, the pass is at layer 2: I = 2, S = 5.
//   layer   d = ((i - 2 - 1) mod 5) + 1    f   f / d
//     3     1                              2   2
//     4     2                              5   2.5
//     0     3                              3   1
//     1     4                              8   2
//     2     5                              9   1.8
// So: 0, 2, then of 1 and 3, which are equal, the one further ahead, and 4.
TEST(ExpertCache, EdgeMoeEvictsWhatIsSeldomUsedAndFarFromItsTurn) {
  ExpertCache cache(Layers(5, 8), 5, Eviction::kEdgeMoe);
  AskTimes(cache, {0, 0}, 3);
  AskTimes(cache, {1, 0}, 8);
  AskTimes(cache, {2, 0}, 9);
  AskTimes(cache, {3, 0}, 2);
  AskTimes(cache, {4, 0}, 5);
  EXPECT_THAT(LayersInOrderOfEviction(cache, 2), ElementsAre(0, 2, 1, 3, 4));
}

TEST(ExpertCache, DenseLayersAreNoTurns) {
  std::vector<ExpertCache::Layer> layers = Layers(5, 8);
  layers[1] = layers[3] = {};
  ExpertCache cache(layers, 3, Eviction::kEdgeMoe);
  // At layer 2, S = 3: layer 4 is 1 away, 0 is 2, 2 is 3. Equal f / d would be 2, 4, 6.
  AskTimes(cache, {0, 0}, 3);  // 1.5
  AskTimes(cache, {2, 0}, 5);  // 1.67
  AskTimes(cache, {4, 0}, 2);
  EXPECT_THAT(LayersInOrderOfEviction(cache, 2), ElementsAre(0, 2, 4));
}

// Many uses, and then none for a hundred passes, are less than some of late.
TEST(ExpertCache, EdgeMoeForgetsWhatWasPopularOnce) {
  for (const Eviction eviction : {Eviction::kEdgeMoe, Eviction::kLfu}) {
    ExpertCache cache(Layers(2, 8), 2, eviction);
    AskTimes(cache, {0, 0}, 300);
    Ask(cache, {0, 1});
    for (int pass = 0; pass < 6000; ++pass) {  // long enough for weights to begin anew
      cache.Use({1, 0});
      cache.Use({0, 1});
      if (pass < 5900) cache.Use({0, 0});
    }
    cache.Use({0, 2});
    cache.Take({0, 2});
    EXPECT_EQ(cache.PlaceOf({0, 0}).has_value(), eviction == Eviction::kLfu) << Name(eviction);
  }
}

TEST(ExpertCache, LruAndLfuDoWhatTheySay) {
  for (const Eviction eviction : {Eviction::kLru, Eviction::kLfu}) {
    ExpertCache cache(Layers(4, 8), 3, eviction);
    AskTimes(cache, {2, 0}, 3);
    AskTimes(cache, {0, 0}, 1);
    AskTimes(cache, {1, 0}, 2);
    if (eviction == Eviction::kLru) {
      EXPECT_THAT(LayersInOrderOfEviction(cache, 3), ElementsAre(2, 0, 1));
    } else {
      EXPECT_THAT(LayersInOrderOfEviction(cache, 3), ElementsAre(0, 1, 2));
    }
  }
}

TEST(ExpertCache, WhatIsHeldStaysAndWhatFailedIsGone) {
  ExpertCache cache(Layers(1, 8), 2, Eviction::kLru);
  for (const uint32_t expert : {0u, 1u}) {
    Ask(cache, {0, expert});
    cache.Hold(*cache.PlaceOf({0, expert}));
  }
  EXPECT_EQ(cache.Take({0, 2}), std::nullopt);
  const uint32_t place = *cache.PlaceOf({0, 1});
  cache.LetGo(place);
  EXPECT_EQ(cache.Take({0, 2}), place);
  EXPECT_EQ(cache.PlaceOf({0, 1}), std::nullopt);
  cache.Empty(place);
  EXPECT_EQ(cache.PlaceOf({0, 2}), std::nullopt);
  EXPECT_EQ(cache.Take({0, 3}), place);
}

TEST(ExpertCache, CountsHitsMissesAndBytes) {
  ExpertCache cache(Layers(2, 4), 2, Eviction::kLru);
  for (int pass = 0; pass < 3; ++pass) {
    for (const uint32_t layer : {0u, 1u}) Ask(cache, {layer, 0});
  }
  Ask(cache, {0, 3});
  EXPECT_EQ(cache.stats().hits, 4u);
  EXPECT_EQ(cache.stats().misses, 3u);
  EXPECT_EQ(cache.stats().taken, 3u);
  EXPECT_EQ(cache.stats().evicted, 1u);
  EXPECT_EQ(cache.stats().taken_bytes, 3 * kBytes);
}

// Passes by the layers in their order, with experts some of which are far more popular.
std::vector<ExpertKey> SkewedUses(uint32_t layers, uint32_t experts, uint32_t passes) {
  std::mt19937 random(7);
  std::vector<ExpertKey> uses;
  for (uint32_t pass = 0; pass < passes; ++pass) {
    for (uint32_t layer = 0; layer < layers; ++layer) {
      const uint32_t expert = std::min(random() % experts, random() % experts);
      uses.push_back({layer, (expert + layer) % experts});
    }
  }
  return uses;
}

uint64_t MissesOf(const std::vector<ExpertKey>& uses, const std::vector<ExpertCache::Layer>& layers,
                  uint32_t place_count, Eviction eviction) {
  ExpertCache cache(layers, place_count, eviction);
  for (const ExpertKey& key : uses) Ask(cache, key);
  return cache.stats().misses;
}

TEST(ExpertCache, NobodyBeatsTheOneThatKnowsTheFuture) {
  const std::vector<ExpertKey> uses = SkewedUses(8, 8, 300);
  for (const uint32_t places : {1u, 4u, 8u, 16u, 32u, 63u, 64u}) {
    const uint64_t least = ClairvoyantMisses(uses, places);
    for (const Eviction eviction : {Eviction::kEdgeMoe, Eviction::kLru, Eviction::kLfu}) {
      EXPECT_GE(MissesOf(uses, Layers(8, 8), places, eviction), least) << places << Name(eviction);
    }
    if (places == 64) {
      EXPECT_EQ(MissesOf(uses, Layers(8, 8), places, Eviction::kEdgeMoe), least);
    }
  }
}

// Seven layers in a cycle and room for six: an LRU hits nothing, which is why it is not the default.
TEST(ExpertCache, ACycleLargerThanTheRoomIsNothingForAnLru) {
  std::vector<ExpertKey> uses;
  for (uint32_t i = 0; i < 70; ++i) uses.push_back({i % 7, 0});
  EXPECT_EQ(MissesOf(uses, Layers(7, 1), 6, Eviction::kLru), 70u);
  // One layer's place is taken by turns: what a clairvoyant has too, but for its first choices.
  const uint64_t least = ClairvoyantMisses(uses, 6);
  EXPECT_LE(MissesOf(uses, Layers(7, 1), 6, Eviction::kEdgeMoe), least + 2);
}

TEST(ClairvoyantCache, KeepsWhatIsNeededSoonest) {
  const ExpertKey a = {0, 0}, b = {0, 1}, c = {0, 2};
  EXPECT_EQ(ClairvoyantMisses(std::vector{a, b, c, a, b, c, a, b, c}, 1), 7u);
  EXPECT_EQ(ClairvoyantMisses(std::vector{a, b, c, a, b, c, a, b, c}, 2), 5u);
  EXPECT_EQ(ClairvoyantMisses(std::vector{a, b, c, a, b, c, a, b, c}, 3), 3u);
}

TEST(ExpertGuesses, AreActedUponWhereTheyComeTrueOftenEnough) {
  ExpertGuesses guesses(2);
  const std::vector<WeightKey> chosen = {ExpertKey{0, 1}, ExpertKey{0, 3}};
  EXPECT_FALSE(guesses.IsWorthReading(0));
  for (int pass = 0; pass < 60; ++pass) {
    EXPECT_TRUE(guesses.IsWorthAsking(0));
    guesses.Begin();
    guesses.Add({0, 3});
    guesses.Judge(chosen);
  }
  EXPECT_TRUE(guesses.IsWorthReading(0));
  EXPECT_FALSE(guesses.IsWorthReading(1));
  for (int pass = 0; pass < 30; ++pass) {
    guesses.Begin();
    guesses.Add({0, 2});
    guesses.Judge(chosen);
  }
  EXPECT_FALSE(guesses.IsWorthReading(0));
  int asked = 0;
  for (int pass = 0; pass < 80; ++pass) asked += guesses.IsWorthAsking(0) ? 1 : 0;
  EXPECT_EQ(asked, 10);
  EXPECT_EQ(guesses.stats().right, 60u);
  EXPECT_EQ(guesses.stats().wrong, 30u);
}

}  // namespace
}  // namespace outrider
