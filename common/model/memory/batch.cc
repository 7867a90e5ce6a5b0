#include "common/model/memory/batch.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

size_t Batch::RunBytes(const MemoryLayout& layout, const SequenceLimits& limits) {
  // Of every group a run for each page that a row sees, and one for each node on its way down.
  size_t runs_per_row = 0;
  for (uint32_t group = 0; group < layout.cell_group_count(); ++group) {
    const uint32_t seen = std::min(limits.length_max, layout.group(group).window);
    runs_per_row += PagesFor(seen) + 2 + std::min(limits.node_count_max, seen);
  }
  return limits.row_count_max * runs_per_row * sizeof(KeyRun);
}

absl::StatusOr<Batch> Batch::Create(const MemoryLayout& layout, const SequenceLimits& limits) {
  OUTRIDER_ASSIGN_OR_RETURN(PageBuffer runs, PageBuffer::Create(RunBytes(layout, limits)));
  return Batch(layout, limits.row_count_max, std::move(runs));
}

Batch::Batch(const MemoryLayout& layout, uint32_t row_count_max, PageBuffer runs)
    : layout_(&layout),
      group_count_(layout.cell_group_count()),
      row_count_max_(row_count_max),
      runs_(std::move(runs)) {
  cells_.reserve(size_t{row_count_max} * group_count_);
  rows_.reserve(row_count_max);
  parts_.reserve(row_count_max);
}

void Batch::Clear() {
  rows_.clear();
  cells_.clear();
  parts_.clear();
  run_count_ = first_run_ = 0;
}

uint32_t Batch::AddChain(SequenceMemory& memory, std::span<const TokenId> tokens) {
  OUTRIDER_CHECK(tokens.size() <= free_row_count(), "the caller counts rows");
  const auto count = static_cast<uint32_t>(tokens.size());
  memory.PlaceChain(count);
  Part& part = PartOf(memory);
  OUTRIDER_CHECK(part.row_count == 0, "a sequence has one chain, and its nodes come after it");
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t index = memory.length() + i;
    for (uint32_t group = 0; group < group_count_; ++group) {
      AddRuns(memory, group, layout_->group(group).FirstSeen(index), index + 1);
      AddCells(group, index, memory.AtCell(group, index));
    }
    AddRow(part, tokens[i], index, i == 0 ? kNoRow : row_count() - 1, kNoNode);
  }
  part.chain_count = count;
  return part.first_row;
}

uint32_t Batch::AddNode(SequenceMemory& memory, TokenId token, uint32_t parent, uint32_t slot) {
  OUTRIDER_CHECK(free_row_count() > 0, "the caller counts rows");
  memory.PlaceNode(slot, parent);
  Part& part = PartOf(memory);
  const NodeTree& nodes = memory.nodes();
  const std::span<const uint32_t> path = memory.PathTo(slot);
  const uint32_t chain_end = nodes.index(path.front());
  const uint32_t index = nodes.index(slot);
  for (uint32_t group = 0; group < group_count_; ++group) {
    const uint32_t first = layout_->group(group).FirstSeen(index);
    AddRuns(memory, group, first, chain_end);
    for (const uint32_t above : path) {
      if (nodes.index(above) >= first) AddRun(nodes.index(above), memory.AtNode(group, above));
    }
    AddCells(group, index, memory.AtNode(group, slot));
  }
  AddRow(part, token, index, RowOfNode(part, parent), slot);
  return row_count() - 1;
}

// A sequence's rows follow one another, so its part is the last one or does not exist yet.
Batch::Part& Batch::PartOf(SequenceMemory& memory) {
  if (parts_.empty() || parts_.back().memory != &memory) {
    parts_.push_back({&memory, row_count(), 0, 0});
  }
  return parts_.back();
}

uint32_t Batch::RowOfNode(const Part& part, uint32_t slot) const {
  if (slot == NodeTree::kChain) {
    return part.chain_count == 0 ? kNoRow : part.first_row + part.chain_count - 1;
  }
  const auto rows = std::span(rows_).subspan(part.first_row);
  const auto row = std::ranges::find(rows, slot, &Row::node);
  return row == rows.end() ? kNoRow : part.first_row + static_cast<uint32_t>(row - rows.begin());
}

void Batch::AddRuns(const SequenceMemory& memory, uint32_t group, uint32_t first, uint32_t end) {
  KeyRun* const runs = reinterpret_cast<KeyRun*>(runs_.bytes().data());
  while (first < end) {
    const uint32_t page_end = std::min(end, (first / kPageTokens + 1) * kPageTokens);
    const CellAt at = memory.AtCell(group, first);
    runs[run_count_++] = {reinterpret_cast<const uint16_t*>(at.page), at.slot, page_end - first};
    first = page_end;
  }
}

// Nodes of a chain lie in consecutive slots and are one run, within a chunk of indices.
void Batch::AddRun(uint32_t index, const CellAt& cell) {
  KeyRun* const runs = reinterpret_cast<KeyRun*>(runs_.bytes().data());
  const auto* const page = reinterpret_cast<const uint16_t*>(cell.page);
  if (run_count_ > first_run_ && index % kChunk != 0) {
    KeyRun& last = runs[run_count_ - 1];
    if (last.page == page && last.slot + last.count == cell.slot) {
      ++last.count;
      return;
    }
  }
  runs[run_count_++] = {page, cell.slot, 1};
}

void Batch::AddCells(uint32_t group, uint32_t index, const CellAt& own) {
  const KeyRun* const runs = reinterpret_cast<const KeyRun*>(runs_.bytes().data());
  cells_.push_back({own, layout_->group(group).FirstSeen(index),
                    std::span(runs + first_run_, run_count_ - first_run_)});
  first_run_ = run_count_;
}

void Batch::AddRow(Part& part, TokenId token, uint32_t index, uint32_t parent, uint32_t node) {
  OUTRIDER_CHECK(!layout_->encoder_group() || !part.memory->encoder_keys().empty(),
                 "a sequence hears its encoder before its rows do");
  rows_.push_back({.token = token,
                   .index = index,
                   .position = RotaryPosition::OfText(index),
                   .embedding = nullptr,
                   .parent = parent,
                   .node = node,
                   .cells = std::span(cells_).last(group_count_),
                   .encoder_keys = part.memory->encoder_keys()});
  ++part.row_count;
}

}  // namespace outrider
