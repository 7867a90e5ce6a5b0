// The rows of one run of the transformer: roots and drafted nodes of passes, and chunks of prompts,
// of as many sequences as there is room for.
//
//   batch.Clear();
//   const uint32_t chunk = batch.AddChain(memory_a, prompt_tokens);
//   const uint32_t root = batch.AddChain(memory_b, {&root_token, 1});
//   batch.AddNode(memory_b, token, NodeTree::kChain, 4);                // into slot 4
//
// A row is a token at an index of its sequence; for each group of layers (memory_layout.h) the cell
// that what it leaves behind goes to, and the cells it sees: those of its sequence's chain, of the
// nodes above it, and its own. A row knows nothing of any other sequence.
//
// Memory:  taken once, for `row_count_max` rows whose cells come in as many runs as the longest
//          sequence may have; resident only as far as used.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/kernels/attention.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/memory/rotary_position.h"
#include "common/model/memory/sequence_memory.h"

namespace outrider {

class Batch {
 public:
  static constexpr uint32_t kNoRow = UINT32_MAX;
  static constexpr uint32_t kNoNode = UINT32_MAX;

  // Of one group.
  struct Cells {
    CellAt own;
    uint32_t first_index;          // what it sees begins here
    std::span<const KeyRun> keys;  // of first_index .. its own index
  };

  struct Row {
    TokenId token;
    uint32_t index;                        // in its sequence
    RotaryPosition position;               // its index, unless it is no plain text
    const float* embedding;                // in place of its token's; null: that one
    uint32_t parent;                       // the row just above it in this batch, or kNoRow
    uint32_t node;                         // its slot, or kNoNode: it is a row of a chain
    std::span<const Cells> cells;          // by group
    std::span<const KeyRun> encoder_keys;  // of all cells of its sequence's encoder
  };

  // The rows of one sequence: of its chain, and then of nodes.
  struct Part {
    SequenceMemory* memory;
    uint32_t first_row;
    uint32_t row_count;
    uint32_t chain_count;
  };

  static absl::StatusOr<Batch> Create(const MemoryLayout& layout, const SequenceLimits& limits);
  // What Create() takes for the runs of cells.
  static size_t RunBytes(const MemoryLayout& layout, const SequenceLimits& limits);

  const MemoryLayout& layout() const { return *layout_; }

  void Clear();
  uint32_t row_count() const { return static_cast<uint32_t>(rows_.size()); }
  uint32_t free_row_count() const { return row_count_max_ - row_count(); }
  std::span<const Row> rows() const { return rows_; }
  std::span<const Part> parts() const { return parts_; }

  // Both return the first of the new rows, which follow one another. There is room for them, and
  // the sequence has reserved their cells or slots. A sequence's chain comes before its nodes, and
  // nobody else's rows between them.
  //
  // Tokens that follow the committed cells, instead of the sequence's last chain.
  uint32_t AddChain(SequenceMemory& memory, std::span<const TokenId> tokens);
  // A node goes to `slot`, below that in the slot `parent` or, with NodeTree::kChain, below the
  // chain. What it hangs below is in this batch or was in an earlier one.
  uint32_t AddNode(SequenceMemory& memory, TokenId token, uint32_t parent, uint32_t slot);

  // For rows that are no plain text.
  void SetPosition(uint32_t row, const RotaryPosition& position) { rows_[row].position = position; }
  void SetEmbedding(uint32_t row, const float* embedding) { rows_[row].embedding = embedding; }

 private:
  Batch(const MemoryLayout& layout, uint32_t row_count_max, PageBuffer runs);

  Part& PartOf(SequenceMemory& memory);
  uint32_t RowOfNode(const Part& part, uint32_t slot) const;
  // Runs of the chain's cells [first, end), and of one node's cell wherever it is.
  void AddRuns(const SequenceMemory& memory, uint32_t group, uint32_t first, uint32_t end);
  void AddRun(uint32_t index, const CellAt& cell);
  // Ends what a row sees of one group: the runs added since the last time.
  void AddCells(uint32_t group, uint32_t index, const CellAt& own);
  void AddRow(Part& part, TokenId token, uint32_t index, uint32_t parent, uint32_t node);

  const MemoryLayout* layout_;
  uint32_t group_count_;  // of those that have cells
  uint32_t row_count_max_;
  PageBuffer runs_;
  size_t run_count_ = 0;
  size_t first_run_ = 0;      // of the cells being added
  std::vector<Cells> cells_;  // [row][group]
  std::vector<Row> rows_;     // at most row_count_max_
  std::vector<Part> parts_;
};

}  // namespace outrider
