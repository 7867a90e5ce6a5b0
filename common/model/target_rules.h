// The part of a target that is about tokens and not about keys: which sequences there are, what is
// refused and in which words, what a pass chooses and what a commit makes of it. Every target that
// keeps a cache keeps it beside this, so that all refuse the same things.
//
//   OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, table_.Find(pass.sequence));
//   OUTRIDER_ASSIGN_OR_RETURN(const uint32_t depth, rules_.CheckPass(pass, *sequence));
//   ... room for 1 + depth positions ...
//   rules_.Admit(*sequence);
//
// Memory:  taken when it is made; nothing allocates afterwards.
// Threads: one at a time, but for Walk(), which may run in several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/model_spec.h"
#include "common/model/target.h"
#include "common/tokens/chooser.h"

namespace outrider {

// How much a target is made for.
struct TargetLimits {
  uint32_t context_length = 0;      // of one sequence; 0: what the model was made for
  uint32_t sequence_count_max = 1;  // at a time
  uint32_t node_count_max = 63;     // drafted nodes of one pass
  uint32_t row_count_max = 256;     // of one run of the transformer, and so of a prompt's chunk
};

// InvalidArgument when they contradict the model or each other, naming what would work.
absl::Status CheckLimits(const ModelSpec& spec, const TargetLimits& limits);

// An id is a running number and, in its low bits, which sequence of the table it is.
inline constexpr uint32_t kSequenceIndexBits = 16;
inline constexpr uint32_t kSequencesMax = 1 << kSequenceIndexBits;

// What any target knows of a sequence; each adds what its cache has.
struct TargetSequence {
  explicit TargetSequence(const TargetInfo& info) {
    tokens.reserve(info.context_length + 1);
    drafted.reserve(info.node_count_max);
  }

  uint64_t id = 0;  // 0: nobody's
  std::vector<TokenId> tokens;
  bool has_pass = false;             // which may be committed
  std::vector<DraftedNode> drafted;  // the nodes of that pass
  uint64_t last_call = 0;            // of Run()
};

// As many sequences as a target holds at a time, made beforehand. `Sequence` is a TargetSequence.
template <typename Sequence>
class SequenceTable {
 public:
  void Add(std::unique_ptr<Sequence> sequence) {
    OUTRIDER_CHECK(sequences_.size() < kSequencesMax, "the options are checked");
    sequences_.push_back(std::move(sequence));
  }

  absl::StatusOr<Sequence*> Create() {
    const auto unused = std::ranges::find(sequences_, 0u, [](const auto& s) { return s->id; });
    if (unused == sequences_.end()) {
      return ResourceExhausted("all ", sequences_.size(), " sequences are in use; close one");
    }
    const auto index = static_cast<uint64_t>(unused - sequences_.begin());
    (*unused)->id = ++created_ << kSequenceIndexBits | index;
    return unused->get();
  }

  absl::StatusOr<Sequence*> Find(SequenceId id) const {
    const auto number = static_cast<uint64_t>(id);
    const uint64_t index = number & (kSequencesMax - 1);
    if (number == 0 || index >= sequences_.size() || sequences_[index]->id != number) {
      return NotFound("sequence ", number, " was never created, or is closed");
    }
    return sequences_[index].get();
  }

 private:
  std::vector<std::unique_ptr<Sequence>> sequences_;
  uint64_t created_ = 0;
};

class TargetRules {
 public:
  // `info` outlives it.
  explicit TargetRules(const TargetInfo& info);

  absl::Status CheckPrompt(const TargetSequence& sequence, std::span<const TokenId> tokens) const;

  // Forgets the tokens after `length`, and the last pass.
  static absl::Status Truncate(TargetSequence& sequence, uint32_t length);

  // A call of Run() begins, in which a sequence may have one pass.
  void BeginCall() { ++calls_; }
  // Everything that can be wrong with a pass but the room for its keys. How far below the root its
  // deepest node is.
  absl::StatusOr<uint32_t> CheckPass(const Pass& pass, const TargetSequence& sequence);
  void Admit(TargetSequence& sequence) const;

  // What the target chooses, walking down; logits_of(row) are those after the root (row 0) or after
  // node row - 1, and may be written to. `path` and `scratch` are the caller's thread's.
  template <typename LogitsOf>
  absl::StatusOr<Outcome> Walk(const Pass& pass, const TargetSequence& sequence,
                               const LogitsOf& logits_of, std::vector<TokenId>& path,
                               ChooserScratch& scratch) const {
    const auto choose = [&](uint32_t node,
                            std::span<const TokenId> above) -> absl::StatusOr<TokenId> {
      const uint32_t row = node == DraftedNode::kRoot ? 0 : 1 + node;
      const auto position = static_cast<uint32_t>(sequence.tokens.size() + above.size());
      absl::StatusOr<TokenId> chosen =
          pass.chooser->Choose(logits_of(row), position, {*pass.history, above}, scratch);
      if (!chosen.ok()) {
        return FailedPrecondition(info_.model_name, ": no token can be chosen for position ",
                                  position, ": ", Message(chosen.status()));
      }
      return chosen;
    };
    return WalkDown(pass.nodes, path, choose);
  }
  // The pass has an outcome, and may be committed.
  static void Keep(const Pass& pass, TargetSequence& sequence);

  // The sequence gets the tokens down to the outcome. Returns the nodes on the way, from the root
  // down: their keys, after the root's, are the sequence's now. They stay until the next call.
  absl::StatusOr<std::span<const uint32_t>> Commit(TargetSequence& sequence,
                                                   const Outcome& outcome);

 private:
  absl::Status CheckTokens(std::span<const TokenId> tokens) const;
  absl::StatusOr<uint32_t> CheckNodes(const TargetSequence& sequence,
                                      std::span<const DraftedNode> nodes);

  const TargetInfo& info_;
  uint64_t calls_ = 0;
  std::vector<uint32_t> depths_;  // of the nodes of the pass being checked
  std::vector<uint32_t> path_;    // of the last commit
};

}  // namespace outrider
