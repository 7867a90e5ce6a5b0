// The part of a target that is about tokens and not about cells: what is refused and in which
// words, and what a commit makes of a pass.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const uint32_t depth, rules_.CheckPass(pass, sequence));
//   ... room for 1 + depth cells ...
//   rules_.AdmitPass(sequence);
//
// Memory:  taken when it is made; nothing allocates afterwards.
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/target.h"

namespace outrider {

// What a target knows of a sequence, without where it is kept.
struct TargetSequence {
  explicit TargetSequence(const TargetInfo& info) {
    tokens.reserve(info.context_length + 1);
    drafted.reserve(info.node_count_max);
  }

  uint64_t id = 0;  // 0: nobody's
  std::vector<TokenId> tokens;
  bool has_pass = false;             // which may be committed
  std::vector<DraftedNode> drafted;  // the nodes of that pass
  std::optional<uint32_t> deepest;   // of them, if it was pruned: its outcome's
  uint64_t last_reading = 0;         // by call of Run()
  uint64_t last_pass = 0;
};

class TargetRules {
 public:
  // `info` outlives it.
  explicit TargetRules(const TargetInfo& info);

  // Of what a sequence of `before` tokens is to read.
  static absl::Status CheckPrompt(const TargetInfo& info, size_t before,
                                  std::span<const TokenId> tokens);

  // Forgets the tokens after `length`, and the last pass.
  static absl::Status Truncate(TargetSequence& sequence, uint32_t length);

  // A call of Run() begins, in which a sequence may have one reading and one pass.
  void BeginCall() { ++calls_; }
  absl::Status CheckReading(const Reading& reading, const TargetSequence& sequence) const;
  void AdmitReading(const Reading& reading, TargetSequence& sequence) const;
  bool ReadsInThisCall(const TargetSequence& sequence) const {
    return sequence.last_reading == calls_;
  }
  // Everything that can be wrong with a pass but the room for it. How far below the root its
  // deepest node is.
  absl::StatusOr<uint32_t> CheckPass(const Pass& pass, const TargetSequence& sequence);
  void AdmitPass(TargetSequence& sequence) const;
  // The pass has an outcome, and may be committed.
  static void Keep(const Pass& pass, const Outcome& outcome, TargetSequence& sequence);

  // The sequence gets the tokens down to the outcome. Returns the nodes on the way, from the root
  // down. They stay until the next call.
  absl::StatusOr<std::span<const uint32_t>> Commit(TargetSequence& sequence,
                                                   const Outcome& outcome);

 private:
  static absl::Status CheckTokens(const TargetInfo& info, std::span<const TokenId> tokens);
  absl::StatusOr<uint32_t> CheckNodes(const TargetSequence& sequence,
                                      std::span<const DraftedNode> nodes);

  const TargetInfo& info_;
  uint64_t calls_ = 0;
  std::vector<uint32_t> depths_;  // of the nodes of the pass being checked
  std::vector<uint32_t> path_;    // of the last commit
};

}  // namespace outrider
