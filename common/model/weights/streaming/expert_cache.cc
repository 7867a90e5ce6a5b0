#include "common/model/weights/streaming/expert_cache.h"

#include "common/base/check.h"

namespace outrider {
namespace {

constexpr double kKeptFromPassToPass = 0.95;
constexpr double kWeightMax = 1e100;

}  // namespace

std::string_view Name(Eviction eviction) {
  switch (eviction) {
    case Eviction::kEdgeMoe:
      return "edgemoe";
    case Eviction::kLru:
      return "lru";
    case Eviction::kLfu:
      return "lfu";
  }
  return "";
}

ExpertCache::ExpertCache(std::span<const Layer> layers, uint32_t place_count, Eviction eviction)
    : eviction_(eviction), layers_(layers.begin(), layers.end()), places_(place_count) {
  uint32_t expert_count = 0;
  for (const Layer& layer : layers_) {
    first_expert_.push_back(expert_count);
    turn_.push_back(turn_count_);
    expert_count += layer.expert_count;
    if (layer.expert_count > 0) ++turn_count_;
  }
  experts_.resize(expert_count);
}

std::optional<uint32_t> ExpertCache::PlaceOf(ExpertKey key) const {
  return At(key).place;
}

bool ExpertCache::Use(ExpertKey key) {
  if (turn_[key.layer] < present_turn_) Forget();
  present_turn_ = turn_[key.layer];
  Expert& expert = At(key);
  ++expert.uses;
  expert.uses_of_late += present_weight_;
  if (!expert.place) {
    ++stats_.misses;
    return false;
  }
  ++stats_.hits;
  places_[*expert.place].used_at = ++clock_;
  return true;
}

// A pass begins: what was used before it counts less.
void ExpertCache::Forget() {
  present_weight_ /= kKeptFromPassToPass;
  if (present_weight_ < kWeightMax) return;
  for (Expert& expert : experts_) expert.uses_of_late /= present_weight_;
  present_weight_ = 1;
}

std::optional<uint32_t> ExpertCache::Take(ExpertKey key) {
  OUTRIDER_CHECK(!At(key).place, "an expert has one place");
  const std::optional<uint32_t> taken = FindVictim();
  if (!taken) return std::nullopt;
  if (places_[*taken].key) ++stats_.evicted;
  Empty(*taken);
  places_[*taken] = {.key = key, .used_at = ++clock_};
  At(key).place = taken;
  ++stats_.taken;
  stats_.taken_bytes += layers_[key.layer].expert_bytes;
  return taken;
}

void ExpertCache::Empty(uint32_t place) {
  Place& emptied = places_[place];
  OUTRIDER_CHECK(emptied.holds == 0, "what is held stays");
  if (emptied.key) At(*emptied.key).place.reset();
  emptied = {};
}

std::optional<uint32_t> ExpertCache::Retire() {
  const std::optional<uint32_t> retired = FindVictim();
  if (!retired) return std::nullopt;
  Empty(*retired);
  Hold(*retired);
  ++retired_count_;
  return retired;
}

void ExpertCache::LetGo(uint32_t place) {
  OUTRIDER_CHECK(places_[place].holds > 0, "what is let go was held");
  --places_[place].holds;
}

// Layers with experts until the pass may come to this one: 1 for the next, S for the present one.
uint32_t ExpertCache::Distance(uint32_t layer) const {
  return (turn_[layer] + turn_count_ - present_turn_ - 1) % turn_count_ + 1;
}

bool ExpertCache::GoesBefore(const Place& a, const Place& b) const {
  const Expert& expert_a = At(*a.key);
  const Expert& expert_b = At(*b.key);
  if (eviction_ == Eviction::kLfu && expert_a.uses != expert_b.uses) {
    return expert_a.uses < expert_b.uses;
  }
  if (eviction_ == Eviction::kEdgeMoe) {
    const uint32_t d_a = Distance(a.key->layer);
    const uint32_t d_b = Distance(b.key->layer);
    const double a_stays = expert_a.uses_of_late * d_b;  // f / d, times both d
    const double b_stays = expert_b.uses_of_late * d_a;
    if (a_stays != b_stays) return a_stays < b_stays;
    if (d_a != d_b) return d_a > d_b;
  }
  return a.used_at < b.used_at;
}

std::optional<uint32_t> ExpertCache::FindVictim() const {
  std::optional<uint32_t> victim;
  for (uint32_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    if (place.holds > 0) continue;
    if (!place.key) return i;
    if (!victim || GoesBefore(place, places_[*victim])) victim = i;
  }
  return victim;
}

}  // namespace outrider
