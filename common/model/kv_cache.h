// The keys and values of everything that has been read, in pages of kChunk positions of all layers.
//
//   page   [layer] [keys | values] [kv head] [slot] [length]      halves; 64-byte aligned
//
// A pool of as many pages as its budget allows, taken once. Sequences (kv_sequence.h) hold pages;
// forks share them, so pages are counted, and a page is free when its last holder lets go. The
// largest alignment a head needs is kept by every row of a page.
//
// Memory:  page_count * page_bytes, resident only as far as pages have been used.
// Threads: one at a time. Reading and writing what pages hold is the forward pass's business.
// Errors:  ResourceExhausted, with both numbers, when there are too few free pages; whoever asked
//          gets none, and everybody else keeps theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/kernels/attention.h"
#include "common/model/model_spec.h"

namespace outrider {

// Where in a page a layer's and head's slots begin, in halves.
class KvPageLayout {
 public:
  explicit KvPageLayout(const ModelSpec& spec);

  uint32_t layer_count() const { return static_cast<uint32_t>(layers_.size()); }
  uint32_t kv_head_count(uint32_t layer) const { return layers_[layer].kv_head_count; }
  uint32_t key_length() const { return key_length_; }
  uint32_t value_length() const { return value_length_; }

  size_t keys_at(uint32_t layer, uint32_t kv_head) const {
    return layers_[layer].at + size_t{kv_head} * kChunk * key_length_;
  }
  size_t values_at(uint32_t layer, uint32_t kv_head) const {
    const Layer& place = layers_[layer];
    return place.at + size_t{place.kv_head_count} * kChunk * key_length_ +
           size_t{kv_head} * kChunk * value_length_;
  }
  size_t page_halves() const { return page_halves_; }
  size_t page_bytes() const { return page_halves_ * sizeof(uint16_t); }

  // Slots [from_slot, from_slot + count) of one page to another page, or elsewhere in the same,
  // where they do not overlap.
  void CopySlots(const uint16_t* from, uint32_t from_slot, uint16_t* to, uint32_t to_slot,
                 uint32_t count) const;

 private:
  struct Layer {
    size_t at;
    uint32_t kv_head_count;
  };

  std::vector<Layer> layers_;
  uint32_t key_length_;
  uint32_t value_length_;
  size_t page_halves_ = 0;
};

class KvCache {
 public:
  // InvalidArgument when `page_count` is zero or too many to address, ResourceExhausted when the
  // machine does not have the memory.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(const ModelSpec& spec,
                                                         uint32_t page_count);

  const KvPageLayout& layout() const { return layout_; }
  uint32_t page_count() const { return static_cast<uint32_t>(holders_.size()); }
  uint32_t free_page_count() const { return static_cast<uint32_t>(free_.size()); }

  // ResourceExhausted when fewer than `count` pages are free. Take() then cannot fail.
  absl::Status CheckFree(uint32_t count) const;
  uint32_t Take();
  void Share(uint32_t page) { ++holders_[page]; }
  bool IsShared(uint32_t page) const { return holders_[page] > 1; }
  void Drop(uint32_t page);

  uint16_t* Page(uint32_t page) {
    return memory_.As<uint16_t>().data() + page * layout_.page_halves();
  }

 private:
  KvCache(KvPageLayout layout, uint32_t page_count, PageBuffer memory);

  KvPageLayout layout_;
  PageBuffer memory_;
  std::vector<uint32_t> holders_;  // by page
  std::vector<uint32_t> free_;     // a stack: pages used of late are in the processor's caches
};

}  // namespace outrider
