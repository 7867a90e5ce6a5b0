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
#include "common/model/layers/feed_forward.h"
#include "common/model/layers/row_math.h"
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
  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<ExpertFeedForward>> Create(const ModelSpec& spec,
                                                                   WeightStore& store,
                                                                   FeedForward& feed_forward,
                                                                   RowMath& math,
                                                                   uint32_t row_count_max);

  // x and out: [row_count, embedding_length]; out may be x.
  absl::Status Apply(uint32_t layer, const Linear& router, const RowBlock& x, uint32_t row_count,
                     const RowBlock& out);

 private:
  ExpertFeedForward(const ModelSpec& spec, WeightStore& store, FeedForward& feed_forward,
                    RowMath& math)
      : spec_(spec), store_(store), feed_forward_(feed_forward), math_(math) {}
  absl::Status TakeMemory(uint32_t row_count_max);

  void Route(const RouterSpec& router, const Linear& weights, const RowBlock& x,
             uint32_t row_count);
  void Group(const RouterSpec& router, uint32_t layer, uint32_t row_count);
  absl::Status Ask(uint32_t layer, uint32_t expert, const RowBlock& x);
  void Sum(size_t i, float* out) const;

  const ModelSpec& spec_;
  WeightStore& store_;
  FeedForward& feed_forward_;
  RowMath& math_;

  PageBuffer memory_;        // what the rows below are pieces of
  RowBlock logits_;          // [rows, experts]
  RowBlock gathered_;        // [rows, embedding]: those that one expert is asked by
  RowBlock results_;         // [rows * used, embedding], by place
  uint32_t used_count_ = 0;  // of the present layer

  // Choice c of row i is choices_[i * used_count_ + c]. All choices of one expert have places that
  // follow one another, from first_place_[expert], by rising row.
  std::vector<ExpertChoice> choices_;
  std::vector<uint32_t> place_of_;     // by choice
  std::vector<uint32_t> row_at_;       // by place
  std::vector<uint32_t> first_place_;  // by expert, and the end
  std::vector<WeightKey> in_use_;      // experts, ascending
};

}  // namespace outrider
