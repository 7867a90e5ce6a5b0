// A model on a device: rows in, and for the rows asked, out comes what was asked of them. Targets,
// drafters, exits and the trainers' recorders are written once, over this; what computes (this
// machine's processor, libtorch, a GPU) and where weights come from is an engine's own affair.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine.Open());
//   OUTRIDER_RETURN_IF_ERROR(engine.Reserve(sequence, chain.size() + depth, nodes.size()));
//   EngineRun run;
//   run.parts = {&part, 1};                    // chain and nodes of `sequence`
//   run.walks = {&walk, 1};                    // which outcome has the tree below row 0?
//   OUTRIDER_RETURN_IF_ERROR(engine.Run(run));
//   engine.Commit(sequence, chain.size(), path);
//
// A sequence, as an engine knows it, is a chain of committed cells and a tree of nodes below them:
//
//   cells    0 .............. length()-1
//                                  \-- slot 4 -- slot 0 -- slot 7
//                                   \- slot 2       \----- slot 3
//
// A run computes rows. Those of a part's `chain` follow the committed cells; those of its `nodes`
// stand below the last of the chain, or below one another, each in a slot that the caller chose.
// Runs commit nothing. A chain that is not committed is overwritten by the next one, and what hung
// below it is gone then; other nodes stay in their slots (for a tree that grows from run to run)
// until Commit() takes them or cuts them off, another row is put there, or they are dropped.
//
// What a layer keeps of all this (keys and values, a recurrent state, the tail of a convolution) is
// sequence memory's business (common/model/memory).
//
// Where layers hear an encoder (model_spec.h), a sequence is told once, before its first row, what
// its encoder says:
//
//   OUTRIDER_RETURN_IF_ERROR(engine.Hear(sequence, states));   // [rows of the encoder, embedding]
//
// That is no cell: all rows hear all of it, whatever is truncated, and so do forks.
//
// Prompts and trees of any number of sequences share one run, and so one read of the weights. What
// is said of a row is a function of the tokens on its way from the sequence's beginning, of what the
// sequence has heard, of the chooser and the history: not of the other rows, of how the tokens got
// there, of threads; to the bit, or to rounding where EngineInfo::batch_invariant says no.
//
// A token's *index* counts in its sequence: noise, history and limits go by it. Its *position* is
// where rotary embeddings turn it to: up to three numbers, all the index in plain text
// (model/memory/rotary_position.h).
//
// Threads: one call at a time, from any thread; an engine shares its work out by itself. Sinks are
//          called on the thread that called Run(), in the middle of it.
// Memory:  taken when it is made. Run() and Commit() do not allocate (engines on libraries that do
//          say so).
// Errors:  what can be wrong with tokens and trees is checked above (engine/target_rules.h); here a
//          caller who contradicts himself is stopped. Run() fails as a whole when weights cannot be
//          read, and then the sequences in it keep their committed cells and nothing else; a walk
//          or ranking fails alone where its logits are no numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/engine/device_work.h"
#include "common/engine/projection.h"
#include "common/engine/tree_pruning.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/model/exits/exit_guess.h"
#include "common/model/exits/exit_scorer.h"
#include "common/model/memory/ledger.h"
#include "common/model/memory/node_tree.h"
#include "common/model/memory/rotary_position.h"
#include "common/model/model_spec.h"
#include "common/model/numerics_id.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"
#include "common/tokens/token_history.h"

namespace outrider {

// Never given twice by one engine.
enum class SequenceId : uint64_t {};

// How much an engine is made for.
struct EngineOptions {
  uint32_t context_length = 0;      // of one sequence; 0: what the model was made for
  uint32_t sequence_count_max = 1;  // at a time
  uint32_t node_count_max = 63;     // slots of one sequence
  uint32_t row_count_max = 256;     // of one run
  uint32_t encoder_length_max = 0;  // rows of an encoder that a sequence hears; 0: it hears none
  uint64_t kv_bytes = 0;            // of sequence memory; 0: all sequences at their longest
  Projection projection = Projection::kAuto;
};

// As they are, but for what was left open, filled in. InvalidArgument when they contradict the
// model, naming what would work.
absl::StatusOr<EngineOptions> CheckOptions(const ModelSpec& spec, EngineOptions options);

struct EngineInfo {
  std::string model_name;
  std::string model_file = {};  // the last part of its path; empty: it was not read from one
  NumericsId numerics_id;
  uint64_t content_hash;
  uint32_t vocabulary_size;
  uint32_t context_length;
  uint32_t sequence_count_max;
  uint32_t node_count_max;
  uint32_t row_count_max;
  uint32_t encoder_length_max;  // 0: no layer hears an encoder
  // Whether bits do not depend on who else is in the run and how many threads compute. Where they
  // do, tokens may differ wherever two are all but equally likely.
  bool batch_invariant;
  // Whether it computes on the processor that everything else here runs on.
  bool on_host_processor;
  // Whether a fork takes no more pages than it has cells of its own.
  bool forks_share_pages;
};

struct EngineNode {
  static constexpr uint32_t kChain = NodeTree::kChain;  // as a parent: the last cell of the chain

  TokenId token;
  uint32_t parent;  // a slot, of this run or an earlier one; or kChain
  uint32_t slot;    // where it goes
};

// What a run has of one sequence. Its rows are those of the chain, then those of the nodes.
struct RunPart {
  SequenceId sequence;
  std::span<const TokenId> chain = {};
  std::span<const EngineNode> nodes = {};  // parents before their children
  // By row, or empty, for rows that are no plain text. Where they stand: of the three numbers, ropes
  // of one (all ropes a LayerSpec can say) turn by the first; where positions are learned it is a
  // row of their table, and below the spec's context_length.
  std::span<const RotaryPosition> positions = {};
  // And what enters the first layer in place of the embedding of their token, [embedding_length];
  // null: that embedding. A token that is replaced so is not looked at.
  std::span<const float* const> embeddings = {};

  uint32_t row_count() const { return static_cast<uint32_t>(chain.size() + nodes.size()); }
};

// Stops a caller whose positions and embeddings do not fit their rows, or the model.
void CheckRows(const RunPart& part, const ModelSpec& spec);

// How many rows of an encoder these are. Stops a caller who has none, or more than the engine is
// made for.
uint32_t CountEncoderRows(std::span<const float> states, const ModelSpec& spec,
                          const EngineInfo& info);

// What becomes of nodes whose chances look small to exits (tree_pruning.h).
enum class Pruning : uint8_t {
  kOff,    // nothing
  kWatch,  // nothing, but it is found out what kOn would have come to
  kOn,     // they are taken out of the layers to come, and count as never drafted
};

// What came of that, of one walk.
struct Pruned {
  uint32_t node_count = 0;  // that were taken out, or would have been
  // What that spares of the run, or would have: a row in all layers is 1.
  float rows = 0;
  uint32_t lost_count = 0;  // nodes on the way to the outcome that would have been taken out
};

// Rows are counted through the run, part after part.
//
// Choosers and histories are given as what they are, plain data: options, vocabulary and noise key;
// tokens and counts. So an engine on a device may choose there, and copy ids instead of logits. A
// chooser's vocabulary may be larger or smaller than the model's, by padding: what the model lacks
// cannot be chosen, what the chooser lacks is not looked at.

// Walks down a tree by the chooser's choices (tokens/outcome.h). Row `root_row` is the root's, and
// the next ones are those of `nodes` in order.
struct TreeWalk {
  uint32_t root_row;
  std::span<const DraftedNode> nodes;
  const Chooser* chooser;
  const TokenHistory* history;               // up to the root and with it
  std::span<const TokenId> candidates = {};  // what exits are to look among besides
  bool is_guessed = true;                    // by the exits that are attached
  // By the same ones, and an engine on the host's processor; others leave all nodes where they are.
  // Of a run where nodes may be taken out no hidden states are asked, nor anything else of those
  // nodes.
  Pruning pruning = Pruning::kOff;

  absl::Status status = {};
  Outcome outcome = {};
  Pruned pruned = {};
};

// The first `count` tokens in the chooser's order, after one row.
struct Ranking {
  uint32_t row;
  const Chooser* chooser;
  const TokenHistory* history;
  std::span<const TokenId> ancestors;  // from below the history's end down to the row's own token
  size_t count;
  std::vector<Ranked>* ranked;  // with room for them

  absl::Status status = {};
};

struct LogitsOfRow {
  uint32_t row;
  std::span<float> out;  // [vocabulary]
};

// The residual stream of all rows after a layer, before any norm.
struct HiddenAfterLayer {
  uint32_t layer;
  std::span<float> out;  // [rows, embedding]
};

struct EngineRun {
  std::span<const RunPart> parts = {};       // each of another sequence
  std::span<TreeWalk> walks = {};            // by rising row
  std::span<Ranking> rankings = {};          // by rising row
  std::span<const LogitsOfRow> logits = {};  // by rising row
  std::span<const HiddenAfterLayer> hidden = {};

  uint32_t row_count() const {
    uint32_t rows = 0;
    for (const RunPart& part : parts) rows += part.row_count();
    return rows;
  }
};

// Hears what exits guess of a run's walks while later layers run (ExitGuess::walk tells which).
class ExitSink {
 public:
  virtual ~ExitSink() = default;
  virtual void OnGuess(const ExitGuess& guess) = 0;
  // All of an exit's guesses of a run have been told: how long they took.
  virtual void OnExitTime(uint32_t, Duration) {}
};

struct ExitOptions {
  ExitScope scope = ExitScope::kCandidates;
  // Of TreeWalk::candidates, of all walks of a run together; more are left out.
  uint32_t candidate_count_max = 256;
  TreePruning::Options pruning = {};
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  virtual const ModelSpec& spec() const = 0;
  // Who holds which pages, and how many are free.
  virtual const Ledger& ledger() const = 0;

  // ResourceExhausted when there are sequence_count_max already.
  virtual absl::StatusOr<SequenceId> Open() = 0;
  // A new sequence with the first `length` of the same cells, or with none where what layers keep
  // cannot be taken back that far; it has heard the same encoder. It shares the old one's memory
  // until they differ, page by page where info().forks_share_pages.
  virtual absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) = 0;
  virtual void Close(SequenceId sequence) = 0;

  // Committed cells.
  virtual uint32_t Length(SequenceId sequence) const = 0;

  // Room for so many cells after the committed ones (of a chain, and of the path that may be
  // committed below it), and for slots 0 .. node_count-1; those there were before keep what they
  // hold. ResourceExhausted, in a sentence, when there is no memory: nothing has changed then.
  virtual absl::Status Reserve(SequenceId sequence, uint32_t cell_count, uint32_t node_count) = 0;

  // What an encoder says to the sequence, [rows, embedding_length], once and before its first row:
  // info().encoder_length_max rows at the most. The states are not looked at afterwards.
  // ResourceExhausted, in a sentence, when there is no memory, and whatever the weights' store
  // fails with: nothing has changed then.
  virtual absl::Status Hear(SequenceId sequence, std::span<const float> states) = 0;

  // Room has been reserved.
  virtual absl::Status Run(EngineRun& run) = 0;

  // The first `chain_count` rows of the last run's chain are committed, and then the nodes in the
  // slots `path`, from below the chain's end downwards: a path only below the whole chain. Nodes
  // below its last one (or, without a path, below the whole chain) hang below the new end of the
  // chain from now on; all others are dropped. Nodes that were taken out of their run (Pruning) are
  // in no path, and in no tree that grows from run to run.
  virtual void Commit(SequenceId sequence, uint32_t chain_count,
                      std::span<const uint32_t> path) = 0;
  virtual void DropNodes(SequenceId sequence) = 0;

  // Forgets all but the first `length` cells, and all nodes. Returns how many are left: fewer where
  // what layers keep cannot be taken back that far (a recurrent state, a window's lost cells), and
  // then the tokens after those are to be computed again.
  virtual uint32_t Truncate(SequenceId sequence, uint32_t length) = 0;

  // From now on these exits, and no others, guess the outcome of walks that are to be guessed.
  // `sink` outlives the runs.
  // InvalidArgument, starting with `path`, for exits of another model. Exits advise: they change no
  // bit of what the engine says.
  virtual absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                                   const ExitOptions& options, ExitSink& sink) = 0;
  virtual void DetachExits() = 0;
  // Between runs. All are on at first. One that does not earn its time is switched off.
  virtual void SwitchExit(uint32_t exit, bool on) = 0;

  // Between runs: what its device has done since this was last asked. None: it is the host's
  // processor, or keeps no account of it.
  virtual std::optional<DeviceWork> CollectDeviceWork() { return std::nullopt; }
};

}  // namespace outrider
