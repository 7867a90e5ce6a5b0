// The experts of a model of which some are in memory: which of them lie where, which are on their way
// from flash, and what is read next. The half of StreamingWeights that goes by key; the other half
// goes by the order of layers.
//
//   places.Want(keys);                       // the router has chosen: reads of those not here begin
//   places.Guess(keys_of_the_next_layer);    // and of those it may choose next, while flash is idle
//   Place* place = places.Claim(key);        // filling or ready; null: all are filling, come again
//   ... until place->hand is kReady ...
//   places.Lend(*place)  ...  places.GiveBack(key)
//
// A guess is worth a read if guesses about that layer come true often enough; those that are not read
// are counted all the same. It never makes anybody wait: it is read when nothing that is wanted is
// still to be read (and by the lane after all that will be needed), two at a time, and it has a
// quarter of the places at the most, from which nothing that is held was taken.
//
// Threads: one at a time: whoever holds its store's lock, on the thread that computes or the lane's.
// Memory:  place_count places as large as the largest expert, taken by TakeMemory(); and what it
//          takes to know every expert's reads, about a kilobyte each. Their biases, small
//          beside them, are read by Plan() and stay.
// Errors:  of a read are told to who was to be lent that expert, and the next one tries again. What
//          was only guessed fails in silence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/direct_file.h"
#include "common/base/monotonic_time.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/expert_cache.h"
#include "common/model/weights/streaming/expert_guesses.h"
#include "common/model/weights/streaming/flash_lane.h"
#include "common/model/weights/streaming/flash_reads.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

struct ExpertStats {
  ExpertCacheStats cache;
  ExpertGuessStats guesses;
  uint64_t read_ahead = 0;        // experts, because they were guessed
  uint64_t read_ahead_right = 0;  // and chosen then
};

class ExpertPlaces {
 public:
  struct Place {
    std::byte* memory = nullptr;
    Hand hand = Hand::kFree;  // free, filling or ready
    absl::Status status = {};
    FeedForwardWeights weights = {};  // views of the memory, of what is ready
    Urgency urgency = Urgency::kNow;  // of what is filling
    MonotonicTime asked = {};         // when that began to be, or waited for it
    bool is_wanted = false;           // by the layer that is computed, and not lent yet
    bool is_read_for_it = false;      // what fills it was begun since then, and not before
    uint32_t lease_count = 0;
  };

  // Of a model that has experts. Whatever `id_of_place_0` and so many numbers after it mean to the
  // lane, they are these fills.
  static absl::StatusOr<std::unique_ptr<ExpertPlaces>> Plan(
      const ModelFile& model, const ModelSpec& spec, std::span<const DirectFile* const> files,
      const std::string& path, uint32_t place_count, Eviction eviction);
  static uint64_t PlaceBytes(const ModelFile& model, const ModelSpec& spec);
  // So many places, and reads do not wait for what is computed.
  static uint32_t PlacesLeast(const ModelSpec& spec);

  absl::Status TakeMemory();
  uint64_t memory_bytes() const { return memory_.bytes().size(); }
  uint64_t staging_bytes() const { return staging_bytes_; }
  // From now on it may be used. The lane tells of a place's fill by `first_id` + its number.
  void ReadBy(FlashLane& lane, uint64_t first_id);

  // Of one layer.
  void Want(std::span<const WeightKey> keys);
  // Of the next one, the likeliest first.
  void Guess(std::span<const WeightKey> keys);

  bool IsWorthGuessing(uint32_t layer) { return guesses_.IsWorthAsking(layer); }
  bool IsAtHand(ExpertKey key) const;
  uint32_t leases_max() const;
  Place* Claim(ExpertKey key);
  absl::StatusOr<const FeedForwardWeights*> Lend(ExpertKey key, Place& place);
  void GiveBack(ExpertKey key);

  // Between two layers: nothing is wanted or guessed any more. Until nothing is on its way either no place
  // can be given up.
  void Settle();
  bool is_filling() const { return filling_now_ + filling_guessed_ > 0; }
  // One place less from now on: how many bytes are given back. Nothing: there are no more than
  // PlacesLeast().
  std::optional<size_t> GiveUpPlace();

  // What has been read into a place.
  struct Fill {
    ExpertKey key;
    uint64_t bytes;
    MonotonicTime asked;
    Urgency urgency;
  };
  // The lane's word.
  Fill OnFilled(uint64_t id, const absl::Status& status);

  ExpertStats stats() const;

 private:
  struct Expert {
    LoadPlan<FeedForwardWeights> plan;
    std::vector<FlashRead> reads;
    std::vector<std::byte> biases;  // in the order of the plan's vectors
  };

  static absl::StatusOr<Expert> PlanExpert(const ModelFile& model,
                                           LoadPlan<FeedForwardWeights> plan,
                                           std::span<const DirectFile* const> files,
                                           const std::string& path);

  ExpertPlaces(std::vector<std::vector<Expert>> experts, std::span<const ExpertCache::Layer> layers,
               uint32_t place_count, uint32_t places_least, Eviction eviction);

  const Expert& ExpertOf(ExpertKey key) const { return experts_[key.layer][key.expert]; }
  std::optional<uint32_t> Begin(ExpertKey key, Urgency urgency);
  void Read(uint32_t place, Urgency urgency);
  void BeginWanted();
  void BeginGuessed();
  void MarkWanted(uint32_t place);
  void UnmarkWanted(uint32_t place);
  void UnmarkAllWanted();
  void ForgetWanted();
  void ForgetGuessed();
  void Judge(std::span<const WeightKey> chosen);
  bool IsWanted(ExpertKey key) const;
  uint32_t guessed_places_max() const { return cache_.place_count() / 4; }

  // Constant after ReadBy().
  const std::vector<std::vector<Expert>> experts_;  // by layer
  uint64_t place_bytes_ = 0;
  uint64_t staging_bytes_ = 0;
  const uint32_t places_least_;
  PageBuffer memory_;
  FlashLane* lane_ = nullptr;
  uint64_t first_id_ = 0;

  ExpertCache cache_;
  ExpertGuesses guesses_;
  std::vector<Place> places_;
  uint32_t filling_now_ = 0;
  uint32_t filling_guessed_ = 0;

  std::vector<ExpertKey> wanted_;        // by the layer that is computed, in order
  size_t next_wanted_ = 0;               // the first that may have no place
  std::vector<uint32_t> wanted_places_;  // those that were marked
  std::vector<ExpertKey> to_guess_;      // the likeliest first, still to be read
  size_t next_to_guess_ = 0;
  std::vector<uint32_t> guessed_places_;  // likewise

  uint64_t read_ahead_ = 0;
  uint64_t read_ahead_right_ = 0;
};

}  // namespace outrider
