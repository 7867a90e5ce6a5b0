// Memory of layers of every kind, and a pass that leaves marks instead of keys: what a row leaves
// behind tells the whole way of tokens down to it, so whoever looks at a cell knows whether it is
// the right one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "common/base/check.h"
#include "common/model/memory/batch.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/memory/page_memory.h"
#include "common/model/memory/sequence_memory.h"
#include "common/model/memory/state_walk.h"
#include "gtest/gtest.h"
#include "tests/model/memory/naive_sequence.h"

namespace outrider {

// Of every token, and all before it.
inline std::vector<uint32_t> MarksOf(std::span<const TokenId> way) {
  std::vector<uint32_t> marks;
  uint32_t mark = 17;
  for (const TokenId token : way) {
    marks.push_back(mark = mark * 1000003u + static_cast<uint32_t>(token) + 1);
  }
  return marks;
}

// The order of inputs tells: exact in floats, as all its numbers are whole and small.
class MarkedRule final : public StateRule {
 public:
  void Advance(uint32_t part, std::span<float> state, std::span<const float> input) const override {
    for (size_t i = 0; i < state.size(); ++i) {
      state[i] = std::fmod(state[i] * 3.0f + input[part] + static_cast<float>(i), 8191.0f);
    }
  }
};

class MarkedMemory {
 public:
  static constexpr uint32_t kWindow = 40;
  static constexpr uint32_t kRecurrentLayer = 2;

  // Everything, a window, a recurrent state with a convolution, and the window's cells once more.
  static std::vector<LayerKeeps> EveryKind() {
    static const MarkedRule rule;
    return {
        {.attention = AttentionCells{2, 4, 6, std::nullopt}},
        {.attention = AttentionCells{1, 3, 5, kWindow}},
        {.recurrent = RecurrentState{2, 3, 2, &rule}, .convolution = ConvolutionTail{4, 5}},
        {.attention_of = 1},
        {},
    };
  }

  MarkedMemory(std::span<const LayerKeeps> layers, const SequenceLimits& sequence_limits,
               std::span<const uint32_t> page_counts)
      : limits(sequence_limits),
        memory(*PageMemory::Create(MemoryLayout(layers), page_counts, 8)),
        batch(*Batch::Create(memory->layout(), limits)) {}

  std::unique_ptr<SequenceMemory> New() {
    return std::make_unique<SequenceMemory>(*memory, limits);
  }

  const MemoryLayout& layout() const { return memory->layout(); }

  // The batch's rows leave their marks, and then look for those of the rows above them. `ways[row]`
  // are the tokens down to each.
  void Pass(std::span<const Tokens> ways) {
    for (uint32_t row = 0; row < batch.row_count(); ++row) Leave(row, MarksOf(ways[row]).back());
    for (uint32_t row = 0; row < batch.row_count(); ++row) ExpectSeen(row, MarksOf(ways[row]));
    if (layout().input_group()) ExpectStates(ways);
  }

  // A state after these tokens.
  std::vector<float> StateAfter(std::span<const TokenId> way, uint32_t part) const {
    std::vector<float> state(3);
    for (const uint32_t mark : MarksOf(way)) MarkedRule().Advance(part, state, InputOf(mark));
    return state;
  }

  void ExpectBase(const SequenceMemory& sequence, std::span<const TokenId> way) const {
    if (!layout().input_group()) return;
    const float* const base = sequence.Base(kRecurrentLayer);
    for (uint32_t part = 0; part < 2; ++part) {
      const std::vector<float> expected = StateAfter(way, part);
      const std::vector<float> actual =
          base == nullptr ? std::vector<float>(3)
                          : std::vector<float>(base + 3 * part, base + 3 * part + 3);
      ASSERT_EQ(actual, expected);
    }
  }

  const SequenceLimits limits;
  const std::unique_ptr<PageMemory> memory;
  Batch batch;
  StateWalks walks;

 private:
  static std::array<float, 2> InputOf(uint32_t mark) {
    return {static_cast<float>(mark % 4096), static_cast<float>(mark / 4096 % 4096)};
  }

  // In the first bytes of a piece's slot and in its last.
  static void Write(std::byte* at, size_t bytes, uint32_t mark) {
    std::memcpy(at, &mark, sizeof(mark));
    at[bytes - 1] = static_cast<std::byte>(mark >> 24);
  }
  static bool Holds(const std::byte* at, size_t bytes, uint32_t mark) {
    return at[bytes - 1] == static_cast<std::byte>(mark >> 24) &&
           std::memcmp(at, &mark, std::min(bytes - 1, sizeof(mark))) == 0;
  }

  void Leave(uint32_t row, uint32_t mark) {
    for (uint32_t group = 0; group < layout().cell_group_count(); ++group) {
      const CellAt& own = batch.rows()[row].cells[group].own;
      if (group == layout().input_group()) {
        const std::array<float, 2> input = InputOf(mark);
        std::memcpy(own.As<float>(layout().input_at(kRecurrentLayer), 2), input.data(), 8);
        continue;
      }
      for (size_t i = 0; i < layout().pieces(group).size(); ++i) {
        const MemoryLayout::Piece& piece = layout().pieces(group)[i];
        Write(own.page + piece.at + own.slot * piece.bytes, piece.bytes,
              mark + static_cast<uint32_t>(i));
      }
    }
  }

  void ExpectSeen(uint32_t row, std::span<const uint32_t> marks) {
    const auto index = static_cast<uint32_t>(marks.size()) - 1;
    ASSERT_EQ(batch.rows()[row].index, index);
    for (uint32_t group = 0; group < layout().cell_group_count(); ++group) {
      if (group == layout().input_group()) continue;
      const Batch::Cells& cells = batch.rows()[row].cells[group];
      ASSERT_EQ(cells.first_index, layout().group(group).FirstSeen(index));
      uint32_t seen = cells.first_index;
      for (const KeyRun& run : cells.keys) {
        ASSERT_EQ(seen / kChunk, (seen + run.count - 1) / kChunk) << "runs end with a chunk";
        for (uint32_t i = 0; i < run.count; ++i, ++seen) {
          ASSERT_LE(seen, index);
          ExpectMark(group, run, i, marks[seen]);
        }
      }
      ASSERT_EQ(seen, index + 1);
    }
  }

  void ExpectMark(uint32_t group, const KeyRun& run, uint32_t i, uint32_t mark) {
    const auto* const page = reinterpret_cast<const std::byte*>(run.page);
    for (size_t n = 0; n < layout().pieces(group).size(); ++n) {
      const MemoryLayout::Piece& piece = layout().pieces(group)[n];
      ASSERT_TRUE(Holds(page + piece.at + (run.slot + i) * piece.bytes, piece.bytes,
                        mark + static_cast<uint32_t>(n)));
    }
  }

  void ExpectStates(std::span<const Tokens> ways) {
    walks.Plan(batch);
    const MarkedRule rule;
    std::vector<float> state(3), kept(3 * walks.kept_count_max());
    for (uint32_t i = 0; i < walks.part_count(); ++i) {
      const Batch::Part& part = batch.parts()[i];
      const float* const base = part.memory->Base(kRecurrentLayer);
      for (uint32_t half = 0; half < 2; ++half) {
        uint32_t heard = 0;
        walks.Follow(
            i, base == nullptr ? nullptr : base + 3 * half, state, kept,
            [&](std::span<float> at, const CellAt& cell) {
              rule.Advance(half, at,
                           {cell.As<const float>(layout().input_at(kRecurrentLayer), 2), 2});
            },
            [&](uint32_t row, std::span<const float> after) {
              ++heard;
              ASSERT_EQ(std::vector<float>(after.begin(), after.end()),
                        StateAfter(ways[row], half));
            });
        ASSERT_EQ(heard, part.row_count);
      }
    }
  }
};

}  // namespace outrider
