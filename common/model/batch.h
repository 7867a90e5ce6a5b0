// The rows of one run of the transformer: roots and drafted nodes of passes, and chunks of prompts,
// of as many sequences as there is room for.
//
//   batch.Clear();
//   const uint32_t chunk = batch.AddChain(sequence_a, prompt_tokens);   // in place
//   const uint32_t root = batch.AddChain(sequence_b, {&root_token, 1});
//   batch.AddNodes(sequence_b, root, nodes);                            // in scratch
//
// A row is a token at a position, the slot its keys and values go to, and the keys it sees: those
// of its sequence's committed positions, of the rows above it in this batch, and its own. A row
// knows nothing of any other sequence.
//
// Memory:  taken once, for `row_count_max` rows whose keys come in as many runs as the longest
//          sequence may have; resident only as far as used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/kernels/attention.h"
#include "common/model/kv_sequence.h"
#include "common/tokens/outcome.h"

namespace outrider {

class Batch {
 public:
  static constexpr uint32_t kNoRow = UINT32_MAX;

  struct Row {
    TokenId token;
    uint32_t position;
    uint32_t parent;  // the row just above it in this batch, or kNoRow
    KvSlot slot;
    uint32_t first_position;       // what it sees begins here
    std::span<const KeyRun> keys;  // of first_position .. position
  };

  // Positions are below `position_count_max`; a row sees the last `window` of them. AddNode() takes
  // paths of at most `path_length_max`.
  static absl::StatusOr<Batch> Create(uint32_t row_count_max, uint32_t position_count_max,
                                      std::optional<uint32_t> window, uint32_t path_length_max = 0);

  void Clear();
  uint32_t row_count() const { return static_cast<uint32_t>(rows_.size()); }
  uint32_t free_row_count() const { return row_count_max_ - row_count(); }
  std::span<const Row> rows() const { return rows_; }

  // Both return the first of the new rows, which follow one another. There is room for them, the
  // sequence has reserved their positions or scratch slots, and it is not advanced.
  //
  // Tokens at the positions that follow the sequence's committed ones.
  uint32_t AddChain(const KvSequence& sequence, std::span<const TokenId> tokens);
  // Node i goes to scratch slot i. `root` is the last row of a chain of the same sequence.
  uint32_t AddNodes(const KvSequence& sequence, uint32_t root, std::span<const DraftedNode> nodes);

  // One node, to go to the scratch slot `scratch`, whose way down begins after the sequence's last
  // position (which may be in this batch, if the sequence has been advanced) and is the scratch
  // slots `path`: rows of this batch or of earlier ones. For trees that grow from run to run.
  uint32_t AddNode(const KvSequence& sequence, std::span<const uint32_t> path, uint32_t scratch,
                   TokenId token);

 private:
  Batch(uint32_t row_count_max, std::optional<uint32_t> window, PageBuffer runs);

  // The row that goes there, or kNoRow.
  uint32_t RowAt(const KvSlot& slot) const;
  // The first position that a row at `position` sees.
  uint32_t FirstSeen(uint32_t position) const;
  // Runs of positions [first, end) of those in place, and of one position wherever it is.
  void AddRuns(const KvSequence& sequence, uint32_t first, uint32_t end);
  void AddRun(uint32_t position, KvSlot slot);
  // Ends a row: it sees the runs added since the last one.
  void AddRow(TokenId token, uint32_t position, uint32_t parent, KvSlot slot);

  uint32_t row_count_max_;
  std::optional<uint32_t> window_;
  PageBuffer runs_;
  size_t run_count_ = 0;
  size_t first_run_ = 0;        // of the row being added
  std::vector<Row> rows_;       // at most row_count_max_
  std::vector<uint32_t> path_;  // the drafted rows from the present one upwards
};

}  // namespace outrider
