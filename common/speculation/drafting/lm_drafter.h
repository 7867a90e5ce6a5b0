// A small language model as a drafter, over any engine.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LmDrafter> drafter,
//                             LmDrafter::Create(*engine, chooser));
//   OUTRIDER_RETURN_IF_ERROR(drafter->Read(history, progress));          // a long prompt
//   OUTRIDER_RETURN_IF_ERROR(drafter->Propose(history, nodes, contexts, proposals));
//
// Its first proposal is what it would choose itself, with the target's chooser and so with the
// target's noise; the next ones are those that came close. How sure it is of each is confidence.h's
// to say.
//
// It keeps a sequence of the engine: committed tokens are its cells, every node that was asked
// about (and its ancestors) is in a slot below them.
//
//   cells       0 ............. root
//                                  \-- slot 4 -- slot 0 -- slot 7
//                                   \- slot 2       \----- slot 3
//
// A commit moves the way down the trie into place and keeps what is below the new root; the rest is
// dropped. Nothing is computed twice: not a prefix that several nodes share, nor a node that is
// asked about again. New nodes of a call go through the engine together.
//
// Beyond the engine's context it proposes nothing.
//
// Memory:  256 bytes of candidates a node; the rest is the engine's.
// Threads: one call at a time. Drafters may share an engine, and take turns then.
// Errors:  besides Drafter's: those of the engine, and FailedPrecondition when logits are not
//          numbers. What is computed stays, and what was being computed is forgotten.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/engine/target.h"  // PromptProgress
#include "common/speculation/drafting/confidence.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/chooser.h"
#include "common/tokens/token_history.h"

namespace outrider {

class LmDrafter final : public Drafter {
 public:
  // Opens a sequence; ResourceExhausted when the engine has no more. The engine outlives it.
  // `chooser` is the target's: its vocabulary may have some tokens more or less at the end, as
  // padding. InvalidArgument for an engine that keeps no nodes.
  static absl::StatusOr<std::unique_ptr<LmDrafter>> Create(Engine& engine, const Chooser& chooser);
  ~LmDrafter() override;
  LmDrafter(const LmDrafter&) = delete;
  LmDrafter& operator=(const LmDrafter&) = delete;

  absl::Status Propose(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation& cancellation = Cancellation::Never()) override;

  // Computes what is committed, but for the root, ahead of a Propose() that would have to do so.
  // Cancelled when `progress` (which may be null) said so; what was read by then stays.
  absl::Status Read(const TokenHistory& committed, const PromptProgress& progress);

  const Confidence& confidence() const { return confidence_; }
  uint64_t row_count() const { return row_count_; }  // computed so far, those of prompts included

 private:
  static constexpr uint32_t kRoot = DraftedNode::kRoot;
  static constexpr uint32_t kNone = kRoot - 1;  // no slot

  // A slot of the sequence, and the node in it.
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

  LmDrafter(Engine& engine, SequenceId sequence, const Chooser& chooser);

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
  absl::Status Compute(const TokenHistory& committed, std::span<const DraftedNode> nodes,
                       const Cancellation& cancellation);
  absl::Status ReadChunks(const TokenHistory& committed, size_t end,
                          const PromptProgress& progress);
  uint32_t free_row_count() const;
  void AddChain(std::span<const TokenId> tokens);
  uint32_t AddNode(const TokenHistory& committed, uint32_t parent, TokenId token);
  void AddRanking(const TokenHistory& committed, uint32_t row, uint32_t slot);
  absl::Status Run();
  absl::Status RunRows();
  void Answer(const Context& context, Proposals& proposals);

  uint32_t FindChild(uint32_t parent, TokenId token) const;
  std::vector<Ranked>& RankedOf(uint32_t slot);

  Engine& engine_;
  const EngineInfo& info_;
  const SequenceId sequence_;
  const Chooser chooser_;
  Confidence confidence_;
  uint64_t row_count_ = 0;

  std::vector<TokenId> tokens_;      // committed, and computed: the sequence's cells
  size_t reply_begin_ = 0;           // of the history that candidates were ranked for
  std::vector<Ranked> root_ranked_;  // of the last of them; empty when nobody has asked yet
  std::vector<Slot> slots_;

  // Of one call.
  std::vector<Wish> wishes_;
  std::vector<uint32_t> path_;  // slots
  std::vector<double> probabilities_;
  std::vector<Proposal> list_;

  // The run being put together.
  std::span<const TokenId> chain_;
  std::vector<EngineNode> nodes_;
  std::vector<Ranking> rankings_;
  std::vector<TokenId> ancestors_;  // of one ranking after the other
};

}  // namespace outrider
