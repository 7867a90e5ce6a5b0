#include "common/model/kv_cache.h"

#include <cstring>
#include <limits>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

KvPageLayout::KvPageLayout(const ModelSpec& spec)
    : key_length_(spec.key_length), value_length_(spec.value_length) {
  // kChunk slots of one head are a whole number of cache lines, whatever the lengths.
  static_assert(kChunk * sizeof(uint16_t) % kVectorAlignment == 0);
  for (const AttentionShape& shape : spec.layers) {
    layers_.push_back({page_halves_, shape.kv_head_count});
    page_halves_ += size_t{shape.kv_head_count} * kChunk * (key_length_ + value_length_);
  }
}

void KvPageLayout::CopySlots(const uint16_t* from, uint32_t from_slot, uint16_t* to,
                             uint32_t to_slot, uint32_t count) const {
  const auto copy = [&](size_t head_at, uint32_t length) {
    std::memcpy(to + head_at + size_t{to_slot} * length,
                from + head_at + size_t{from_slot} * length,
                size_t{count} * length * sizeof(uint16_t));
  };
  for (uint32_t layer = 0; layer < layer_count(); ++layer) {
    for (uint32_t head = 0; head < kv_head_count(layer); ++head) {
      copy(keys_at(layer, head), key_length_);
      copy(values_at(layer, head), value_length_);
    }
  }
}

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(const ModelSpec& spec,
                                                         uint32_t page_count) {
  KvPageLayout layout(spec);
  if (page_count == 0 || page_count > std::numeric_limits<size_t>::max() / layout.page_bytes()) {
    return InvalidArgument("a KV cache of ", page_count, " pages of ", layout.page_bytes(),
                           " bytes each cannot be made");
  }
  OUTRIDER_ASSIGN_OR_RETURN(PageBuffer memory,
                            PageBuffer::Create(page_count * layout.page_bytes()));
  return std::unique_ptr<KvCache>(new KvCache(std::move(layout), page_count, std::move(memory)));
}

KvCache::KvCache(KvPageLayout layout, uint32_t page_count, PageBuffer memory)
    : layout_(std::move(layout)), memory_(std::move(memory)), holders_(page_count) {
  free_.reserve(page_count);
  for (uint32_t page = page_count; page > 0; --page) free_.push_back(page - 1);
}

absl::Status KvCache::CheckFree(uint32_t count) const {
  if (count <= free_.size()) return absl::OkStatus();
  return ResourceExhausted("the KV cache has ", free_.size(), " of ", page_count(),
                           " pages free and ", count, " are needed (a page holds ", kChunk,
                           " tokens); close a sequence or give it more memory");
}

uint32_t KvCache::Take() {
  OUTRIDER_CHECK(!free_.empty(), "whoever takes a page has checked that there is one");
  const uint32_t page = free_.back();
  free_.pop_back();
  holders_[page] = 1;
  return page;
}

void KvCache::Drop(uint32_t page) {
  OUTRIDER_CHECK(holders_[page] > 0, "a page is dropped by those who hold it");
  if (--holders_[page] == 0) free_.push_back(page);
}

}  // namespace outrider
