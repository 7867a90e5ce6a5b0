// What a draft would have proposed, and what exits would have guessed, all along a text that its
// target has written, as a trace that the simulator runs (simulator/sources/trace.h).
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::string trace, RecordAcceptance(asked));
//
// Drafts are right in stretches: where a text is easy they are right token after token, and sure of
// it. A simulated draft that is right with the same chance everywhere is another draft.
//
// The draft learns from the reply's tokens as it would beside a session, and is asked at every
// place for its best kGuesses, with their confidences. Those are what exits look among beside their
// frequent tokens, as they would in a pass whose sketch holds them; at every place the target runs
// a pass over the root alone, and each exit says its token, how probable it is that the target
// chooses it (not by its calibration, which is of passes with drafted nodes, but by its scores),
// and its largest softmax. The last line is a comment: how often each was right there, and how
// often it should have been.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/tokens/sampling.h"

namespace outrider {

struct RecordingAsked {
  static constexpr uint32_t kGuesses = 8;

  std::string target;
  std::string draft;
  std::string exits = {};  // of the target; empty: none are asked
  std::string prompt;
  uint32_t tokens = 200;
  SamplingOptions sampling = {};
  uint32_t threads = 1;
};

// The trace's text. Errors are those of models and prompts.
absl::StatusOr<std::string> RecordAcceptance(const RecordingAsked& asked);

}  // namespace outrider
