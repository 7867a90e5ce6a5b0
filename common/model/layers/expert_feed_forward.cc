#include "common/model/layers/expert_feed_forward.h"

#include <algorithm>
#include <array>
#include <optional>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/layers/feed_forward.h"

namespace outrider {
namespace {

// Enough rows that loops are long beside what starting them costs; their gates and ups, at the
// hundreds of floats that small experts have, are a few hundred kilobytes.
constexpr uint32_t kBandRows = 256;

// Beyond so many rows a layer wants most of its experts.
constexpr uint32_t kGuessedRowsMax = 32;

struct RouterMaxima {
  uint32_t expert_count = 0;
  uint32_t used_count = 0;
  uint32_t length = 0;
};

RouterMaxima MaximaOf(const ModelSpec& spec) {
  RouterMaxima maxima;
  for (const LayerSpec& layer : spec.layers) {
    const FeedForwardSpec& shape = layer.feed_forward;
    if (!shape.router) continue;
    maxima.expert_count = std::max(maxima.expert_count, shape.router->expert_count);
    maxima.used_count = std::max(maxima.used_count, shape.router->used_count);
    maxima.length = std::max(maxima.length, shape.length);
  }
  return maxima;
}

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

// One expert may be asked by every row.
uint32_t ExpertFeedForward::ProductRowsMax(const ModelSpec& spec, uint32_t row_count_max) {
  return std::max(row_count_max, std::min(kBandRows, row_count_max * MaximaOf(spec).used_count));
}

absl::StatusOr<std::unique_ptr<ExpertFeedForward>> ExpertFeedForward::Create(
    const ModelSpec& spec, WeightStore& store, RowMath& math, uint32_t row_count_max) {
  std::unique_ptr<ExpertFeedForward> made(new ExpertFeedForward(spec, store, math));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(row_count_max));
  return made;
}

absl::Status ExpertFeedForward::TakeMemory(uint32_t row_count_max) {
  const RouterMaxima maxima = MaximaOf(spec_);
  if (maxima.expert_count == 0) return absl::OkStatus();
  const size_t choice_count = size_t{row_count_max} * maxima.used_count;
  band_rows_max_ = ProductRowsMax(spec_, row_count_max);
  choices_.resize(choice_count);
  place_of_.resize(choice_count);
  terms_.resize(choice_count);
  row_at_.resize(choice_count);
  first_place_.resize(maxima.expert_count);
  place_count_.resize(maxima.expert_count);
  in_use_.reserve(maxima.expert_count);
  absent_.reserve(maxima.expert_count);
  guessed_choices_.resize(std::min(kGuessedRowsMax, row_count_max) * size_t{maxima.used_count});
  is_guessed_.resize(maxima.expert_count);
  guesses_.reserve(maxima.expert_count);
  leases_.reserve(maxima.expert_count);
  shares_.reserve(2 * maxima.expert_count);
  OUTRIDER_ASSIGN_OR_RETURN(memory_,
                            AllocateRows({{logits_, row_count_max, maxima.expert_count},
                                          {exchanged_, choice_count, spec_.embedding_length},
                                          {gate_, band_rows_max_, maxima.length},
                                          {up_, band_rows_max_, maxima.length}}));
  return absl::OkStatus();
}

absl::Status ExpertFeedForward::Apply(uint32_t layer, const Linear& router, const RowBlock& x,
                                      uint32_t row_count, const RowBlock& out) {
  const FeedForwardSpec& shape = spec_.layers[layer].feed_forward;
  Route(*shape.router, router, x, row_count);
  Group(*shape.router, layer, row_count);
  store_.Prefetch(in_use_);
  Guess(layer + 1, x, row_count);
  for (std::span<const WeightKey> experts = in_use_; !experts.empty();) {
    const std::span<const WeightKey> band = NextBand(experts);
    OUTRIDER_RETURN_IF_ERROR(Ask(shape, band, x));
    experts = experts.subspan(band.size());
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
  std::ranges::fill(place_count_, 0);
  for (const ExpertChoice& choice : choices) ++place_count_[choice.expert];
  in_use_.clear();
  absent_.clear();  // asked once each: what is not at hand may land at any time
  for (uint32_t expert = 0; expert < router.expert_count; ++expert) {
    if (place_count_[expert] == 0) continue;
    const ExpertKey key = {layer, expert};
    (store_.IsAtHand(key) ? in_use_ : absent_).push_back(key);
  }
  in_use_.insert(in_use_.end(), absent_.begin(), absent_.end());
  uint32_t next_place = 0;
  for (const WeightKey& key : in_use_) {
    const uint32_t expert = std::get<ExpertKey>(key).expert;
    first_place_[expert] = next_place;
    next_place += place_count_[expert];
  }
  // Every place handed out moves its expert's next one on.
  for (size_t c = 0; c < choices.size(); ++c) {
    const uint32_t place = first_place_[choices[c].expert]++;
    place_of_[c] = place;
    row_at_[place] = static_cast<uint32_t>(c / used_count_);
  }
  for (uint32_t expert = 0; expert < router.expert_count; ++expert) {
    first_place_[expert] -= place_count_[expert];
  }
}

// Every row's best guess, then every row's second, and so on.
void ExpertFeedForward::Guess(uint32_t layer, const RowBlock& x, uint32_t row_count) {
  if (layer == spec_.layer_count() || row_count > kGuessedRowsMax) return;
  const std::optional<RouterSpec>& router = spec_.layers[layer].feed_forward.router;
  if (!router) return;
  const Linear* const weights = store_.RouterAhead(layer);
  if (weights == nullptr) return;
  math_.Multiply(x, row_count, spec_.embedding_length, {{*weights, logits_}});
  for (size_t i = 0; i < row_count; ++i) {
    ChooseExperts(*router, math_.kernels(), logits_.row(i),
                  std::span(guessed_choices_).subspan(i * router->used_count, router->used_count));
  }
  std::ranges::fill(is_guessed_, uint8_t{0});
  guesses_.clear();
  for (uint32_t rank = 0; rank < router->used_count; ++rank) {
    for (size_t i = 0; i < row_count; ++i) {
      const uint32_t expert = guessed_choices_[i * router->used_count + rank].expert;
      if (is_guessed_[expert] == 0) guesses_.push_back(ExpertKey{layer, expert});
      is_guessed_[expert] = 1;
    }
  }
  store_.Guess(guesses_);
}

// The first of `experts`, as many as are asked at once.
std::span<const WeightKey> ExpertFeedForward::NextBand(std::span<const WeightKey> experts) const {
  size_t count = 1;
  uint32_t row_count = PlacesOf(experts[0]).count;
  while (count < experts.size() && count < store_.expert_leases_max()) {
    row_count += PlacesOf(experts[count]).count;
    if (row_count > band_rows_max_ || !store_.IsAtHand(std::get<ExpertKey>(experts[count]))) break;
    ++count;
  }
  return experts.first(count);
}

absl::Status ExpertFeedForward::Ask(const FeedForwardSpec& shape, std::span<const WeightKey> band,
                                    const RowBlock& x) {
  const absl::Status acquired = Acquire(band);
  if (acquired.ok()) Multiply(shape, band, x);
  leases_.clear();
  return acquired;
}

absl::Status ExpertFeedForward::Acquire(std::span<const WeightKey> band) {
  for (const WeightKey& key : band) {
    OUTRIDER_ASSIGN_OR_RETURN(Lease<FeedForwardWeights> lease,
                              store_.Acquire(std::get<ExpertKey>(key)));
    leases_.push_back(std::move(lease));
  }
  return absl::OkStatus();
}

// All rows that chose an expert, with it; all experts of the band in the same loops.
void ExpertFeedForward::Multiply(const FeedForwardSpec& shape, std::span<const WeightKey> band,
                                 const RowBlock& x) {
  const uint32_t first = PlacesOf(band.front()).first;
  const RowRange last = PlacesOf(band.back());
  const uint32_t row_count = last.first + last.count - first;
  const uint32_t serial_rows = RowMath::kSerialRows * used_count_;
  const RowBlock exchanged = {exchanged_.row(first), exchanged_.stride};
  math_.ForEachRow(row_count, serial_rows, [&](size_t i) {
    std::copy_n(x.row(row_at_[first + i]), spec_.embedding_length, exchanged.row(i));
  });
  const auto rows_of = [&](const WeightKey& key) {
    const RowRange places = PlacesOf(key);
    return RowRange{places.first - first, places.count};
  };
  shares_.clear();
  for (size_t e = 0; e < band.size(); ++e) {  // an expert's matrices lie one after another
    const RowRange rows = rows_of(band[e]);
    if (shape.gate != GateKind::kGeluTanh) shares_.push_back({&leases_[e]->gate, gate_, rows});
    shares_.push_back({&leases_[e]->up, up_, rows});
  }
  math_.Multiply(exchanged, row_count, spec_.embedding_length, shares_);
  math_.ForEachRow(row_count, serial_rows,
                   [&](size_t i) { Gate(shape, math_.kernels(), gate_.row(i), up_.row(i)); });
  shares_.clear();
  for (size_t e = 0; e < band.size(); ++e) {
    shares_.push_back({&leases_[e]->down, exchanged, rows_of(band[e])});
  }
  math_.Multiply(up_, row_count, shape.length, shares_);
}

RowRange ExpertFeedForward::PlacesOf(const WeightKey& expert) const {
  const uint32_t id = std::get<ExpertKey>(expert).expert;
  return {first_place_[id], place_count_[id]};
}

void ExpertFeedForward::Sum(size_t i, float* out) {
  const size_t first = i * used_count_;
  for (size_t c = first; c < first + used_count_; ++c) {
    terms_[c] = {exchanged_.row(place_of_[c]), choices_[c].weight};
  }
  math_.kernels().weighted_sum(terms_.data() + first, used_count_, spec_.embedding_length, out);
}

}  // namespace outrider
