// What the target has of one session's tokens, and what it is to do before the session's next pass.
//
//   tokens of the session   0 ................................ history().size()
//   the target has          0 ............ read_count()   prompt, to be read
//
// A target knows of commits and truncations when it is told with the next run, so what it has is
// counted as if it had done them already. It may be made to forget all of it (its memory was needed
// elsewhere); it reads the tokens again then.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/tokens/outcome.h"
#include "common/verification/target_run.h"

namespace outrider {

class SequenceAtTarget {
 public:
  // How far a prompt has got that takes more than a run.
  struct Reading {
    uint32_t begin;  // tokens that were there before
    MonotonicTime since;
  };

  // It is to begin as another sequence does, instead of reading those tokens; with that very
  // sequence where nobody else needs it any more. Nothing is there yet.
  void BeginAs(const TargetFork& fork, bool takes_over);
  // The session's tokens end here now, if they did not before.
  void Truncate(uint32_t length);
  // Nothing is left of it, and what is returned is to be closed.
  std::optional<SequenceId> Forget();

  // Its part of a run, which reads the tokens `prompt` after those there are.
  void BeginWork(std::span<const TokenId> prompt, MonotonicTime now, TargetWork& work);
  // The run has taken place, whether or not it came to something.
  void EndWork(const TargetWork& work);
  // It came to something: the prompt is read. Once it has got to `total`, Reading is over.
  void PromptRead(uint32_t count, uint32_t total);
  // The pass's outcome is to be committed, after which there are so many tokens.
  void PassCommitted(const Outcome& outcome, uint32_t length);

  bool in_run() const { return in_run_; }
  bool awaits_fork() const { return fork_.has_value(); }
  uint32_t read_count() const { return read_count_; }
  // Tokens that the target had when the last run ended, all computed but the last of them: those
  // that others may begin with.
  uint32_t computed_count() const { return computed_count_; }
  const std::optional<Reading>& reading() const { return reading_; }
  // Whether the target holds anything for it.
  bool exists() const { return id_.has_value(); }
  const std::optional<SequenceId>& id() const { return id_; }

 private:
  std::optional<SequenceId> id_;
  std::optional<TargetFork> fork_;
  uint32_t read_count_ = 0;
  uint32_t computed_count_ = 0;
  uint32_t begun_count_ = 0;  // read_count() when the last run began
  std::optional<Outcome> commit_;
  std::optional<uint32_t> truncate_to_;  // after that
  bool in_run_ = false;
  std::optional<Reading> reading_;
};

}  // namespace outrider
