// The half of a layer that a row passes through alone, where there are many of them and each row
// takes a few:
//
//   p   = softmax(router x)                  over all experts
//   out = sum of g[j] * expert_j(x)          over the used_count of largest p, best first
//   g   = p, or p / (sum of the p chosen) where the router says so
//
// Rows are grouped by expert: what an expert is asked by any row of a run is read once, for all of
// them, and experts that nobody chose are not touched. Whom a row meets at an expert changes nothing
// for it, and its sum goes by its own ranking (kernels/NUMERICS.md, section 7).
//
// Experts are small, and a loop of the pool costs its threads a few microseconds of one another's
// time. So a band of experts is asked at once: all their gates and ups are one loop, all their downs
// another. For few rows that is every expert they chose; a band ends where what it keeps between the
// loops would no longer stay in a cache, or at as many experts as the store lends.
//
// Where experts come from flash, those at hand are asked first, and a band ends before one that is
// not: reading goes on beside computing. And the next layer's are guessed, by asking its router what
// this layer's was asked: the residual stream changes little from layer to layer (of trained models
// it is right about 75 to 90 % of the time). Passes of many rows want most experts
// anyway, and are not guessed for.
//
// Memory:  taken in Create(), for `row_count_max` rows: among others a result of every row from each
//          expert it chose. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
// Errors:  those of the weight store.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/model/layers/row_math.h"
#include "common/model/layers/rows.h"
#include "common/model/model_spec.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

// The choice of one expert by one row.
struct ExpertChoice {
  uint32_t expert;
  float weight;
};

// Of logits [expert_count], which become p: the used_count best, best first.
void ChooseExperts(const RouterSpec& router, const RowKernels& kernels, float* logits,
                   std::span<ExpertChoice> choices);

class ExpertFeedForward {
 public:
  // What it multiplies at a time, for whoever makes its RowMath.
  static uint32_t ProductRowsMax(const ModelSpec& spec, uint32_t row_count_max);

  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<ExpertFeedForward>> Create(const ModelSpec& spec,
                                                                   WeightStore& store,
                                                                   RowMath& math,
                                                                   uint32_t row_count_max);

  // x and out: [row_count, embedding_length]; out may be x.
  absl::Status Apply(uint32_t layer, const Linear& router, const RowBlock& x, uint32_t row_count,
                     const RowBlock& out);

 private:
  ExpertFeedForward(const ModelSpec& spec, WeightStore& store, RowMath& math)
      : spec_(spec), store_(store), math_(math) {}
  absl::Status TakeMemory(uint32_t row_count_max);

  void Route(const RouterSpec& router, const Linear& weights, const RowBlock& x,
             uint32_t row_count);
  void Group(const RouterSpec& router, uint32_t layer, uint32_t row_count);
  void Guess(uint32_t layer, const RowBlock& x, uint32_t row_count);
  std::span<const WeightKey> NextBand(std::span<const WeightKey> experts) const;
  absl::Status Ask(const FeedForwardSpec& shape, std::span<const WeightKey> band,
                   const RowBlock& x);
  absl::Status Acquire(std::span<const WeightKey> band);
  void Multiply(const FeedForwardSpec& shape, std::span<const WeightKey> band, const RowBlock& x);
  RowRange PlacesOf(const WeightKey& expert) const;
  void Sum(size_t i, float* out);

  const ModelSpec& spec_;
  WeightStore& store_;
  RowMath& math_;

  PageBuffer memory_;   // what the rows below are pieces of
  RowBlock logits_;     // [rows, experts]
  RowBlock exchanged_;  // [rows * used, embedding], by place: what is asked, then the answer
  RowBlock gate_, up_;  // [band_rows_max_, length], by place in the band
  uint32_t band_rows_max_ = 0;
  uint32_t used_count_ = 0;  // of the present layer

  // Choice c of row i is choices_[i * used_count_ + c]. All choices of one expert have places that
  // follow one another, from first_place_[expert], by rising row; and experts do, as in in_use_.
  std::vector<ExpertChoice> choices_;
  std::vector<uint32_t> place_of_;     // by choice
  std::vector<WeightedRow> terms_;     // by choice
  std::vector<uint32_t> row_at_;       // by place
  std::vector<uint32_t> first_place_;  // by expert
  std::vector<uint32_t> place_count_;  // by expert
  std::vector<WeightKey> in_use_;      // experts, in the order they are asked
  std::vector<WeightKey> absent_;      // of those, the last

  std::vector<ExpertChoice> guessed_choices_;  // of the next layer, by row
  std::vector<uint8_t> is_guessed_;            // by expert
  std::vector<WeightKey> guesses_;

  std::vector<Lease<FeedForwardWeights>> leases_;  // of the band at hand
  std::vector<RowMath::Share> shares_;
};

}  // namespace outrider
