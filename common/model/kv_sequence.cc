#include "common/model/kv_sequence.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

uint32_t PagesFor(uint32_t positions) {
  return (positions + kChunk - 1) / kChunk;
}

}  // namespace

KvSequence::KvSequence(KvCache& cache, uint32_t position_count_max, uint32_t scratch_count_max)
    : cache_(cache),
      position_count_max_(position_count_max),
      scratch_count_max_(scratch_count_max) {
  pages_.reserve(PagesFor(position_count_max));
  scratch_.reserve(PagesFor(scratch_count_max));
}

absl::Status KvSequence::Reserve(uint32_t position_count, uint32_t scratch_count) {
  OUTRIDER_CHECK(position_count <= position_count_max_ - length_, "the caller knows the context");
  OUTRIDER_CHECK(scratch_count <= scratch_count_max_, "the caller knows how large a pass may be");
  const auto held = static_cast<uint32_t>(pages_.size());
  const uint32_t wanted = PagesFor(length_ + position_count);
  const uint32_t tail_slots = length_ % kChunk;
  const bool copies_tail =
      position_count > 0 && tail_slots > 0 && cache_.IsShared(pages_[length_ / kChunk]);
  const uint32_t grown = wanted > held ? wanted - held : 0;
  const uint32_t scratch_wanted = PagesFor(scratch_count);
  const uint32_t needed = grown + (copies_tail ? 1 : 0) + scratch_wanted;
  const auto scratch_held = static_cast<uint32_t>(scratch_.size());  // nobody shares them
  if (needed > scratch_held) OUTRIDER_RETURN_IF_ERROR(cache_.CheckFree(needed - scratch_held));
  while (scratch_.size() > scratch_wanted) {
    cache_.Drop(scratch_.back());
    scratch_.pop_back();
  }
  if (copies_tail) {
    uint32_t& tail = pages_[length_ / kChunk];
    const uint32_t own = cache_.Take();
    cache_.layout().CopySlots(cache_.Page(tail), 0, cache_.Page(own), 0, tail_slots);
    cache_.Drop(tail);
    tail = own;
  }
  for (uint32_t i = 0; i < grown; ++i) pages_.push_back(cache_.Take());
  while (scratch_.size() < scratch_wanted) scratch_.push_back(cache_.Take());
  return absl::OkStatus();
}

KvSlot KvSequence::AtPosition(uint32_t position) const {
  return {cache_.Page(pages_[position / kChunk]), position % kChunk};
}

KvSlot KvSequence::AtScratch(uint32_t index) const {
  return {cache_.Page(scratch_[index / kChunk]), index % kChunk};
}

void KvSequence::Advance(uint32_t position_count) {
  OUTRIDER_CHECK(PagesFor(length_ + position_count) <= pages_.size(),
                 "positions are reserved before they are written");
  length_ += position_count;
}

void KvSequence::CommitScratch(uint32_t index) {
  const KvSlot from = AtScratch(index);
  const KvSlot to = AtPosition(length_);
  cache_.layout().CopySlots(from.page, from.slot, to.page, to.slot, 1);
  ++length_;
}

void KvSequence::DropScratch() {
  for (const uint32_t page : scratch_) cache_.Drop(page);
  scratch_.clear();
}

void KvSequence::Truncate(uint32_t length) {
  OUTRIDER_CHECK(length <= length_, "truncating makes shorter");
  DropScratch();
  length_ = length;
  while (pages_.size() > PagesFor(length)) {
    cache_.Drop(pages_.back());
    pages_.pop_back();
  }
}

void KvSequence::Clear() {
  Truncate(0);
}

void KvSequence::ForkFrom(const KvSequence& other) {
  OUTRIDER_CHECK(pages_.empty() && &cache_ == &other.cache_, "a fork starts empty");
  for (uint32_t n = 0; n < PagesFor(other.length_); ++n) {
    pages_.push_back(other.pages_[n]);
    cache_.Share(other.pages_[n]);
  }
  length_ = other.length_;
}

}  // namespace outrider
