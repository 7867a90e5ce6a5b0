// One session as its verifier keeps it: committed tokens, the copy of the sketch, how tokens are
// chosen and where the reply ends. A server has one for every session, a device that runs the
// target itself has one.
//
//   OUTRIDER_ASSIGN_OR_RETURN(auto sequence, VerifiedSequence::Create(open, tokenizer, limits));
//   OUTRIDER_RETURN_IF_ERROR(sequence->Grow(grow));             // and other messages, as they come
//   if (sequence->writing() && sequence->has_growth()) {
//     const auto nodes = sequence->BeginPass(sequence->pass_nodes());
//     target.Run(...);                                          // nodes, chooser(), history()
//     const Outcome commit = sequence->EndPass(outcome, verdict);
//     target.Commit(id, commit);                                // no more than the reply takes
//   }
//
// What it asks of its caller: the target has the tokens of history() before it runs a pass.
// Between BeginPass() and EndPass() or DropPass() only Grow() and Describe(hint) may be
// called, so that history() stands still for the target.
//
// Who drafts is the device, which sends growth, or whoever runs the target (DraftHere()). Nodes of
// the one that has fallen silent stay as long as the text goes their way.
//
//                    Create, Append                  a stop, the length
//        (awaiting Append) ------> writing, root known ---------> finished
//               ^                       |  ^   |                      |
//               |              Truncate |  |   | BeginPass, EndPass   | Append: next turn
//               +-----------------------+  +---+                      +--> writing
//
// Errors: InvalidArgument for a message that breaks the contract, FailedPrecondition for one that
//         speaks of other committed tokens (both sides have drifted apart). The sequence is of no
//         use after either.
// Memory: taken when it is made, for `length_max` tokens and the sketch; a reply's text and stop
//         strings allocate as text does.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"
#include "common/tokens/chooser.h"
#include "common/tokens/growth_bits.h"
#include "common/tokens/outcome.h"
#include "common/tokens/sketch.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class VerifiedSequence {
 public:
  // What a target and its host can give. An Open gets what it asks for within them.
  struct Limits {
    int32_t vocabulary_size;
    uint32_t context_length;    // tokens a pass may stand on
    uint32_t pass_nodes_max;    // drafted nodes of one pass
    uint32_t sketch_nodes_max;  // above 0
  };

  // `tokenizer` must outlive it. Whether fingerprint and numerics are the device's is the caller's
  // to compare.
  static absl::StatusOr<std::unique_ptr<VerifiedSequence>> Create(const v1::Open& open,
                                                                  const Tokenizer& tokenizer,
                                                                  const Limits& limits);

  // Of a token of its context (token_history.h).
  static constexpr uint64_t kTokenBytes = 12;

  // What takes long of an Append that brings stops, and needs no sequence.
  static absl::StatusOr<StopConditions> ReadStops(const v1::Stops& wire,
                                                  const Tokenizer& tokenizer);

  // Messages. The stops of an Append may have been read, and are taken then.
  absl::Status Grow(const v1::Grow& grow);
  absl::Status Append(const v1::Append& append,
                      std::optional<absl::StatusOr<StopConditions>> stops = {});
  absl::Status Truncate(const v1::Truncate& truncate);
  void Tune(const v1::Tune& tune);

  // Whether what is grown from now on is grown here (Open.draft, Tune.draft), and not by the device.
  void DraftHere(bool here);
  bool drafted_here() const { return drafted_here_; }
  // A chain below the root, and nothing more comes before the next verdict.
  void GrowHere(std::span<const TokenId> chain);

  // A stream attaches anew: an epoch begins. The answer is complete but for its token.
  absl::Status Resume(const v1::Resume& resume, v1::Resumed& resumed);
  // The same for an Open: the first one, or one that is repeated because its answer was lost.
  // InvalidArgument when there have been edits, and so there was an answer.
  absl::Status Attach(v1::Opened& opened);

  // A reply is running and its next token is unknown: a pass may begin.
  bool writing() const;
  v1::Finish finish() const;  // of the reply; FINISH_NONE: it is running, or waits for an Append
  bool has_growth() const { return node_count() > 0; }  // below the root
  uint32_t node_count() const { return static_cast<uint32_t>(sketch_.nodes().size()); }
  // Drafted tokens that a pass over the best `node_count` would commit, if its device is right about
  // them; by default over all it may take.
  double Promise(uint32_t node_count) const;
  double Promise() const { return Promise(pass_nodes_wanted_); }
  // Of the nodes it may take, those that the text passes with so much of a chance, by what its device
  // says. `by_doubt` counts them by how much that is: entry i those of 2^(-i/2).
  uint32_t NodesOfChance(double least, std::span<uint16_t> by_doubt) const;
  // Nothing more comes before the root moves: the device has said so, or no pass could take it.
  bool told_to_go() const { return told_to_go_ || history_.size() == limits_.context_length; }

  // A pass over the root and the best nodes, `node_count_max` at the most and never more than
  // pass_nodes_wanted(). What is returned stays until the next BeginPass().
  std::span<const DraftedNode> BeginPass(uint32_t node_count_max);
  // What the device has drafted just outside the pass that has begun, the most probable first: exits
  // look for the target's choice among these tokens too. Stays until the next call.
  std::span<const TokenId> TokensBeside();
  // Commits what was found, up to where the reply ends, and returns it: a node of the pass, and the
  // token after it. The verdict is complete but for its times.
  Outcome EndPass(const Outcome& found, v1::Verdict& verdict);
  // It came to nothing.
  void DropPass();
  bool in_pass() const { return in_pass_; }
  // An outcome of the pass that is running, as an exit guesses it. Complete but for exit and
  // probability.
  void Describe(const Outcome& guess, v1::Hint& hint) const;
  // Whether nodes are known that would be below the root after it.
  bool IsGrownBelow(const Outcome& guess) const;

  const TokenHistory& history() const { return history_; }
  const Chooser& chooser() const { return chooser_; }
  // What it keeps because its device asked for it: tokens of as long a context, counts for
  // penalties, biases and stop strings. The sketch is as large whatever is asked for.
  uint64_t bytes() const;
  // What was granted.
  uint32_t length_max() const { return limits_.context_length; }
  uint32_t pass_nodes() const { return limits_.pass_nodes_max; }
  // Of those, as many as the device asks for now.
  uint32_t pass_nodes_wanted() const { return pass_nodes_wanted_; }
  // Nodes that growth has named in this epoch.
  NodeId last_id() const { return sketch_.last_id(); }
  uint32_t verdict_count() const { return verdict_count_; }
  // The newest that the device is known to have seen; what was before this epoch it has seen.
  uint32_t seen() const { return seen_; }
  // Of the verdicts since it attached, how many the device has said that it saw, and how many not.
  // What it edits says nothing of that: who never reads may edit all the same.
  uint32_t seen_count() const { return said_seen_ - attached_at_; }
  uint32_t unseen_count() const { return verdict_count_ - said_seen_; }

 private:
  VerifiedSequence(const Limits& granted, Chooser chooser, const Tokenizer& tokenizer);

  absl::Status Begin(const v1::Open& open, std::span<const TokenId> prompt);
  absl::Status CheckSeen(uint32_t seen) const;
  absl::Status CheckNodes(NodeId first_id, uint32_t count) const;
  absl::Status GrowNode(const Sketch::Growth& growth);
  void WantPassNodes(uint32_t count);
  absl::Status AppendReply(std::span<const TokenId> tokens);
  absl::Status AppendTurn(const v1::Append& append,
                          std::optional<absl::StatusOr<StopConditions>> stops);
  void BeginAttachment();
  void BeginEpoch();
  void FindTokens(const Outcome& outcome);
  absl::Status SetStops(const v1::Stops& wire, absl::StatusOr<StopConditions> stops);
  void BeginReply();
  absl::Status ReadTokens(const google::protobuf::RepeatedField<uint32_t>& wire);

  const Limits limits_;  // as granted
  uint32_t pass_nodes_wanted_;
  const Chooser chooser_;
  const Tokenizer& tokenizer_;
  TokenHistory history_;
  uint32_t prompt_length_ = 0;  // of the Open
  Sketch sketch_;

  // The reply refers to the stops.
  std::optional<StopConditions> stops_;
  std::optional<Reply> reply_;
  uint64_t stop_bytes_ = 0;
  bool continues_text_ = false;

  uint32_t verdict_count_ = 0;
  uint32_t epoch_begin_ = 0;  // verdicts before it
  uint32_t seen_ = 0;         // verdicts the device is known to have seen, or epoch_begin_
  uint32_t attached_at_ = 0;  // verdicts before the device attached, whose text it was told then
  uint32_t said_seen_ = 0;    // verdicts the device has said that it saw, or attached_at_
  NodeId next_id_ = 1;        // of growth that does not say
  ToldTokens told_;           // by growth of this epoch
  uint32_t edit_count_ = 0;
  uint32_t edits_told_ = 0;  // of them the device knows, or will when it has read what was answered
  bool told_to_go_ = false;
  bool awaits_append_ = false;  // after a Truncate
  bool is_behind_ = false;      // the device wrote on alone, and is to append
  bool drafted_here_ = false;

  bool in_pass_ = false;
  Sketch::Taken taken_;       // of the pass
  NodeId taken_last_id_ = 0;  // the last one known when it began
  std::vector<TokenId> beside_;
  // Working memory.
  std::vector<uint32_t> path_;
  std::vector<TokenId> tokens_;
};

}  // namespace outrider
