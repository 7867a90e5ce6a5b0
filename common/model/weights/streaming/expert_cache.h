// Which experts are in memory when there is room for some of them: decisions alone, no bytes.
//
//   cache.Use(key);                                       // a pass has come to it: hit or miss
//   std::optional<uint32_t> place = cache.PlaceOf(key);
//   if (!place) place = cache.Take(key);                  // evicts; the caller reads the expert
//   cache.Hold(*place);  ...  cache.LetGo(*place);        // what is held stays
//
// A pass goes by the layers in a cycle, so whatever was used longest ago is what is needed next, and
// an LRU over all layers hits nothing if it has less room than one token goes through. EdgeMoE's
// rule looks at both sides: an expert is evicted that is seldom used and far from its next turn. Of
// expert j of layer i, used with frequency f, when the pass is at layer I of S that have experts:
//
//   evicted first:  the largest -f / d      d = ((i - I - 1) mod S) + 1 layers until it may be used
//
// The paper's d is 0 where it should be S, for the present layer, whose experts wait a whole cycle
// once they have been used (those in use are held). And f is a frequency of late: a use counts half
// after 14 passes. What is popular is so within a text: with all uses ever, as the paper may mean it,
// the rule loses to an LRU in 7 of 12 replays of recorded routes, with those of late in 2, by 0.4
// points at most (bench/README.md). Of equal ones the one furthest ahead goes first, then the one used
// longest ago. LRU and LFU (of all uses) are here to be compared with.
//
// Cost: Take() looks at every place, about 10 us for 4000 of them, beside a read of milliseconds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/model/weights/weight_store.h"

namespace outrider {

enum class Eviction {
  kEdgeMoe,  // seldom used and far from its turn
  kLru,      // used longest ago
  kLfu,      // least often used
};

std::string_view Name(Eviction eviction);

struct ExpertCacheStats {
  uint64_t hits = 0;  // uses of what had a place, be it still on its way
  uint64_t misses = 0;
  uint64_t taken = 0;  // places, whether for a miss or ahead of a use
  uint64_t taken_bytes = 0;
  uint64_t evicted = 0;  // experts, for those that were given their places
};

class ExpertCache {
 public:
  struct Layer {
    uint32_t expert_count = 0;  // none: a dense layer
    uint64_t expert_bytes = 0;  // of one
  };

  ExpertCache(std::span<const Layer> layers, uint32_t place_count, Eviction eviction);

  uint32_t place_count() const { return static_cast<uint32_t>(places_.size()) - retired_count_; }
  // Empty: it is not in memory.
  std::optional<uint32_t> PlaceOf(ExpertKey key) const;
  // Whose the place is; empty: nobody's.
  std::optional<ExpertKey> KeyIn(uint32_t place) const { return places_[place].key; }

  // A pass has come to this expert. Counts once a pass, however many of its rows want it.
  bool Use(ExpertKey key);

  // A place for a key that has none. Empty: all of them are held.
  std::optional<uint32_t> Take(ExpertKey key);
  // It holds nothing after all: the read failed.
  void Empty(uint32_t place);
  // One place less from now on, the one that would be taken next. Empty: all of them are held.
  std::optional<uint32_t> Retire();

  // As often as it was held it has to be let go.
  void Hold(uint32_t place) { ++places_[place].holds; }
  void LetGo(uint32_t place);

  const ExpertCacheStats& stats() const { return stats_; }

 private:
  struct Place {
    std::optional<ExpertKey> key = {};
    uint32_t holds = 0;
    uint64_t used_at = 0;  // by the clock
  };
  struct Expert {
    std::optional<uint32_t> place = {};
    uint64_t uses = 0;
    double uses_of_late = 0;  // in units of which a present use has present_weight_
  };

  Expert& At(ExpertKey key) { return experts_[first_expert_[key.layer] + key.expert]; }
  const Expert& At(ExpertKey key) const { return experts_[first_expert_[key.layer] + key.expert]; }
  uint32_t Distance(uint32_t layer) const;
  void Forget();
  bool GoesBefore(const Place& a, const Place& b) const;
  std::optional<uint32_t> FindVictim() const;

  const Eviction eviction_;
  std::vector<Layer> layers_;
  std::vector<uint32_t> first_expert_;  // by layer, in experts_
  std::vector<uint32_t> turn_;          // by layer: how many before it have experts
  uint32_t turn_count_ = 0;             // S
  uint32_t present_turn_ = 0;           // I
  uint64_t clock_ = 0;                  // uses and places taken so far
  double present_weight_ = 1;           // of a use: grows from pass to pass, as all before shrink
  std::vector<Expert> experts_;
  std::vector<Place> places_;
  uint32_t retired_count_ = 0;  // of those, which are held for good
  ExpertCacheStats stats_;
};

}  // namespace outrider
