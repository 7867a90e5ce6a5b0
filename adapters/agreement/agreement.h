// How far a draft foresees its target: at every token that the target has written, whether the
// draft, asked there, would have said the same. From that follows what any chain of drafted tokens
// brings, without one pass of the target: a chain goes on from text that both agree about.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const Agreement agreement,
//                             Compare(drafter, vocabulary_size, text, /*prompt_length=*/16));
//   std::cout << MeanAccepted({&agreement, 1}, 4);  // of four drafted tokens, so many are right
//
// The first proposal of a drafter is what it would choose with its chooser: with the target's noise
// where it was made with the target's chooser, with noise of its own where the seed is another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/speculation/drafting/drafter.h"

namespace outrider {

// By token of a reply: 1 where the draft says what the target has written.
using Agreement = std::vector<uint8_t>;

// `text` is a prompt of so many tokens and the reply. Errors are the drafter's.
absl::StatusOr<Agreement> Compare(Drafter& drafter, int32_t vocabulary_size,
                                  std::span<const TokenId> text, size_t prompt_length);

// The share of all tokens that draft and target agree about; 0 when there are none.
double FirstChoiceRate(std::span<const Agreement> replies);

// Of a chain of `drafted` tokens, how many the target accepts on the mean, when each chain begins
// behind the token that the pass over the last one added. Chains that the end of a reply would
// cut short are left out; 0 when that leaves none.
double MeanAccepted(std::span<const Agreement> replies, uint32_t drafted);

// The share of 4-grams that the text has said before. Small models repeat themselves when greedy,
// and whoever repeats himself is easily foreseen.
double Repetition(std::span<const TokenId> tokens);

}  // namespace outrider
