// The order in which states of a run's rows come to the host from a device that computes on: that
// of the layers they are from, each as soon as it has arrived.
//
//   departures.Begin();
//   for each watched layer, once the device has been asked for it:
//     OUTRIDER_ASSIGN_OR_RETURN(const uint32_t slot, departures.NextSlot(layer));
//     ... the states are asked to depart, by way of that slot's memory
//   ... the layers that are left are asked for
//   OUTRIDER_RETURN_IF_ERROR(departures.SeeAll());
//
// A slot is in one of three hands:
//
//     free --NextSlot()--> on its way --await()--> here, and see() is called --> free
//
// Where more layers are watched than there are slots, the oldest states are awaited and seen before
// their slot is given again: the host asks for no more of the run until then, and all else is as
// before.
//
// Memory:  a number for each slot.
// Threads: one call at a time.
// Errors:  await()'s. What has not been seen then never is.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace outrider {

class Departures {
 public:
  struct Ends {
    // Until what left by a slot is here.
    std::function<absl::Status(uint32_t slot)> await;
    std::function<void(uint32_t layer, uint32_t slot)> see;
  };

  explicit Departures(Ends ends) : ends_(std::move(ends)), layers_(1) {}

  // Between runs; at least one, which there is at first.
  void SetSlotCount(uint32_t count) { layers_.resize(count); }
  uint32_t slot_count() const { return static_cast<uint32_t>(layers_.size()); }

  // A run. Nothing is on its way.
  void Begin() { taken_count_ = seen_count_ = 0; }
  absl::StatusOr<uint32_t> NextSlot(uint32_t layer);
  absl::Status SeeAll();

 private:
  absl::Status SeeOldest();

  const Ends ends_;
  std::vector<uint32_t> layers_;  // by slot
  // Of the run: slot i % slot_count() is the i-th one's.
  uint32_t taken_count_ = 0;
  uint32_t seen_count_ = 0;
};

}  // namespace outrider
