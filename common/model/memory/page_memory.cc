#include "common/model/memory/page_memory.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "common/base/buffer.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// What dividing comes to: pages, counted in more bits than bytes need.
using Wide = unsigned __int128;

struct GroupNeed {
  uint64_t full;   // pages of a sequence at its longest
  uint64_t least;  // of a pass below a single token
  uint64_t page_bytes;
  bool is_at_least = false;  // its proportion would be less
};

// Of the groups that are not held at their least: what is left of `kv_bytes` for them, and what a
// sequence at its longest takes of it.
struct Proportion {
  uint64_t bytes;
  uint64_t full_bytes = 0;

  uint64_t PagesOf(const GroupNeed& group) const {
    const Wide pages = Wide{group.full} * bytes / full_bytes;
    return static_cast<uint64_t>(std::min<Wide>(pages, std::numeric_limits<uint32_t>::max()));
  }
};

Proportion ProportionOf(std::span<const GroupNeed> groups, uint64_t kv_bytes) {
  Proportion proportion{kv_bytes};
  for (const GroupNeed& group : groups) {
    if (group.is_at_least) proportion.bytes -= group.least * group.page_bytes;
    if (!group.is_at_least) proportion.full_bytes += group.full * group.page_bytes;
  }
  return proportion;
}

// Whoever would get less than the least gets the least, and the others divide the rest.
std::vector<uint32_t> Divide(std::span<GroupNeed> groups, uint64_t kv_bytes) {
  Proportion proportion = ProportionOf(groups, kv_bytes);
  for (bool changed = true; changed; proportion = ProportionOf(groups, kv_bytes)) {
    changed = false;
    for (GroupNeed& group : groups) {
      if (group.is_at_least || proportion.PagesOf(group) >= group.least) continue;
      group.is_at_least = changed = true;
    }
  }
  std::vector<uint32_t> pages;
  for (const GroupNeed& group : groups) {
    pages.push_back(
        static_cast<uint32_t>(group.is_at_least ? group.least : proportion.PagesOf(group)));
  }
  return pages;
}

class HostPages final : public PagePlace {
 public:
  absl::StatusOr<std::byte*> Take(size_t bytes) override {
    OUTRIDER_ASSIGN_OR_RETURN(PageBuffer buffer, PageBuffer::Create(bytes));
    return buffers_.emplace_back(std::move(buffer)).bytes().data();
  }

  void Copy(std::span<const MemoryLayout::Piece> pieces, const CellAt& from, const CellAt& to,
            uint32_t count) override {
    for (const MemoryLayout::Piece& piece : pieces) {
      std::memcpy(to.page + piece.at + to.slot * piece.bytes,
                  from.page + piece.at + from.slot * piece.bytes, count * piece.bytes);
    }
  }

 private:
  std::vector<PageBuffer> buffers_;
};

}  // namespace

absl::StatusOr<std::vector<uint32_t>> DividePages(std::span<const SizedGroup> groups,
                                                  const SequenceLimits& limits,
                                                  uint32_t sequence_count, uint64_t kv_bytes) {
  std::vector<GroupNeed> needs;
  uint64_t least_bytes = 0, all_bytes = 0;
  for (const SizedGroup& group : groups) {
    const auto pages_of = [&](uint32_t length) {
      return group.shape.PagesOfSequence(length, limits.row_count_max, limits.node_count_max);
    };
    const GroupNeed& need =
        needs.emplace_back(GroupNeed{pages_of(limits.length_max), pages_of(1), group.page_bytes});
    least_bytes += need.least * need.page_bytes;
    all_bytes += sequence_count * need.full * need.page_bytes;
  }
  if (kv_bytes == 0) kv_bytes = all_bytes;
  if (kv_bytes < least_bytes) {
    return InvalidArgument("--kv-memory: a KV cache of ", kv_bytes,
                           " bytes is too small; the least is ", least_bytes);
  }
  return Divide(needs, kv_bytes);
}

absl::StatusOr<std::vector<uint32_t>> DividePages(const MemoryLayout& layout,
                                                  const SequenceLimits& limits,
                                                  uint32_t sequence_count, uint64_t kv_bytes) {
  std::vector<SizedGroup> groups;
  for (uint32_t i = 0; i < layout.group_count(); ++i) {
    groups.push_back({layout.group(i), layout.page_bytes(i)});
  }
  return DividePages(groups, limits, sequence_count, kv_bytes);
}

absl::StatusOr<std::unique_ptr<PageMemory>> PageMemory::Create(
    MemoryLayout layout, std::span<const uint32_t> page_counts, uint32_t sequence_count_max) {
  return Create(std::move(layout), page_counts, sequence_count_max, std::make_unique<HostPages>());
}

absl::StatusOr<std::unique_ptr<PageMemory>> PageMemory::Create(
    MemoryLayout layout, std::span<const uint32_t> page_counts, uint32_t sequence_count_max,
    std::unique_ptr<PagePlace> place) {
  OUTRIDER_CHECK(page_counts.size() == layout.group_count(), "pages are counted by group");
  std::vector<PageGroup> groups;
  std::vector<std::byte*> pages;
  for (uint32_t i = 0; i < layout.group_count(); ++i) {
    PageGroup& group = groups.emplace_back(layout.group(i));
    group.page_count = page_counts[i];
    const size_t page_bytes = layout.page_bytes(i);
    if (group.page_count > std::numeric_limits<size_t>::max() / page_bytes) {
      return InvalidArgument("a KV cache of ", group.page_count, " pages of ", page_bytes,
                             " bytes each cannot be made");
    }
    OUTRIDER_ASSIGN_OR_RETURN(std::byte* const memory, place->Take(group.page_count * page_bytes));
    pages.push_back(memory);
  }
  return std::unique_ptr<PageMemory>(new PageMemory(std::move(layout), groups, sequence_count_max,
                                                    std::move(place), std::move(pages)));
}

PageMemory::PageMemory(MemoryLayout layout, std::span<const PageGroup> groups,
                       uint32_t sequence_count_max, std::unique_ptr<PagePlace> place,
                       std::vector<std::byte*> pages)
    : layout_(std::move(layout)),
      ledger_(groups, sequence_count_max),
      place_(std::move(place)),
      pages_(std::move(pages)) {}

void PageMemory::CopySlots(uint32_t group, uint32_t from, uint32_t to, uint32_t count) {
  place_->Copy(layout_.pieces(group), {Page(group, from), 0}, {Page(group, to), 0}, count);
}

void PageMemory::CopySlot(uint32_t group, const CellAt& from, const CellAt& to) {
  place_->Copy(layout_.pieces(group), from, to, 1);
}

}  // namespace outrider
