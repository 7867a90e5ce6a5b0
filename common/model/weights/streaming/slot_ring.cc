#include "common/model/weights/streaming/slot_ring.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {

SlotRing::SlotRing(std::span<const StreamUnit> units, size_t slot_count)
    : units_(units), slot_count_(slot_count) {
  for (uint32_t u = 0; u < units_.size(); ++u) {
    if (!units_[u].is_pinned) order_.push_back(u);
  }
}

absl::Status SlotRing::TakeMemory() {
  const size_t count = std::min(slot_count_, order_.size());
  if (count == 0) return absl::OkStatus();
  for (uint32_t u = 0; u < units_.size(); ++u) {
    if (u == head() && units_[u].is_pinned) continue;  // stays so
    slot_bytes_ = std::max<size_t>(slot_bytes_, RoundUp(units_[u].slot_bytes(), kSlotAlignment));
  }
  memory_bytes_ = slot_bytes_ * count;
  OUTRIDER_ASSIGN_OR_RETURN(memory_, PageBuffer::CreateLarge(memory_bytes_));
  for (size_t i = 0; i < count; ++i) {
    slots_.emplace_back().filled.memory = memory_.bytes().data() + i * slot_bytes_;
  }
  return absl::OkStatus();
}

// --- reading ahead ---

void SlotRing::ReadAhead() {
  for (uint32_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    if (slot.hand != Hand::kFree) continue;
    const auto count = static_cast<uint32_t>(order_.size());
    const bool is_left_out = order_[next_] == head() && !wants_head_;
    const uint32_t place = is_left_out ? (next_ + 1) % count : next_;
    const uint32_t unit = order_[place];
    if (LentSlot(unit) != nullptr || IsAhead(unit)) return;
    next_ = (place + 1) % count;
    slot.hand = Hand::kFilling;
    slot.is_wanted = true;
    slot.unit = unit;
    slot.asked = RealClock().Now();
    ring_.push_back(i);
    lane_->Begin({.id = i, .reads = units_[unit].reads, .slot = slot.filled.memory});
  }
}

const SlotRing::Slot& SlotRing::OnFilled(uint64_t id, const absl::Status& status) {
  Slot& slot = slots_[id];
  slot.status = status;
  slot.hand = slot.is_wanted ? Hand::kReady : Hand::kFree;
  return slot;
}

uint32_t SlotRing::PlaceOf(uint32_t unit) const {
  return static_cast<uint32_t>(std::ranges::lower_bound(order_, unit) - order_.begin());
}

SlotRing::Slot* SlotRing::LentSlot(uint32_t unit) {
  for (Slot& slot : slots_) {
    if (slot.hand == Hand::kLent && slot.unit == unit) return &slot;
  }
  return nullptr;
}

bool SlotRing::IsAhead(uint32_t unit) const {
  for (const uint32_t slot : ring_) {
    if (slots_[slot].unit == unit) return true;
  }
  return false;
}

void SlotRing::ThrowAwayFront() {
  Slot& slot = slots_[ring_.front()];
  ring_.pop_front();
  ++thrown_away_;
  slot.is_wanted = false;
  if (slot.hand == Hand::kReady) slot.hand = Hand::kFree;
}

// --- lending ---

SlotRing::Slot* SlotRing::Claim(uint32_t unit) {
  wants_head_ |= unit == head();
  if (Slot* const lent = LentSlot(unit); lent != nullptr) return lent;
  const bool is_ahead = IsAhead(unit);
  while (!ring_.empty() && !(is_ahead && slots_[ring_.front()].unit == unit)) ThrowAwayFront();
  if (!is_ahead) next_ = PlaceOf(unit);
  ReadAhead();
  // All slots may be filling with what nobody wants any more.
  return ring_.empty() ? nullptr : &slots_[ring_.front()];
}

absl::StatusOr<const StreamUnit::Filled*> SlotRing::Lend(Slot& slot) {
  if (slot.hand == Hand::kLent) {
    ++slot.lease_count;
    return &slot.filled;
  }
  ring_.pop_front();
  if (!slot.status.ok()) {
    slot.hand = Hand::kFree;
    while (!ring_.empty()) ThrowAwayFront();  // who asks again begins with this one
    next_ = PlaceOf(slot.unit);
    return std::exchange(slot.status, absl::OkStatus());
  }
  slot.hand = Hand::kLent;
  slot.lease_count = 1;
  units_[slot.unit].Finish(slot.filled);
  return &slot.filled;
}

void SlotRing::GiveBack(uint32_t unit) {
  Slot* const slot = LentSlot(unit);
  OUTRIDER_CHECK(slot != nullptr, "what is given back was lent");
  if (--slot->lease_count > 0) return;
  slot->hand = Hand::kFree;
  ReadAhead();
}

// --- growing ---

void SlotRing::Include(uint32_t layer) {
  OUTRIDER_CHECK(slots_.empty() || units_[layer].slot_bytes() <= slot_bytes_,
                 "what is streamed fits into every slot");
  const uint32_t next_unit = order_.empty() ? layer : order_[next_];
  order_.insert(std::ranges::lower_bound(order_, layer), layer);
  next_ = PlaceOf(next_unit);
}

bool SlotRing::AddSlot(std::byte* memory, size_t bytes) {
  if (slots_.size() >= slot_count_ || bytes < slot_bytes_) return false;
  if (slots_.empty()) slot_bytes_ = bytes;
  slots_.emplace_back().filled.memory = memory;
  return true;
}

}  // namespace outrider
