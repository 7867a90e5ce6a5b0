// Which tokens are left to choose from: top-k and top-p, without sorting a vocabulary.
//
// "Before" below is the order of probability: the higher logit first, of equal ones the lower id.
// Logits order tokens as their probabilities do, and have no rounding that could differ.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

struct Candidate {
  TokenId token;
  float logit;
  double weight;  // probability relative to the most probable token
};

// e^((logit - largest) / temperature): 1 for the most probable token. Everything the chooser does
// with probabilities starts from these.
double WeightOf(float logit, float largest, double temperature);

// The first k tokens in order, in ascending id, with their weights; tokens that are impossible are
// not among them, so there may be fewer. `candidates` must have room for every logit; it is used
// as scratch on the way.
void KeepTopK(std::span<const float> logits, size_t k, float largest, double temperature,
              std::vector<Candidate>& candidates);

// The fewest candidates, taken in order, whose weights add up to `top_p` of all of them; at least
// one. `candidates` come in ascending id and leave in no particular order. The total is summed in
// ascending id, the growing sum in order, both one after the other in double.
void KeepTopP(double top_p, std::vector<Candidate>& candidates);

}  // namespace outrider
