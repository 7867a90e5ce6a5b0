#include "common/model/batch.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<Batch> Batch::Create(uint32_t row_count_max, uint32_t position_count_max,
                                    std::optional<uint32_t> window, uint32_t path_length_max) {
  // A run for every page of the sequence, and one for every drafted node of a path.
  const size_t runs_per_row =
      size_t{position_count_max} / kChunk + 2 + std::max(row_count_max, path_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(PageBuffer runs,
                            PageBuffer::Create(row_count_max * runs_per_row * sizeof(KeyRun)));
  return Batch(row_count_max, window, std::move(runs));
}

Batch::Batch(uint32_t row_count_max, std::optional<uint32_t> window, PageBuffer runs)
    : row_count_max_(row_count_max), window_(window), runs_(std::move(runs)) {
  rows_.reserve(row_count_max);
  path_.reserve(row_count_max);
}

void Batch::Clear() {
  rows_.clear();
  run_count_ = first_run_ = 0;
}

uint32_t Batch::AddChain(const KvSequence& sequence, std::span<const TokenId> tokens) {
  OUTRIDER_CHECK(tokens.size() <= free_row_count(), "the caller counts rows");
  const uint32_t first_row = row_count();
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    const uint32_t position = sequence.length() + i;
    AddRuns(sequence, FirstSeen(position), position + 1);
    AddRow(tokens[i], position, i == 0 ? kNoRow : first_row + i - 1, sequence.AtPosition(position));
  }
  return first_row;
}

uint32_t Batch::AddNodes(const KvSequence& sequence, uint32_t root,
                         std::span<const DraftedNode> nodes) {
  OUTRIDER_CHECK(nodes.size() <= free_row_count(), "the caller counts rows");
  const uint32_t first_row = row_count();
  const uint32_t root_position = rows_[root].position;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    const bool below_root = nodes[i].parent == DraftedNode::kRoot;
    const uint32_t parent = below_root ? root : first_row + nodes[i].parent;
    OUTRIDER_CHECK(parent < first_row + i, "parents come before their children");
    const uint32_t position = rows_[parent].position + 1;
    const KvSlot slot = sequence.AtScratch(i);

    path_.clear();
    for (uint32_t row = parent; row != root; row = rows_[row].parent) path_.push_back(row);
    const uint32_t first_seen = FirstSeen(position);
    AddRuns(sequence, first_seen, root_position + 1);
    for (size_t n = path_.size(); n > 0; --n) {
      const Row& above = rows_[path_[n - 1]];
      if (above.position >= first_seen) AddRun(above.position, above.slot);
    }
    AddRun(position, slot);
    AddRow(nodes[i].token, position, parent, slot);
  }
  return first_row;
}

uint32_t Batch::AddNode(const KvSequence& sequence, std::span<const uint32_t> path,
                        uint32_t scratch, TokenId token) {
  OUTRIDER_CHECK(free_row_count() > 0, "the caller counts rows");
  const uint32_t above = sequence.length();  // the position of the first of the path
  const auto position = static_cast<uint32_t>(above + path.size());
  const uint32_t first_seen = FirstSeen(position);
  AddRuns(sequence, first_seen, above);
  for (uint32_t i = 0; i < path.size(); ++i) {
    if (above + i >= first_seen) AddRun(above + i, sequence.AtScratch(path[i]));
  }
  const KvSlot slot = sequence.AtScratch(scratch);
  AddRun(position, slot);
  const KvSlot parent =
      path.empty() ? sequence.AtPosition(above - 1) : sequence.AtScratch(path.back());
  AddRow(token, position, RowAt(parent), slot);
  return row_count() - 1;
}

uint32_t Batch::RowAt(const KvSlot& slot) const {
  const auto row = std::ranges::find_if(rows_, [&](const Row& other) {
    return other.slot.page == slot.page && other.slot.slot == slot.slot;
  });
  return row == rows_.end() ? kNoRow : static_cast<uint32_t>(row - rows_.begin());
}

uint32_t Batch::FirstSeen(uint32_t position) const {
  return window_ && position >= *window_ ? position + 1 - *window_ : 0;
}

void Batch::AddRuns(const KvSequence& sequence, uint32_t first, uint32_t end) {
  KeyRun* const runs = reinterpret_cast<KeyRun*>(runs_.bytes().data());
  while (first < end) {
    const uint32_t chunk_end = std::min(end, (first / kChunk + 1) * kChunk);
    const KvSlot at = sequence.AtPosition(first);
    runs[run_count_++] = {at.page, at.slot, chunk_end - first};
    first = chunk_end;
  }
}

// Nodes of a chain lie in consecutive slots and are one run, within a chunk of positions.
void Batch::AddRun(uint32_t position, KvSlot slot) {
  KeyRun* const runs = reinterpret_cast<KeyRun*>(runs_.bytes().data());
  if (run_count_ > first_run_ && position % kChunk != 0) {
    KeyRun& last = runs[run_count_ - 1];
    if (last.page == slot.page && last.slot + last.count == slot.slot) {
      ++last.count;
      return;
    }
  }
  runs[run_count_++] = {slot.page, slot.slot, 1};
}

void Batch::AddRow(TokenId token, uint32_t position, uint32_t parent, KvSlot slot) {
  const KeyRun* const runs = reinterpret_cast<const KeyRun*>(runs_.bytes().data());
  rows_.push_back({token, position, parent, slot, FirstSeen(position),
                   std::span(runs + first_run_, run_count_ - first_run_)});
  first_run_ = run_count_;
}

}  // namespace outrider
