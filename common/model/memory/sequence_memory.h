// What a model's layers keep of one sequence: a chain of committed cells, and a tree of nodes below
// them.
//
//   cells    0 .............. length()-1
//                                  \-- slot 4 -- slot 0 -- slot 7
//                                   \- slot 2       \----- slot 3
//
//   OUTRIDER_RETURN_IF_ERROR(memory.Reserve(3, 8));   // a chain of 1, 2 of its nodes; slots 0 .. 7
//   batch.AddChain(memory, {&root, 1});
//   batch.AddNode(memory, token_a, NodeTree::kChain, 4);
//   batch.AddNode(memory, token_b, 4, 0);
//   ... the forward pass ...
//   memory.Commit(1, {{4, 0}});                       // the chain's row, then the path
//
// The rows of a chain are written behind the committed cells, and are overwritten by the next chain
// unless they are committed. Nodes go to slots and stay there, over any number of runs, until they
// are committed or dropped, another node takes their slot, or what they hang below is gone: after a
// Commit() the nodes that hang below the new end stay, and no others.
//
// Which layer keeps what is the layout's to say (memory_layout.h). Attention and convolution cells
// lie in pages (cell_table.h), and a commit copies a node's to the next cell. A recurrent state has
// a base, after the committed cells, which a commit takes forward along the path it takes.
//
// A fork shares what the other has, until one of them is to write there and gets a copy of its own.
//
// Memory:  its lists are as long as they can get when it is made; nothing allocates afterwards.
// Threads: one at a time for all sequences of one PageMemory.
// Errors:  ResourceExhausted when there are too few free pages; nothing has changed then.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/kernels/attention.h"
#include "common/model/memory/cell_table.h"
#include "common/model/memory/ledger.h"
#include "common/model/memory/node_tree.h"
#include "common/model/memory/page_memory.h"

namespace outrider {

class SequenceMemory {
 public:
  // `memory` outlives it.
  SequenceMemory(PageMemory& memory, const SequenceLimits& limits);
  ~SequenceMemory();
  SequenceMemory(const SequenceMemory&) = delete;
  SequenceMemory& operator=(const SequenceMemory&) = delete;

  // Committed cells.
  uint32_t length() const { return length_; }
  // Cells there are with the present chain's, which hangs below the committed ones.
  uint32_t chain_end() const { return length_ + chain_count_; }
  const NodeTree& nodes() const { return nodes_; }
  const MemoryLayout& layout() const { return layout_; }

  // Room for `cell_count` cells more, of chains and of the paths that are committed with them, and
  // for slots 0 .. node_count-1; nodes that were there before keep what they hold.
  absl::Status Reserve(uint32_t cell_count, uint32_t node_count);

  // The first `chain_count` rows of the present chain are committed, and then the nodes in the
  // slots `path`, from below its end downwards.
  void Commit(uint32_t chain_count, std::span<const uint32_t> path);
  void DropNodes();

  // Forgets all but the first `length` cells, the chain and all nodes, and what was reserved.
  // Returns how many cells are left: none where what layers keep cannot be taken back that far (a
  // recurrent state, cells that have left a window).
  uint32_t Truncate(uint32_t length);
  // Forgets everything, encoder cells too.
  void Clear();

  // Becomes the first `length` cells that `other` has committed, or none where Truncate() would
  // leave none. This one is empty, of the same PageMemory. What is reserved for `other` stays so,
  // and may take more pages now that it shares some (not by whole pages of cells alone):
  // ResourceExhausted, and this one is empty still, when they are not to be had.
  absl::Status ForkFrom(SequenceMemory& other, uint32_t length);

  // An encoder's cells, as many as it has; they are written once, and every row sees them all.
  absl::Status ReserveEncoder(uint32_t cell_count);
  void DropEncoder();
  CellAt AtEncoder(uint32_t index) const;
  std::span<const KeyRun> encoder_keys() const { return encoder_keys_; }

  // --- for batches and mixers ---

  // A chain of so many rows follows the committed cells, instead of the last one.
  void PlaceChain(uint32_t row_count);
  // A node goes to a slot, below that in the slot `parent` or, with NodeTree::kChain, the chain.
  void PlaceNode(uint32_t slot, uint32_t parent);
  std::span<const uint32_t> PathTo(uint32_t slot) { return nodes_.PathTo(slot); }

  // Of a group that has cells.
  CellAt AtCell(uint32_t group, uint32_t index) const { return tables_[group].AtCell(index); }
  CellAt AtNode(uint32_t group, uint32_t slot) const { return tables_[group].AtNode(slot); }
  // The state of a recurrent layer after the committed cells; null: it is that of no tokens.
  const float* Base(uint32_t layer) const;

 private:
  bool CanTruncate(uint32_t length) const;
  absl::Status Promise();
  void PromiseAnew();
  void ReplayPath(uint32_t chain_count, std::span<const uint32_t> path);
  void OwnBase();
  void DropBase();
  void Advance(uint32_t length);

  PageMemory& memory_;
  const MemoryLayout& layout_;
  Ledger& ledger_;
  const SequenceLimits limits_;
  const PageOwner owner_;

  NodeTree nodes_;
  std::vector<CellTable> tables_;  // by group, of those that have cells
  uint32_t length_ = 0;
  uint32_t chain_count_ = 0;  // of the present chain, not committed

  std::optional<uint32_t> base_page_;
  std::vector<uint32_t> encoder_pages_;
  std::vector<KeyRun> encoder_keys_;

  // What has been reserved.
  uint32_t cell_end_ = 0;
  uint32_t node_count_ = 0;

  std::vector<uint32_t> page_counts_;  // what Promise() asks for, by group
  std::vector<CellAt> taken_;          // the inputs that ReplayPath() goes through
};

}  // namespace outrider
