#include "bench/expert_flash/expert_routes.h"

#include <algorithm>

namespace outrider {
namespace {

// P(expert | an expert of the layer below or of the one below that), summed over those. A dictionary
// of whole sets, as the paper has for one expert a layer, would never meet a set of eight again.
class Profile {
 public:
  Profile(uint32_t layer_count, uint32_t expert_count)
      : expert_count_(expert_count),
        together_(size_t{layer_count} * 2 * expert_count * expert_count),
        uses_(size_t{layer_count} * expert_count) {}

  void Learn(const Route& route) {
    for (uint32_t layer = 0; layer < route.size(); ++layer) {
      for (const uint32_t expert : route[layer]) ++uses_[layer * expert_count_ + expert];
      ForEachBefore(route, layer, [&](uint32_t back, uint32_t before) {
        for (const uint32_t expert : route[layer]) ++Together(layer, back, before)[expert];
      });
    }
  }

  // How many of a layer's experts are among as many that it names.
  uint32_t CountRight(const Route& route, uint32_t layer) const {
    std::vector<float> likely(expert_count_);
    ForEachBefore(route, layer, [&](uint32_t back, uint32_t before) {
      const float uses = static_cast<float>(uses_[(layer - back) * expert_count_ + before]) + 1.0f;
      const std::span<const uint32_t> together = Together(layer, back, before);
      for (uint32_t e = 0; e < expert_count_; ++e) {
        likely[e] += static_cast<float>(together[e]) / uses;
      }
    });
    uint32_t right = 0;
    for (size_t n = 0; n < route[layer].size(); ++n) {
      const auto best = std::ranges::max_element(likely);
      const auto expert = static_cast<uint32_t>(best - likely.begin());
      if (std::ranges::count(route[layer], expert) > 0) ++right;
      *best = -1;
    }
    return right;
  }

 private:
  template <typename Body>
  void ForEachBefore(const Route& route, uint32_t layer, const Body& body) const {
    for (const uint32_t back : {1u, 2u}) {
      if (layer < back) continue;
      for (const uint32_t before : route[layer - back]) body(back, before);
    }
  }
  size_t At(uint32_t layer, uint32_t back, uint32_t before) const {
    return ((size_t{layer} * 2 + back - 1) * expert_count_ + before) * expert_count_;
  }
  std::span<uint32_t> Together(uint32_t layer, uint32_t back, uint32_t before) {
    return std::span(together_).subspan(At(layer, back, before), expert_count_);
  }
  std::span<const uint32_t> Together(uint32_t layer, uint32_t back, uint32_t before) const {
    return std::span(together_).subspan(At(layer, back, before), expert_count_);
  }

  const uint32_t expert_count_;
  std::vector<uint32_t> together_;  // by layer, how far back, expert there, expert
  std::vector<uint32_t> uses_;      // by layer, expert
};

}  // namespace

std::vector<ExpertKey> UsesOf(std::span<const Route> routes) {
  std::vector<ExpertKey> uses;
  for (const Route& route : routes) {
    for (uint32_t layer = 0; layer < route.size(); ++layer) {
      for (const uint32_t expert : route[layer]) uses.push_back({layer, expert});
    }
  }
  return uses;
}

double ProfileShareRight(std::span<const Route> routes, uint32_t expert_count) {
  Profile profile(static_cast<uint32_t>(routes.front().size()), expert_count);
  for (const Route& route : routes.first(routes.size() / 2)) profile.Learn(route);
  uint64_t right = 0, all = 0;
  for (const Route& route : routes.subspan(routes.size() / 2)) {
    for (uint32_t layer = 1; layer < route.size(); ++layer) {
      right += profile.CountRight(route, layer);
      all += route[layer].size();
    }
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

}  // namespace outrider
