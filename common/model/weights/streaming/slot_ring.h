// Slots of memory through which what is streamed comes, in the order of a pass: layers that are not pinned
// and the head, over and over, read ahead for as long as there are free slots. The half of StreamingWeights
// that goes by the order of layers; the other half goes by key (expert_places.h).
//
//   ring.ReadAhead();
//   Slot* slot = ring.Claim(unit);          // filling, ready or lent; null: come again when one has filled
//   ... until slot->hand is not kFilling ...
//   ring.Lend(*slot)  ...  ring.GiveBack(unit)
//
// A slot is in one of four hands:
//
//     free --lane--> filling --> ready --Lend()--> lent --GiveBack()--> free
//
// Whoever claims another unit than the next has what was read ahead thrown away up to there.
//
// Threads: one at a time: whoever holds its store's lock, on the thread that computes or the lane's.
// Memory:  memory_bytes(), taken by TakeMemory(): slots as large as the largest unit that is streamed, or
//          may be when layers are given up: those of one file differ where its types are mixed.
// Errors:  of a read are told to who was to be lent that unit, and the next one tries again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/monotonic_time.h"
#include "common/model/weights/streaming/flash_lane.h"
#include "common/model/weights/streaming/stream_unit.h"

namespace outrider {

class SlotRing {
 public:
  struct Slot {
    StreamUnit::Filled filled;
    MonotonicTime asked = {};  // when it began to be filled, or waited for that
    Hand hand = Hand::kFree;
    bool is_wanted = true;  // false: is free as soon as it is filled
    uint32_t unit = 0;
    uint32_t lease_count = 0;
    absl::Status status = {};
  };

  // `units` are the layers, then the head; they outlive it. It has a slot for each of those that are
  // streamed, up to `slot_count`.
  SlotRing(std::span<const StreamUnit> units, size_t slot_count);

  absl::Status TakeMemory();
  uint64_t memory_bytes() const { return memory_bytes_; }
  // From now on it may be used. The lane tells of a slot's fill by its number.
  void ReadBy(FlashLane& lane) { lane_ = &lane; }

  // The head is not read ahead for a run that wants none.
  void BeginRun(bool wants_head) { wants_head_ = wants_head; }
  // Free slots get what comes next, as long as that is not in another one.
  void ReadAhead();
  // The slot that a unit is lent in, or else is, or will be, read into, which is the next then.
  Slot* Claim(uint32_t unit);
  // A claimed one that is not filling any more.
  absl::StatusOr<const StreamUnit::Filled*> Lend(Slot& slot);
  void GiveBack(uint32_t unit);

  // The lane's word.
  const Slot& OnFilled(uint64_t id, const absl::Status& status);

  // A layer is pinned no longer: of those that still were the largest, which have to fit into the slot
  // that it may become.
  void Include(uint32_t layer);
  // What that layer lay in becomes a slot. False: there are as many as were asked for, or some unit
  // would not fit.
  bool AddSlot(std::byte* memory, size_t bytes);

  uint64_t thrown_away() const { return thrown_away_; }  // units that were read ahead for nothing

 private:
  uint32_t head() const { return static_cast<uint32_t>(units_.size() - 1); }
  uint32_t PlaceOf(uint32_t unit) const;
  Slot* LentSlot(uint32_t unit);
  bool IsAhead(uint32_t unit) const;
  void ThrowAwayFront();

  const std::span<const StreamUnit> units_;
  const size_t slot_count_;      // as it was asked for
  std::vector<uint32_t> order_;  // streamed units, in the order of a pass: rising
  PageBuffer memory_;
  uint64_t memory_bytes_ = 0;
  size_t slot_bytes_ = 0;  // of the smallest slot; 0: there is none
  FlashLane* lane_ = nullptr;

  std::deque<Slot> slots_;     // addresses stay
  std::deque<uint32_t> ring_;  // slots filling or ready, the next first
  uint32_t next_ = 0;          // place in order_ of what is read next
  bool wants_head_ = true;     // the run that is under way
  uint64_t thrown_away_ = 0;
};

}  // namespace outrider
