// Fits how far an exit is to be believed, from what it guessed and what came of it.
//
// First kappa, for itself: the likeliest, where the target's choice is drawn from softmax(score /
// kappa) of what the exit has ranked. Every node counts that exit and target both stood at, where
// the target took one of the ranked. In 1 / kappa that likelihood is concave. (It is the model of
// speculation/confidence.h, which learns it on the way; here all choices are there at once.)
//
// Then, with the evidence as that kappa has it, the monotone model of EXITS.md: bends at quantiles
// of the evidence, so that there is as much to learn from between any two, and slopes by logistic
// regression that may not have the wrong sign. A light penalty keeps slopes finite where all
// guesses were right, and does nothing else to speak of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "adapters/calibration/guess_log.h"
#include "common/formats/models/exits_file.h"
#include "common/model/exits/exit_guess.h"

namespace outrider {

// Passes of each mode that a fit needs: some 40 for each of its dozen numbers.
inline constexpr size_t kPassesToFit = 500;

// kKappaMin to kKappaMax; 1 when there is nothing to learn it from.
inline constexpr float kKappaMin = 1.0f / 64;
inline constexpr float kKappaMax = 64;
float FitKappa(std::span<const GuessLog::Choice> choices);

// outcomes[i]: whether the guess with evidence[i] was right. The evidence is that of `kappa`.
ExitCalibration FitEvidence(std::span<const ExitEvidence> evidence,
                            std::span<const uint8_t> outcomes, float kappa);

// Both, of what the log has of the exit.
ExitCalibration FitExit(const GuessLog& log, uint32_t exit);

}  // namespace outrider
