// A small language model as a drafter.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LmDrafter> drafter,
//                             LmDrafter::Create(spec, *weights, chooser, {}, kernels, pool));
//   OUTRIDER_RETURN_IF_ERROR(drafter->Read(history, progress));          // a long prompt
//   OUTRIDER_RETURN_IF_ERROR(drafter->Propose(history, nodes, contexts, proposals));
//
// Its first proposal is what it would choose itself, with the target's chooser and so with the
// target's noise; the next ones are those that came close. How sure it is of each is confidence.h's
// to say.
//
// Its cache is a trie: committed tokens in place, every node it was asked about (and its ancestors)
// in a scratch slot below them.
//
//   positions   0 ............. root
//                                  \-- slot 4 -- slot 0 -- slot 7
//                                   \- slot 2       \----- slot 3
//
// A commit moves the way down the trie into place and keeps what is below the new root; the rest is
// dropped. Nothing is computed twice: not a prefix that several nodes share, nor a node that is
// asked about again. New nodes of a call go through the transformer together.
//
// Beyond the model's own context it proposes nothing.
//
// Memory:  activations for `row_count_max` rows, keys and values for `context_length` positions and
//          `node_count_max` nodes, resident only as far as used; 256 bytes of candidates a node.
// Threads: one call at a time; it shares its work out over the pool.
// Errors:  besides Drafter's: those of the weight store, and FailedPrecondition when logits are not
//          numbers. What is computed stays, and what was being computed is forgotten.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/kernels/kernels.h"
#include "common/model/batch.h"
#include "common/model/kv_cache.h"
#include "common/model/kv_sequence.h"
#include "common/model/model_spec.h"
#include "common/model/target.h"  // PromptProgress
#include "common/model/transformer.h"
#include "common/model/weight_store.h"
#include "common/speculation/confidence.h"
#include "common/speculation/drafter.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"

namespace outrider {

struct LmDrafterOptions {
  uint32_t context_length = 0;    // 0: what the model was made for
  uint32_t node_count_max = 256;  // whose keys are kept
  uint32_t row_count_max = 64;    // of one run of the transformer, and so of a prompt's chunk
};

class LmDrafter final : public Drafter {
 public:
  // Weights, kernels and pool outlive it; drafters may share weights. `chooser` is the target's:
  // its vocabulary may have some tokens more or less at the end, as padding. InvalidArgument when
  // the options contradict the model, naming what would work.
  static absl::StatusOr<std::unique_ptr<LmDrafter>> Create(
      const ModelSpec& spec, WeightStore& weights, const Chooser& chooser,
      const LmDrafterOptions& options, const Kernels& kernels, ThreadPool& pool);

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals) override;

  // Computes what is committed, but for the root, ahead of a Propose() that would have to do so.
  // Cancelled when `progress` (which may be null) said so; what was read by then stays.
  absl::Status Read(const TokenHistory& committed, const PromptProgress& progress);

  const Confidence& confidence() const { return confidence_; }
  uint64_t row_count() const { return row_count_; }  // computed so far, those of prompts included

 private:
  static constexpr uint32_t kRoot = DraftedNode::kRoot;
  static constexpr uint32_t kNone = kRoot - 1;  // no slot

  // A scratch slot of the cache, and the node whose keys and values it holds.
  struct Slot {
    bool used = false;
    bool wanted = false;  // the present call's nodes include it
    TokenId token = 0;
    uint32_t parent = kRoot;     // a slot, or kRoot
    std::vector<Ranked> ranked;  // its candidates; room for all of them
  };

  // What a call wants of one of its nodes.
  struct Wish {
    uint32_t depth;
    bool possible;  // its token is the model's, and its position within the context
    bool needed;    // a context, or above one
    uint32_t slot;  // kNone: it has none
  };

  // A row of the batch whose candidates are to be ranked: a slot's or the root's.
  struct PendingRow {
    uint32_t row;
    uint32_t slot;
  };

  // What each thread needs to rank candidates.
  struct Worker {
    ChooserScratch scratch;
    std::vector<TokenId> path;
    std::vector<float> logits;  // of the chooser's vocabulary, where the model's is smaller
  };

  LmDrafter(const ModelSpec& spec, const Chooser& chooser, const LmDrafterOptions& options,
            ThreadPool& pool);
  absl::Status TakeMemory(WeightStore& weights, const Kernels& kernels);

  absl::Status Check(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                     std::span<const Context> contexts) const;

  absl::Status Follow(const TokenHistory& committed);
  bool CanRead(const TokenHistory& committed) const;
  absl::Status ReserveFor(const TokenHistory& committed);
  void Learn(const std::vector<Ranked>& ranked, TokenId chosen);
  void MoveRoot(uint32_t slot);
  bool IsBelow(uint32_t slot, uint32_t above) const;
  static void Free(Slot& slot);
  void Forget(size_t length);

  absl::Status MakeWishes(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                          std::span<const Context> contexts);
  absl::Status MakeRoom(size_t slot_count);
  absl::Status Compute(const TokenHistory& committed, std::span<const DraftedNode> nodes);
  absl::Status ReadChunks(const TokenHistory& committed, size_t end,
                          const PromptProgress& progress);
  void AddChain(std::span<const TokenId> tokens);
  uint32_t AddNode(uint32_t parent, TokenId token);
  absl::Status Run(const TokenHistory& committed);
  absl::Status Rank(const TokenHistory& committed, std::span<const PendingRow> band);
  absl::Status RankRow(const TokenHistory& committed, uint32_t slot, std::span<const float> logits,
                       Worker& worker);
  void Answer(const Context& context, Proposals& proposals);

  uint32_t FindChild(uint32_t parent, TokenId token) const;
  std::vector<Ranked>& RankedOf(uint32_t slot);

  const ModelSpec spec_;
  const Chooser chooser_;
  const LmDrafterOptions options_;  // with the context's length filled in
  ThreadPool& pool_;
  std::unique_ptr<KvCache> cache_;
  std::unique_ptr<KvSequence> kv_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<Batch> batch_;
  Confidence confidence_;
  uint64_t row_count_ = 0;

  std::vector<TokenId> tokens_;      // committed, and computed: kv_'s positions
  size_t reply_begin_ = 0;           // of the history that candidates were ranked for
  std::vector<Ranked> root_ranked_;  // of the last of them; empty when nobody has asked yet
  std::vector<Slot> slots_;          // as the cache's scratch

  // Of one call.
  std::vector<Wish> wishes_;
  std::vector<PendingRow> pending_;
  std::vector<uint32_t> path_;        // slots
  std::vector<uint32_t> logit_rows_;  // of a band
  std::vector<absl::Status> ranking_;
  std::vector<Worker> workers_;
  std::vector<double> probabilities_;
  std::vector<Proposal> list_;
};

}  // namespace outrider
