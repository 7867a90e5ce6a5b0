// The large model, as verifiers see it: sequences, readings of prompts, and passes over what others
// have drafted. Over any engine (engine_target.h); simulated and scripted ones stand in for it.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const SequenceId id, target.CreateSequence());
//   OUTRIDER_RETURN_IF_ERROR(target.Prefill(id, prompt, nullptr));
//   for (;;) {
//     target.Run({}, {&pass, 1}, {&result, 1});      // pass: drafted nodes, chooser, history
//     OUTRIDER_RETURN_IF_ERROR(result.status);
//     OUTRIDER_RETURN_IF_ERROR(target.Commit(id, result.outcome));
//   }
//
// A sequence is its committed tokens. The last of them is the root: its successor is unknown, and
// it is computed by the pass that asks for the successor. A pass is the root and a tree of drafted
// nodes below it; its outcome is where the target's own choices leave that tree, and the token it
// chooses there. Without drafted nodes a pass is ordinary decoding. A reading appends tokens; what
// several sequences read and pass goes through the model together, in one run as far as there are
// rows for.
//
// Run() decides nothing for good about a pass: the caller looks at the outcome (a stop string may
// end the text half way), commits as much of it as it wants, or drops it by running another pass.
//
// A pass may be pruned: exits take nodes out of it half-way, and its outcome is where the target's
// choices leave what is left of the tree.
//
// What a pass says is a function of the sequence's tokens, the chooser and the history. It does not
// depend on the tree, on who else is in the call, or on how the tokens got here (in one prompt,
// chunk by chunk, drafted and accepted, forked, truncated and read again): to the bit, or to
// rounding where TargetInfo::batch_invariant says no.
//
// Threads: one call at a time.
// Memory:  taken when the target is made. Run() and Commit() do not allocate.
// Errors:  one sentence each, about one sequence; the others go on undisturbed, and so does this
//          one unless it was closed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/device_work.h"
#include "common/engine/engine.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/model/memory/ledger.h"
#include "common/model/numerics_id.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"
#include "common/tokens/token_history.h"

namespace outrider {

// Tokens that a sequence reads.
struct Reading {
  SequenceId sequence;
  std::span<const TokenId> tokens;

  absl::Status status = {};
};

struct Pass {
  SequenceId sequence;
  std::span<const DraftedNode> nodes;
  const Chooser* chooser;
  const TokenHistory* history;  // of the sequence's committed tokens
  // What the draft thought of besides: exits look for the target's choice among these too.
  std::span<const TokenId> candidates = {};
  bool is_guessed = true;           // by exits, where there are any and somebody hears them
  Pruning pruning = Pruning::kOff;  // by exits, where there are any
};

struct PassResult {
  absl::Status status;
  Outcome outcome;  // when the status is OK
  Pruned pruned = {};
};

struct TargetInfo {
  std::string model_name;
  NumericsId numerics_id;
  uint32_t vocabulary_size;
  uint32_t context_length;       // tokens of one sequence
  uint32_t node_count_max;       // drafted nodes of one pass
  uint32_t sequence_count_max;   // at a time
  uint32_t row_count_max = 256;  // of one run of the model: tokens read, roots and nodes
  // What sequences are kept in. Who plans by pages makes a Ledger of these.
  std::vector<PageGroup> page_groups = {};
  // Whether a pass says the same to the bit whoever else is in the call and however many threads
  // run. Where it does not, tokens may differ wherever two are all but equally likely.
  bool batch_invariant = true;
  // Whether it computes on the processor that everything else here runs on.
  bool on_host_processor = true;
  // Whether a fork of n * kPageTokens + 1 tokens, all computed but for the root, shares n pages and
  // so takes that many fewer.
  bool forks_share_pages = false;
  // Where its exits stand, in thousandths of its layers, by exit. None: it has no exits.
  std::vector<uint32_t> exit_depths = {};
};

// Told after every chunk how many of the tokens that had to be computed are; false stops.
using PromptProgress = std::function<bool(uint32_t processed, uint32_t total)>;

class Target {
 public:
  virtual ~Target() = default;

  virtual const TargetInfo& info() const = 0;

  // ResourceExhausted when there are sequence_count_max already.
  virtual absl::StatusOr<SequenceId> CreateSequence() = 0;
  // A new sequence with the first `length` of the same tokens, which shares the old one's memory
  // until they differ. InvalidArgument when there are fewer.
  virtual absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) = 0;
  virtual absl::Status Close(SequenceId sequence) = 0;
  // Forgets all but the first `length` tokens. Returns how many of those are still computed: all
  // but the root, or fewer where memory cannot be taken back that far. The next pass computes what
  // is not, before its root.
  virtual absl::StatusOr<uint32_t> Truncate(SequenceId sequence, uint32_t length) = 0;
  virtual absl::StatusOr<uint32_t> Length(SequenceId sequence) const = 0;

  // Readings append their tokens and compute all but the root, which is the last of them then, each
  // before its sequence's pass, if it has one in this call. results[i] is that of passes[i]. Each
  // fails or succeeds alone; a reading that fails has changed nothing. Exits that are attached
  // guess only of passes.
  //
  // InvalidArgument for tokens outside the vocabulary or too many for the context, nodes whose
  // parents do not come before them, a tree that does not fit into pass or context, a history of
  // another length (than after the reading), a sequence without tokens or given twice;
  // ResourceExhausted when there is no memory for the keys; FailedPrecondition when logits on the
  // way to an outcome are not numbers.
  virtual void Run(std::span<Reading> readings, std::span<const Pass> passes,
                   std::span<PassResult> results) = 0;

  // The path down to outcome.node joins the committed tokens, and outcome.next becomes the root.
  // Any node of the sequence's last pass may be committed, and any token; of one that was pruned
  // only those on the way to its outcome. FailedPrecondition when there was no pass since the last
  // change.
  virtual absl::Status Commit(SequenceId sequence, const Outcome& outcome) = 0;

  // Who hears what exits guess of passes (ExitGuess::walk: which of the call's), on the thread that
  // called Run() and in the middle of it; null: nobody, and nothing is guessed. Outlives the calls.
  virtual void HearExits(ExitSink* /*sink*/) {}
  // Between calls. All are on at first.
  virtual void SwitchExit(uint32_t /*exit*/, bool /*on*/) {}

  // Between calls: as Engine::CollectDeviceWork().
  virtual std::optional<DeviceWork> CollectDeviceWork() { return std::nullopt; }

  // One reading, in chunks of row_count_max. Cancelled when `progress` (which may be null) said so:
  // the sequence keeps the tokens read so far. After any other error it has the tokens it had.
  absl::Status Prefill(SequenceId sequence, std::span<const TokenId> tokens,
                       const PromptProgress& progress);
};

}  // namespace outrider
