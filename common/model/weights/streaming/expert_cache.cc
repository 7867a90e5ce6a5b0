#include "common/model/weights/streaming/expert_cache.h"

#include "common/base/check.h"

namespace outrider {

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
  present_turn_ = turn_[key.layer];
  Expert& expert = At(key);
  ++expert.uses;
  if (!expert.place) {
    ++stats_.misses;
    return false;
  }
  ++stats_.hits;
  places_[*expert.place].used_at = ++clock_;
  return true;
}

std::optional<uint32_t> ExpertCache::Take(ExpertKey key) {
  OUTRIDER_CHECK(!At(key).place, "an expert has one place");
  const std::optional<uint32_t> taken = FindVictim();
  if (!taken) return std::nullopt;
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

void ExpertCache::LetGo(uint32_t place) {
  OUTRIDER_CHECK(places_[place].holds > 0, "what is let go was held");
  --places_[place].holds;
}

// Layers with experts until the pass may come to this one: 1 for the next, S for the present one.
uint32_t ExpertCache::Distance(uint32_t layer) const {
  return (turn_[layer] + turn_count_ - present_turn_ - 1) % turn_count_ + 1;
}

bool ExpertCache::GoesBefore(const Place& a, const Place& b) const {
  const uint64_t f_a = At(*a.key).uses;
  const uint64_t f_b = At(*b.key).uses;
  if (eviction_ == Eviction::kLfu && f_a != f_b) return f_a < f_b;
  if (eviction_ == Eviction::kEdgeMoe) {
    const uint64_t d_a = Distance(a.key->layer);
    const uint64_t d_b = Distance(b.key->layer);
    if (f_a * d_b != f_b * d_a) return f_a * d_b < f_b * d_a;  // f / d, exactly
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
