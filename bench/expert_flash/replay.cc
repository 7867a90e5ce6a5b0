#include "bench/expert_flash/replay.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/expert_flash/expert_routes.h"
#include "common/base/status.h"
#include "common/model/weights/streaming/expert_cache.h"
#include "tests/model/clairvoyant_cache.h"

namespace outrider {
namespace {

struct Trace {
  uint32_t layer_count = 0;
  uint32_t expert_count = 0;
  std::vector<Route> routes;  // of tokens
};

absl::StatusOr<uint32_t> NumberAfter(const std::string& line, std::string_view key,
                                     const std::string& path) {
  uint32_t number = 0;
  const size_t at = line.find(key);
  if (at == std::string::npos ||
      std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number).ec !=
          std::errc()) {
    return InvalidArgument(path, ": is no route_trace: there is no ", key, " in its second line");
  }
  return number;
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::getline(file, line);
  Trace trace;
  OUTRIDER_ASSIGN_OR_RETURN(trace.layer_count, NumberAfter(line, "n_layer=", path));
  OUTRIDER_ASSIGN_OR_RETURN(trace.expert_count, NumberAfter(line, "n_expert=", path));
  std::map<std::tuple<int, int, int>, Route> by_token;  // a prompt's lie layer by layer
  while (std::getline(file, line)) {
    int turn = 0, phase = 0, step = 0, slot = 0;
    uint32_t layer = 0, expert = 0;
    if (std::sscanf(line.c_str(), "%d,%d,%d,%u,%d,%u", &turn, &phase, &step, &layer, &slot,
                    &expert) != 6) {
      continue;  // comments, and the names of the columns
    }
    if (layer >= trace.layer_count || expert >= trace.expert_count) {
      return InvalidArgument(path, ": there is no expert ", expert, " of layer ", layer);
    }
    Route& route = by_token[{turn, phase, step}];
    route.resize(trace.layer_count);
    route[layer].push_back(expert);
  }
  for (auto& [token, route] : by_token) trace.routes.push_back(std::move(route));
  if (trace.routes.size() < 2) return InvalidArgument(path, ": has no routes");
  return trace;
}

}  // namespace

// The first half of the tokens fill the cache.
absl::Status ReplayRoutes(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const Trace trace, ReadTrace(path));
  const std::span<const Route> routes(trace.routes);
  const std::vector<ExpertKey> uses = UsesOf(routes);
  const size_t first = UsesOf(routes.first(routes.size() / 2)).size();
  const double counted = static_cast<double>(uses.size() - first);
  std::printf(
      "%s: %zu tokens, %u layers, %u experts, %.1f a layer\n\n", path.c_str(), routes.size(),
      trace.layer_count, trace.expert_count,
      static_cast<double>(uses.size()) / static_cast<double>(routes.size()) / trace.layer_count);
  std::printf(
      "| share in memory | edgemoe hits | lru | lfu | clairvoyant | misses of edgemoe / "
      "clairvoyant | lru / edgemoe |\n|---|---|---|---|---|---|---|\n");
  const uint32_t all = trace.layer_count * trace.expert_count;
  const std::vector<ExpertCache::Layer> layers(
      trace.layer_count, {.expert_count = trace.expert_count, .expert_bytes = 1});
  for (const uint32_t percent : {5u, 10u, 25u, 50u, 75u}) {
    const uint32_t places = all * percent / 100;
    std::vector<double> misses;
    for (const Eviction eviction : {Eviction::kEdgeMoe, Eviction::kLru, Eviction::kLfu}) {
      ExpertCache cache(layers, places, eviction);
      uint64_t missed = 0;
      for (size_t i = 0; i < uses.size(); ++i) {
        if (cache.Use(uses[i])) continue;
        cache.Take(uses[i]);
        if (i >= first) ++missed;
      }
      misses.push_back(static_cast<double>(missed));
    }
    misses.push_back(static_cast<double>(ClairvoyantMisses(uses, places, first)));
    std::printf("| %u %% |", percent);
    for (const double missed : misses) std::printf(" %.1f |", 100 * (1 - missed / counted));
    std::printf(" %.2f | %.2f |\n", misses[0] / misses[3], misses[1] / misses[0]);
  }
  std::printf("\nthe profile names %.1f %% of a layer's experts\n\n",
              100 * ProfileShareRight(routes, trace.expert_count));
  return absl::OkStatus();
}

}  // namespace outrider
