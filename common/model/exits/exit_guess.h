// What an exit says of a walk before the target has spoken, and how far it is to be believed.
//
// The exit walks down the tree as the target does (tokens/outcome.h), by its own choices. At every
// node it stops at, it ranks tokens under the noise of that position; with s the scores of the
// first kRankedMax (Chooser::Rank) and kappa the exit's,
//
//   p_i = e^(s_i / kappa) / sum over j of e^(s_j / kappa)
//
// and the evidence for the outcome is, over all nodes of the walk but for the last line,
//
//   doubt                    the sum of -ln p_0: that every choice is the target's
//   entropy                  the sum of the entropies of p, in nats
//   margin                   the least (s_0 - s_1) / kappa; kMarginMax where there is no second
//   agrees_with_previous     the exit before guessed the same outcome of this walk
//   agrees_with_first_draft  the walk takes the first child of every node down to one without
//                            children: what the draft would bet on. False without drafted nodes
//   largest_softmax          the largest plain softmax probability, without noise and over the
//                            tokens scored, where the walk ends: what the FSD paper ranks hints by
//
// The calibration of the exit (formats/models/exits_file.h) makes a probability of it. Without one
// the probability is e^-doubt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/formats/models/exits_file.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"

namespace outrider {

struct ExitEvidence {
  static constexpr size_t kRankedMax = 32;
  static constexpr float kMarginMax = 64;

  float doubt = 0;
  float entropy = 0;
  float margin = kMarginMax;
  bool agrees_with_previous = false;
  bool agrees_with_first_draft = false;
  float largest_softmax = 1;

  // One more choice. `ranked` is not empty and has kRankedMax tokens at most.
  void AddChoice(std::span<const Ranked> ranked, float kappa);
};

struct ExitGuess {
  uint32_t exit;    // which of the exits
  uint32_t layer;   // that it stands after
  size_t walk;      // which of the run's walks
  Outcome outcome;  // guessed
  ExitEvidence evidence;
  float probability;  // that the verdict is the same
  // What was ranked at each node of the walk, from the root down; valid while the guess is told.
  std::span<const std::span<const Ranked>> ranked;
};

float Evaluate(const PiecewiseLinear& function, float x);

// That the outcome equals the verdict.
float ProbabilityOf(const ExitEvidence& evidence, const ExitCalibration& calibration);
float UncalibratedProbabilityOf(const ExitEvidence& evidence);

// Whether the walk that ended at `end` is the one agrees_with_first_draft speaks of.
bool FollowsFirstDraft(std::span<const DraftedNode> nodes, uint32_t end);

}  // namespace outrider
