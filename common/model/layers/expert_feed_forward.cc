#include "common/model/layers/expert_feed_forward.h"

#include <algorithm>
#include <array>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// NUMERICS.md, section 2. There are too few experts for vectors to matter.
float SumOverLanes(std::span<const float> values) {
  std::array<float, 16> lanes = {};
  for (size_t i = 0; i < values.size(); ++i) lanes[i % lanes.size()] += values[i];
  for (size_t half = lanes.size() / 2; half > 0; half /= 2) {
    for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

// The first of the largest that is not among those chosen.
uint32_t FindBest(std::span<const float> values, std::span<const ExpertChoice> chosen) {
  const auto is_chosen = [&](uint32_t expert) {
    return std::ranges::find(chosen, expert, &ExpertChoice::expert) != chosen.end();
  };
  uint32_t best = 0;
  while (is_chosen(best)) ++best;
  for (uint32_t expert = best + 1; expert < values.size(); ++expert) {
    if (values[expert] > values[best] && !is_chosen(expert)) best = expert;
  }
  return best;
}

}  // namespace

void ChooseExperts(const RouterSpec& router, const RowKernels& kernels, float* logits,
                   std::span<ExpertChoice> choices) {
  const std::span<float> values(logits, router.expert_count);
  for (size_t c = 0; c < choices.size(); ++c) {
    choices[c].expert = FindBest(values, choices.first(c));
  }
  const float largest = values[choices[0].expert];
  for (float& value : values) value -= largest;
  kernels.exp(logits, router.expert_count, logits);
  const float sum = SumOverLanes(values);
  float chosen_sum = 0;
  for (ExpertChoice& choice : choices) {
    choice.weight = values[choice.expert] / sum;
    chosen_sum += choice.weight;
  }
  if (!router.renormalize) return;
  for (ExpertChoice& choice : choices) choice.weight /= chosen_sum;
}

absl::StatusOr<std::unique_ptr<ExpertFeedForward>> ExpertFeedForward::Create(
    const ModelSpec& spec, WeightStore& store, FeedForward& feed_forward, RowMath& math,
    uint32_t row_count_max) {
  std::unique_ptr<ExpertFeedForward> made(new ExpertFeedForward(spec, store, feed_forward, math));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(row_count_max));
  return made;
}

absl::Status ExpertFeedForward::TakeMemory(uint32_t row_count_max) {
  uint32_t expert_count = 0, used_count = 0;
  for (const LayerSpec& layer : spec_.layers) {
    if (!layer.feed_forward.router) continue;
    expert_count = std::max(expert_count, layer.feed_forward.router->expert_count);
    used_count = std::max(used_count, layer.feed_forward.router->used_count);
  }
  if (expert_count == 0) return absl::OkStatus();
  const size_t choice_count = size_t{row_count_max} * used_count;
  choices_.resize(choice_count);
  place_of_.resize(choice_count);
  row_at_.resize(choice_count);
  first_place_.resize(expert_count + 1);
  in_use_.reserve(expert_count);
  OUTRIDER_ASSIGN_OR_RETURN(memory_,
                            AllocateRows({{logits_, row_count_max, expert_count},
                                          {gathered_, row_count_max, spec_.embedding_length},
                                          {results_, choice_count, spec_.embedding_length}}));
  return absl::OkStatus();
}

absl::Status ExpertFeedForward::Apply(uint32_t layer, const Linear& router, const RowBlock& x,
                                      uint32_t row_count, const RowBlock& out) {
  const RouterSpec& shape = *spec_.layers[layer].feed_forward.router;
  Route(shape, router, x, row_count);
  Group(shape, layer, row_count);
  store_.Prefetch(in_use_);
  for (const WeightKey& key : in_use_) {
    OUTRIDER_RETURN_IF_ERROR(Ask(layer, std::get<ExpertKey>(key).expert, x));
  }
  math_.ForEachRow(row_count, [&](size_t i) { Sum(i, out.row(i)); });
  return absl::OkStatus();
}

void ExpertFeedForward::Route(const RouterSpec& router, const Linear& weights, const RowBlock& x,
                              uint32_t row_count) {
  used_count_ = router.used_count;
  math_.Multiply(x, row_count, spec_.embedding_length, {{weights, logits_}});
  math_.ForEachRow(row_count, [&](size_t i) {
    ChooseExperts(router, math_.kernels(), logits_.row(i),
                  std::span(choices_).subspan(i * used_count_, used_count_));
  });
}

// Counts the choices of every expert, and so finds their places.
void ExpertFeedForward::Group(const RouterSpec& router, uint32_t layer, uint32_t row_count) {
  const std::span<const ExpertChoice> choices =
      std::span(choices_).first(size_t{row_count} * used_count_);
  std::ranges::fill(first_place_, 0);
  for (const ExpertChoice& choice : choices) ++first_place_[choice.expert + 1];
  in_use_.clear();
  for (uint32_t expert = 0; expert < router.expert_count; ++expert) {
    if (first_place_[expert + 1] > 0) in_use_.push_back(ExpertKey{layer, expert});
    first_place_[expert + 1] += first_place_[expert];
  }
  // Every place handed out moves its expert's next one on, to where the next expert's begin.
  for (size_t c = 0; c < choices.size(); ++c) {
    const uint32_t place = first_place_[choices[c].expert]++;
    place_of_[c] = place;
    row_at_[place] = static_cast<uint32_t>(c / used_count_);
  }
  for (uint32_t expert = router.expert_count; expert > 0; --expert) {
    first_place_[expert] = first_place_[expert - 1];
  }
  first_place_[0] = 0;
}

// All rows that chose this expert, together.
absl::Status ExpertFeedForward::Ask(uint32_t layer, uint32_t expert, const RowBlock& x) {
  OUTRIDER_ASSIGN_OR_RETURN(const Lease<FeedForwardWeights> weights,
                            store_.Acquire(ExpertKey{layer, expert}));
  const uint32_t first = first_place_[expert];
  const uint32_t count = first_place_[expert + 1] - first;
  for (uint32_t i = 0; i < count; ++i) {
    std::copy_n(x.row(row_at_[first + i]), spec_.embedding_length, gathered_.row(i));
  }
  feed_forward_.Apply(spec_.layers[layer].feed_forward, *weights, gathered_, count,
                      {results_.row(first), results_.stride});
  return absl::OkStatus();
}

void ExpertFeedForward::Sum(size_t i, float* out) const {
  const auto chosen = std::span(choices_).subspan(i * used_count_, used_count_);
  const uint32_t* const places = place_of_.data() + i * used_count_;
  for (size_t c = 0; c < chosen.size(); ++c) {
    const float weight = chosen[c].weight;
    const float* const result = results_.row(places[c]);
    for (uint32_t n = 0; n < spec_.embedding_length; ++n) {
      const float part = weight * result[n];
      out[n] = c == 0 ? part : out[n] + part;
    }
  }
}

}  // namespace outrider
