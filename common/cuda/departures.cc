#include "common/cuda/departures.h"

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<uint32_t> Departures::NextSlot(uint32_t layer) {
  if (taken_count_ - seen_count_ == slot_count()) OUTRIDER_RETURN_IF_ERROR(SeeOldest());
  const uint32_t slot = taken_count_++ % slot_count();
  layers_[slot] = layer;
  return slot;
}

absl::Status Departures::SeeAll() {
  while (seen_count_ < taken_count_) OUTRIDER_RETURN_IF_ERROR(SeeOldest());
  return absl::OkStatus();
}

absl::Status Departures::SeeOldest() {
  const uint32_t slot = seen_count_ % slot_count();
  const absl::Status status = ends_.await(slot);
  if (!status.ok()) {
    seen_count_ = taken_count_;
    return status;
  }
  ends_.see(layers_[slot], slot);
  ++seen_count_;
  return absl::OkStatus();
}

}  // namespace outrider
