#include "common/tokens/chooser.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/tokens/maximum.h"
#include "common/tokens/noise.h"
#include "common/tokens/race.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Of the first one that is wrong.
absl::Status UnsoundLogit(std::span<const float> logits, uint32_t position) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float z) { return !(z < kInfinity); });
  return InvalidArgument("the logit of token ", bad - logits.begin(), " at position ", position,
                         " is ", *bad != *bad ? "not a number" : "plus infinity",
                         ": the model's weights or their arithmetic are broken");
}

}  // namespace

ChooserScratch::ChooserScratch(int32_t vocabulary_size)
    : logits_(static_cast<size_t>(vocabulary_size)),
      extra_counts_(static_cast<size_t>(vocabulary_size)) {
  candidates_.reserve(static_cast<size_t>(vocabulary_size));
}

absl::StatusOr<Chooser> Chooser::Create(SamplingOptions options, int32_t vocabulary_size) {
  OUTRIDER_RETURN_IF_ERROR(options.Validate(vocabulary_size));
  return Chooser(std::move(options), vocabulary_size);
}

Chooser::Chooser(SamplingOptions options, int32_t vocabulary_size)
    : options_(std::move(options)), vocabulary_size_(vocabulary_size) {}

absl::StatusOr<TokenId> Chooser::Choose(std::span<const float> logits, uint32_t position,
                                        const NodeHistory& history, ChooserScratch& scratch) const {
  OUTRIDER_CHECK(logits.size() == static_cast<size_t>(vocabulary_size_),
                 "a chooser sees one logit for each token it was made for");
  OUTRIDER_CHECK(scratch.logits_.size() == logits.size(), "the scratch is of this vocabulary");
  const ScopedIeeeMode ieee_mode;  // what computes below are calls, as ieee_mode.h asks

  const std::span<const float> adjusted = Adjust(logits, history, scratch);
  const Maximum maximum = FindMaximum(adjusted);
  if (!maximum.sound) return UnsoundLogit(adjusted, position);
  if (maximum.value == -kInfinity) {
    return InvalidArgument("no token is possible at position ", position,
                           ": every logit is minus infinity, by the model or by logit_bias");
  }
  if (options_.greedy()) return maximum.token;

  const Noise noise(options_.seed, options_.sample, position);
  const bool all = options_.top_k == 0 || options_.top_k >= vocabulary_size_;
  if (all && options_.top_p == 1) {
    return RaceOfAll(adjusted, maximum, options_.temperature, options_.min_p, noise);
  }
  const size_t k = all ? adjusted.size() : static_cast<size_t>(options_.top_k);
  KeepTopK(adjusted, k, maximum.value, options_.temperature, scratch.candidates_);
  if (options_.top_p < 1) KeepTopP(options_.top_p, scratch.candidates_);
  return RaceOfCandidates(scratch.candidates_, maximum.token, options_.min_p, noise);
}

std::span<const float> Chooser::Adjust(std::span<const float> logits, const NodeHistory& history,
                                       ChooserScratch& scratch) const {
  if (!options_.penalizes() && options_.logit_bias.empty()) return logits;
  std::copy(logits.begin(), logits.end(), scratch.logits_.begin());
  if (options_.penalizes()) Penalize(history, scratch);
  for (const auto& [token, bias] : options_.logit_bias) {
    float& logit = scratch.logits_[static_cast<size_t>(token)];
    logit = static_cast<float>(static_cast<double>(logit) + static_cast<double>(bias));
  }
  return scratch.logits_;
}

// Each token of the history once, with its count in all of it.
void Chooser::Penalize(const NodeHistory& history, ChooserScratch& scratch) const {
  const TokenHistory& committed = history.committed;
  OUTRIDER_CHECK(committed.counts_tokens() && committed.vocabulary_size() == vocabulary_size_,
                 "penalties need a history that counts the tokens of this vocabulary");
  std::vector<uint32_t>& extra = scratch.extra_counts_;
  for (const TokenId token : history.ancestors) {
    OUTRIDER_CHECK(token >= 0 && token < vocabulary_size_,
                   "a sketch holds tokens of the vocabulary");
    ++extra[static_cast<size_t>(token)];
  }
  const auto penalize = [&](TokenId token, uint32_t reply_count) {
    float& logit = scratch.logits_[static_cast<size_t>(token)];
    logit = Penalized(logit, reply_count);
  };
  for (const TokenId token : committed.distinct()) {
    penalize(token, committed.ReplyCountOf(token) + extra[static_cast<size_t>(token)]);
  }
  for (const TokenId token : history.ancestors) {
    uint32_t& count = extra[static_cast<size_t>(token)];
    if (count != 0 && committed.CountOf(token) == 0) penalize(token, count);
    count = 0;
  }
}

float Chooser::Penalized(float logit, uint32_t reply_count) const {
  double z = logit;
  z = z > 0 ? z / options_.repetition_penalty : z * options_.repetition_penalty;
  z = z - options_.frequency_penalty * reply_count;
  if (reply_count != 0) z = z - options_.presence_penalty;
  return static_cast<float>(z);
}

}  // namespace outrider
