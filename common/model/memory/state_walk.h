// How recurrent states reach the rows of a run: for each of its sequences a walk through the tree
// of what is not committed, from the base downwards, that takes in every row once.
//
//   base - a - b - c            advance a, emit a; keep it; advance d, emit d; return to it;
//            \ d                advance b, emit b; advance c, emit c
//
//   walks.Plan(batch);                                        // once a run
//   walks.Follow(part, base, state, kept, advance, emit);     // for every layer and part of it
//
// The tree holds rows of this run, and what of earlier ones they hang below: those are taken in
// again from their inputs, and nothing is emitted for them. Of a row's children the one with most
// below it comes last, and goes on in the state at hand; so no more states are kept at a time than
// the tree's size has binary digits.
//
// Memory:  the steps of one run; grown to the largest so far and kept.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "common/model/memory/batch.h"
#include "common/model/memory/page_memory.h"

namespace outrider {

struct StateStep {
  enum class Kind {
    kAdvance,  // take in a row's input
    kKeep,     // copy the state to the place `level`
    kReturn,   // and back
  };

  Kind kind;
  uint32_t level = 0;
  CellAt cell = {};              // of the group of inputs
  uint32_t row = Batch::kNoRow;  // of the batch, unless it is of an earlier run
};

class StateWalks {
 public:
  void Plan(const Batch& batch);

  uint32_t part_count() const { return static_cast<uint32_t>(part_steps_.size()); }
  std::span<const StateStep> steps(uint32_t part) const;
  // States that a walk of this run keeps at a time.
  uint32_t kept_count_max() const { return kept_count_max_; }

  // `base` may be null: no tokens, all zeros. `kept` has room for kept_count_max() states.
  // advance(state, cell) takes in the row of a cell; emit(row, state) hears of every row of the
  // batch, after its own input.
  template <typename Advance, typename Emit>
  void Follow(uint32_t part, const float* base, std::span<float> state, std::span<float> kept,
              const Advance& advance, const Emit& emit) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // What is not committed: a row of the run, or one of an earlier run above it. Item 0 is the base.
  struct Item {
    CellAt cell;
    uint32_t row;
    uint32_t parent;
    uint32_t size = 1;             // with all below it
    uint32_t first_child = kNone;  // the largest
    uint32_t next_sibling = kNone;
  };

  void AddItems(const Batch& batch, const Batch::Part& part);
  uint32_t AddItem(const CellAt& cell, uint32_t row, uint32_t parent);
  void LinkChildren();
  void Visit(uint32_t item, uint32_t level);

  std::vector<StateStep> steps_;
  std::vector<size_t> part_steps_;  // where each part's end
  uint32_t kept_count_max_ = 0;

  // Of the part being planned.
  std::vector<Item> items_;
  std::vector<uint32_t> item_of_slot_;
};

template <typename Advance, typename Emit>
void StateWalks::Follow(uint32_t part, const float* base, std::span<float> state,
                        std::span<float> kept, const Advance& advance, const Emit& emit) const {
  if (base == nullptr) {
    std::ranges::fill(state, 0.0f);
  } else {
    std::copy_n(base, state.size(), state.begin());
  }
  for (const StateStep& step : steps(part)) {
    const auto place = [&] { return kept.subspan(step.level * state.size(), state.size()); };
    switch (step.kind) {
      case StateStep::Kind::kAdvance:
        advance(state, step.cell);
        if (step.row != Batch::kNoRow) emit(step.row, std::span<const float>(state));
        break;
      case StateStep::Kind::kKeep:
        std::ranges::copy(state, place().begin());
        break;
      case StateStep::Kind::kReturn:
        std::ranges::copy(place(), state.begin());
        break;
    }
  }
}

}  // namespace outrider
