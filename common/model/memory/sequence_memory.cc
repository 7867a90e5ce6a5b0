#include "common/model/memory/sequence_memory.h"

#include <algorithm>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

SequenceMemory::SequenceMemory(PageMemory& memory, const SequenceLimits& limits)
    : memory_(memory),
      layout_(memory.layout()),
      ledger_(memory.ledger()),
      limits_(limits),
      owner_(ledger_.Open()),
      nodes_(limits.node_count_max) {
  tables_.reserve(layout_.cell_group_count());
  for (uint32_t group = 0; group < layout_.cell_group_count(); ++group) {
    tables_.emplace_back(memory, group, owner_, limits);
  }
  page_counts_.resize(layout_.group_count());
  if (layout_.input_group()) taken_.reserve(limits.row_count_max + limits.node_count_max);
  if (const std::optional<uint32_t> group = layout_.encoder_group()) {
    encoder_pages_.reserve(layout_.group(*group).pages_each);
    encoder_keys_.reserve(layout_.group(*group).pages_each);
  }
}

SequenceMemory::~SequenceMemory() {
  Clear();
  ledger_.Close(owner_);
}

// --- room ---

absl::Status SequenceMemory::Reserve(uint32_t cell_count, uint32_t node_count) {
  OUTRIDER_CHECK(cell_count <= limits_.length_max - length_, "the caller knows the context");
  OUTRIDER_CHECK(node_count <= limits_.node_count_max, "the caller knows how many nodes there are");
  const uint32_t old_cell_end = cell_end_, old_node_count = node_count_;
  cell_end_ = length_ + cell_count;
  node_count_ = node_count;
  if (const absl::Status status = Promise(); !status.ok()) {
    cell_end_ = old_cell_end;
    node_count_ = old_node_count;
    return status;
  }
  nodes_.DropFrom(node_count);
  for (CellTable& table : tables_) table.DropNodes(node_count);
  PromiseAnew();
  return absl::OkStatus();
}

// Whatever is still to be taken before there is all that has been reserved.
absl::Status SequenceMemory::Promise() {
  for (uint32_t group = 0; group < layout_.group_count(); ++group) {
    if (group < tables_.size()) {
      page_counts_[group] = tables_[group].PagesToTake(length_, cell_end_, node_count_);
    } else if (group == layout_.base_group()) {
      const bool owns = base_page_ && !ledger_.IsShared(group, *base_page_);
      page_counts_[group] = cell_end_ > length_ && !owns ? 1 : 0;
    } else {
      page_counts_[group] = 0;
    }
  }
  return ledger_.Reserve(owner_, page_counts_);
}

// What is to be taken has changed by pages that were taken or let go: the latter are free again, so
// nobody can be refused.
void SequenceMemory::PromiseAnew() {
  OUTRIDER_CHECK_OK(Promise());
}

// --- rows ---

void SequenceMemory::PlaceChain(uint32_t row_count) {
  OUTRIDER_CHECK(length_ + row_count <= cell_end_, "cells are reserved before they are written");
  if (chain_count_ > 0) nodes_.MoveEnd(NodeTree::kChain, length_);  // those below the last chain go
  chain_count_ = row_count;
  for (CellTable& table : tables_) table.MakeRoom(length_, length_ + row_count);
}

void SequenceMemory::PlaceNode(uint32_t slot, uint32_t parent) {
  OUTRIDER_CHECK(slot < node_count_, "slots are reserved before they are written");
  nodes_.Place(slot, parent, parent == NodeTree::kChain ? chain_end() : nodes_.index(parent) + 1);
  for (CellTable& table : tables_) table.MakeNode(slot);
}

const float* SequenceMemory::Base(uint32_t layer) const {
  if (!base_page_) return nullptr;
  return reinterpret_cast<const float*>(memory_.Page(*layout_.base_group(), *base_page_)) +
         layout_.base_at(layer);
}

// --- commits ---

void SequenceMemory::Commit(uint32_t chain_count, std::span<const uint32_t> path) {
  OUTRIDER_CHECK(chain_count <= chain_count_, "what is committed has been computed");
  ReplayPath(chain_count, path);
  chain_count_ = 0;
  Advance(length_ + chain_count);
  uint32_t end = NodeTree::kChain;
  for (const uint32_t slot : path) {
    OUTRIDER_CHECK(nodes_.Has(slot) && nodes_.parent(slot) == end && nodes_.index(slot) == length_,
                   "a path goes down from the end of the chain");
    OUTRIDER_CHECK(length_ < cell_end_, "cells are reserved before they are written");
    for (CellTable& table : tables_) table.CommitNode(slot, length_);
    Advance(length_ + 1);
    end = slot;
  }
  nodes_.MoveEnd(end, length_);
}

void SequenceMemory::Advance(uint32_t length) {
  length_ = length;
  for (CellTable& table : tables_) table.Advance(length);
  PromiseAnew();
}

// Takes the bases of recurrent layers forward, from the inputs of what is about to be committed.
void SequenceMemory::ReplayPath(uint32_t chain_count, std::span<const uint32_t> path) {
  if (!layout_.input_group() || chain_count + path.size() == 0) return;
  OwnBase();
  const CellTable& inputs = tables_[*layout_.input_group()];
  taken_.clear();
  for (uint32_t i = 0; i < chain_count; ++i) taken_.push_back(inputs.AtCell(length_ + i));
  for (const uint32_t slot : path) taken_.push_back(inputs.AtNode(slot));
  float* const bases = reinterpret_cast<float*>(memory_.Page(*layout_.base_group(), *base_page_));
  for (uint32_t layer = 0; layer < layout_.layer_count(); ++layer) {
    if (!layout_.keeps(layer).recurrent) continue;
    const RecurrentState& state = *layout_.keeps(layer).recurrent;
    for (uint32_t part = 0; part < state.part_count; ++part) {
      const std::span<float> base = {
          bases + layout_.base_at(layer) + size_t{part} * state.part_length, state.part_length};
      for (const CellAt& cell : taken_) {
        state.rule->Advance(part, base,
                            {cell.As<const float>(layout_.input_at(layer), state.input_length),
                             state.input_length});
      }
    }
  }
}

// A page of bases that nobody else has: a new one is the state of no tokens.
void SequenceMemory::OwnBase() {
  const uint32_t group = *layout_.base_group();
  if (base_page_ && !ledger_.IsShared(group, *base_page_)) return;
  const uint32_t own = ledger_.Take(owner_, group);
  const size_t bytes = layout_.page_bytes(group);
  if (base_page_) {
    std::memcpy(memory_.Page(group, own), memory_.Page(group, *base_page_), bytes);
    ledger_.Drop(group, *base_page_);
  } else {
    std::memset(memory_.Page(group, own), 0, bytes);
  }
  base_page_ = own;
}

void SequenceMemory::DropBase() {
  if (base_page_) ledger_.Drop(*layout_.base_group(), *base_page_);
  base_page_.reset();
}

void SequenceMemory::DropNodes() {
  nodes_.Clear();
  node_count_ = 0;
  for (CellTable& table : tables_) table.DropNodes(0);
  PromiseAnew();
}

// --- taking back, and sharing ---

uint32_t SequenceMemory::Truncate(uint32_t length) {
  OUTRIDER_CHECK(length <= length_, "truncating makes shorter");
  if (!CanTruncate(length)) length = 0;
  if (length == 0) DropBase();
  for (CellTable& table : tables_) table.Truncate(length);
  nodes_.Clear();
  length_ = cell_end_ = length;
  chain_count_ = node_count_ = 0;
  PromiseAnew();
  return length;
}

bool SequenceMemory::CanTruncate(uint32_t length) const {
  if (layout_.base_group() && length != length_) return false;
  return std::ranges::all_of(
      tables_, [length](const CellTable& table) { return table.CanTruncate(length); });
}

void SequenceMemory::Clear() {
  Truncate(0);
  DropEncoder();
}

absl::Status SequenceMemory::ForkFrom(SequenceMemory& other, uint32_t length) {
  OUTRIDER_CHECK(length_ == 0 && &memory_ == &other.memory_, "a fork starts empty");
  OUTRIDER_CHECK(length <= other.length_, "a fork has what there is");
  if (!other.CanTruncate(length)) length = 0;
  for (size_t i = 0; i < tables_.size(); ++i) tables_[i].ForkFrom(other.tables_[i], length);
  if (length > 0) base_page_ = other.base_page_;
  if (base_page_) ledger_.Share(*layout_.base_group(), *base_page_);
  encoder_pages_.assign(other.encoder_pages_.begin(), other.encoder_pages_.end());
  encoder_keys_.assign(other.encoder_keys_.begin(), other.encoder_keys_.end());
  for (const uint32_t page : encoder_pages_) ledger_.Share(*layout_.encoder_group(), page);
  length_ = cell_end_ = length;
  const absl::Status status = other.Promise();
  if (!status.ok()) Clear();
  return status;
}

// --- encoder cells ---

absl::Status SequenceMemory::ReserveEncoder(uint32_t cell_count) {
  OUTRIDER_CHECK(encoder_pages_.empty(), "a sequence hears one encoder, once");
  const uint32_t group = *layout_.encoder_group();
  const auto pages = static_cast<uint32_t>(PagesFor(cell_count));
  OUTRIDER_CHECK(pages <= layout_.group(group).pages_each, "the caller knows how long it may be");
  for (uint32_t i = 0; i < layout_.group_count(); ++i) {
    page_counts_[i] = ledger_.promised_to(owner_, i);
  }
  page_counts_[group] = pages;
  OUTRIDER_RETURN_IF_ERROR(ledger_.Reserve(owner_, page_counts_));
  for (uint32_t i = 0; i < pages; ++i) {
    encoder_pages_.push_back(ledger_.Take(owner_, group));
    const auto* const page =
        reinterpret_cast<const uint16_t*>(memory_.Page(group, encoder_pages_.back()));
    encoder_keys_.push_back({page, 0, std::min(kPageTokens, cell_count - i * kPageTokens)});
  }
  return absl::OkStatus();
}

void SequenceMemory::DropEncoder() {
  for (const uint32_t page : encoder_pages_) ledger_.Drop(*layout_.encoder_group(), page);
  encoder_pages_.clear();
  encoder_keys_.clear();
}

CellAt SequenceMemory::AtEncoder(uint32_t index) const {
  return {memory_.Page(*layout_.encoder_group(), encoder_pages_[index / kPageTokens]),
          index % kPageTokens};
}

}  // namespace outrider
