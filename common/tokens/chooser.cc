#include "common/tokens/chooser.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/portable_math.h"
#include "common/base/status.h"
#include "common/tokens/maximum.h"
#include "common/tokens/noise.h"
#include "common/tokens/race.h"

namespace outrider {
namespace {

// Of the first one that is wrong.
absl::Status UnsoundLogit(std::span<const float> logits, uint32_t position) {
  const auto bad =
      std::find_if(logits.begin(), logits.end(), [](float z) { return !(z < kInfinity); });
  return InvalidArgument("the logit of token ", bad - logits.begin(), " at position ", position,
                         " is ", *bad != *bad ? "not a number" : "plus infinity",
                         ": the model's weights or their arithmetic are broken; `outrider inspect "
                         "--weights` on its file says which weights are");
}

void RankLogits(std::span<const float> logits, float largest, size_t count,
                std::vector<Candidate>& candidates, std::vector<Ranked>& ranked) {
  KeepTopK(logits, count, largest, /*temperature=*/1, candidates);
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
  });
  for (const Candidate& candidate : candidates) {
    ranked.push_back({candidate.token, candidate.logit - largest});
  }
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
  const ScopedIeeeMode ieee_mode;  // what computes below are calls, as ieee_mode.h asks
  const std::span<const float> adjusted = Adjust(logits, history, scratch);
  OUTRIDER_ASSIGN_OR_RETURN(const Maximum maximum, CheckedMaximum(adjusted, position));
  if (options_.greedy()) return maximum.token;

  const Noise noise(options_.seed, options_.sample, position);
  if (LeavesAll()) {
    return RaceOfAll(adjusted, maximum, options_.temperature, options_.min_p, noise);
  }
  KeepCandidates(adjusted, maximum, scratch.candidates_);
  return RaceOfCandidates(scratch.candidates_, maximum.token, options_.min_p, noise);
}

absl::Status Chooser::Rank(std::span<const float> logits, uint32_t position,
                           const NodeHistory& history, size_t count, ChooserScratch& scratch,
                           std::vector<Ranked>& ranked) const {
  OUTRIDER_CHECK(count > 0, "somebody comes first");
  const ScopedIeeeMode ieee_mode;
  const std::span<const float> adjusted = Adjust(logits, history, scratch);
  OUTRIDER_ASSIGN_OR_RETURN(const Maximum maximum, CheckedMaximum(adjusted, position));
  ranked.clear();
  if (options_.greedy()) {
    RankLogits(adjusted, maximum.value, count, scratch.candidates_, ranked);
    return absl::OkStatus();
  }
  const Noise noise(options_.seed, options_.sample, position);
  std::vector<Candidate>& candidates = scratch.candidates_;
  std::vector<Finisher>& finishers = scratch.finishers_;
  if (LeavesAll()) {
    KeepTopK(adjusted, count, maximum.value, options_.temperature, candidates);
    RankOfAll(adjusted, candidates, maximum.value, options_.temperature, options_.min_p, noise,
              count, finishers);
  } else {
    KeepCandidates(adjusted, maximum, candidates);
    RankOfCandidates(candidates, options_.min_p, noise, count, finishers);
  }
  for (const auto& [token, time] : finishers) {
    ranked.push_back({token, static_cast<float>(-portable::Log(time))});
  }
  return absl::OkStatus();
}

absl::Status Chooser::RankAmong(std::span<const TokenId> tokens, std::span<const float> logits,
                                uint32_t position, const NodeHistory& history, size_t count,
                                ChooserScratch& scratch, std::vector<Ranked>& ranked) const {
  OUTRIDER_CHECK(count > 0 && !tokens.empty() && tokens.size() == logits.size(),
                 "somebody comes first, and each has a logit");
  const ScopedIeeeMode ieee_mode;
  // Below, a token is its place among them until the race, whose noise goes by its id.
  const std::span<const float> adjusted = AdjustAmong(tokens, logits, history, scratch);
  OUTRIDER_ASSIGN_OR_RETURN(const Maximum maximum, CheckedMaximum(adjusted, position));
  ranked.clear();
  if (options_.greedy()) {
    RankLogits(adjusted, maximum.value, count, scratch.candidates_, ranked);
    for (Ranked& one : ranked) one.token = tokens[static_cast<size_t>(one.token)];
    return absl::OkStatus();
  }
  const Noise noise(options_.seed, options_.sample, position);
  if (LeavesAll()) {
    RankOfSome(tokens, adjusted, maximum.value, options_.temperature, options_.min_p, noise, count,
               scratch.racers_, scratch.finishers_);
  } else {
    std::vector<Candidate>& candidates = scratch.candidates_;
    KeepCandidates(adjusted, maximum, candidates);
    for (Candidate& one : candidates) one.token = tokens[static_cast<size_t>(one.token)];
    RankOfCandidates(candidates, options_.min_p, noise, count, scratch.finishers_);
  }
  for (const auto& [token, time] : scratch.finishers_) {
    ranked.push_back({token, static_cast<float>(-portable::Log(time))});
  }
  return absl::OkStatus();
}

absl::StatusOr<Maximum> Chooser::CheckedMaximum(std::span<const float> adjusted,
                                                uint32_t position) const {
  const Maximum maximum = FindMaximum(adjusted);
  if (!maximum.sound) return UnsoundLogit(adjusted, position);
  if (maximum.value == -kInfinity) {
    return InvalidArgument("no token is possible at position ", position,
                           ": every logit is minus infinity, by the model or by logit_bias");
  }
  return maximum;
}

bool Chooser::LeavesAll() const {
  return (options_.top_k == 0 || options_.top_k >= vocabulary_size_) && options_.top_p == 1;
}

// What top-k and top-p leave; min-p is the race's.
void Chooser::KeepCandidates(std::span<const float> adjusted, const Maximum& maximum,
                             std::vector<Candidate>& candidates) const {
  const bool all = options_.top_k == 0 || options_.top_k >= vocabulary_size_;
  const size_t k =
      all ? adjusted.size() : std::min(adjusted.size(), static_cast<size_t>(options_.top_k));
  KeepTopK(adjusted, k, maximum.value, options_.temperature, candidates);
  if (options_.top_p < 1) KeepTopP(options_.top_p, candidates);
}

std::span<const float> Chooser::Adjust(std::span<const float> logits, const NodeHistory& history,
                                       ChooserScratch& scratch) const {
  OUTRIDER_CHECK(logits.size() == static_cast<size_t>(vocabulary_size_),
                 "a chooser sees one logit for each token it was made for");
  OUTRIDER_CHECK(scratch.logits_.size() == logits.size(), "the scratch is of this vocabulary");
  if (!options_.penalizes() && options_.logit_bias.empty()) return logits;
  std::copy(logits.begin(), logits.end(), scratch.logits_.begin());
  if (options_.penalizes()) Penalize(history, scratch);
  for (const auto& [token, bias] : options_.logit_bias) {
    float& logit = scratch.logits_[static_cast<size_t>(token)];
    logit = static_cast<float>(static_cast<double>(logit) + static_cast<double>(bias));
  }
  return scratch.logits_;
}

std::span<const float> Chooser::AdjustAmong(std::span<const TokenId> tokens,
                                            std::span<const float> logits,
                                            const NodeHistory& history,
                                            ChooserScratch& scratch) const {
  if (!options_.penalizes() && options_.logit_bias.empty()) return logits;
  const std::span<float> adjusted = std::span(scratch.logits_).first(tokens.size());
  std::ranges::copy(logits, adjusted.begin());
  if (options_.penalizes()) {
    std::vector<uint32_t>& extra = scratch.extra_counts_;
    for (const TokenId token : history.ancestors) ++extra[static_cast<size_t>(token)];
    for (size_t i = 0; i < tokens.size(); ++i) {
      const uint32_t ancestors = extra[static_cast<size_t>(tokens[i])];
      if (ancestors == 0 && history.committed.CountOf(tokens[i]) == 0) continue;
      adjusted[i] = Penalized(adjusted[i], history.committed.ReplyCountOf(tokens[i]) + ancestors);
    }
    for (const TokenId token : history.ancestors) extra[static_cast<size_t>(token)] = 0;
  }
  for (const auto& [token, bias] : options_.logit_bias) {
    const auto found = std::ranges::lower_bound(tokens, token);
    if (found == tokens.end() || *found != token) continue;
    float& logit = adjusted[static_cast<size_t>(found - tokens.begin())];
    logit = static_cast<float>(static_cast<double>(logit) + static_cast<double>(bias));
  }
  return adjusted;
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
