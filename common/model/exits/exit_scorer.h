// The arithmetic of exit heads: hidden states after a layer in, logits out.
//
//   scorer.SetRound(tokens);                      // candidates of this run, besides the frequent
//   const ExitLogits logits = scorer.Score(exit, rows);
//
//   r  = sqrt(mean(h^2) + epsilon)
//   h' = h + r up(silu(down(h / r)))              the adapter
//   logits = head(norm(h'))                       the target's own final norm and output matrix
//
// An adapter works on the state in units of its own size, which grows with depth and differs from
// token to token; one whose `up` is zero is the identity, to the bit.
//
// The whole output matrix after five layers would cost a quarter of a small model's pass. So only
// candidates are scored, as a rule: the rows of the output matrix of a frequent set, gathered once,
// and of a round's tokens, gathered for each run; their logits are the full ones' bits. kFull
// scores all, for training and comparison.
//
// Memory:  taken in Create(). Nothing allocates afterwards.
// Threads: one call at a time; products are shared out over the pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/kernels.h"
#include "common/model/layers/row_math.h"
#include "common/model/layers/rows.h"
#include "common/model/model_spec.h"
#include "common/model/weights/layer_weights.h"

namespace outrider {

// What exits are trained for and used with.
ExitsTarget DescribeForExits(const ModelSpec& spec, uint64_t content_hash);

// InvalidArgument, starting with `path`, for exits of another target, naming both. While the hash of
// its weights is not known, only its shape can tell.
absl::Status CheckExits(const ExitsTarget& trained_for, const std::string& path,
                        const ModelSpec& spec, std::optional<uint64_t> content_hash);

// An adapter as products take it. Its rank is its inner length.
struct PackedAdapter {
  static absl::StatusOr<PackedAdapter> Pack(const TrainedExit& exit, TensorType type,
                                            uint32_t width);

  uint32_t rank() const { return down.matrix.outputs; }

  AlignedBuffer memory;  // what the two lie in
  Linear down;
  Linear up;
};

enum class ExitScope { kCandidates, kFull };

struct ExitScorerOptions {
  ExitScope scope = ExitScope::kCandidates;
  uint32_t row_count_max = 64;     // scored at a time
  uint32_t round_token_max = 512;  // candidates of a run; more are left out
};

// Row i starts at data + i * stride. With kCandidates its first logits are the frequent tokens',
// and those of the round follow; with kFull logit n is token n's.
struct ExitLogits {
  float* data;
  size_t stride;
  uint32_t length;

  std::span<const float> row(size_t i) const { return {data + i * stride, length}; }
};

class ExitScorer {
 public:
  // As CheckExits(). What is passed outlives the scorer.
  static absl::StatusOr<std::unique_ptr<ExitScorer>> Create(
      const TrainedExits& exits, const std::string& path, const ModelSpec& spec,
      uint64_t content_hash, const HeadWeights& head, const Kernels& kernels, ThreadPool& pool,
      const ExitScorerOptions& options);

  // Rising, none of them frequent, at most round_token_max. For kCandidates only.
  void SetRound(std::span<const TokenId> tokens);

  // Of hidden states, before the final norm. At most row_count_max rows; the logits stay until the
  // next call.
  ExitLogits Score(size_t exit, std::span<const float* const> hidden);

  std::span<const TokenId> frequent_tokens() const { return frequent_tokens_; }
  const ExitScorerOptions& options() const { return options_; }

 private:
  ExitScorer(const ModelSpec& spec, const HeadWeights& head, std::unique_ptr<RowMath> math,
             const ExitScorerOptions& options);
  absl::Status TakeMemory(uint32_t rank_max);

  void Adapt(const PackedAdapter& adapter, std::span<const float* const> hidden);

  const ModelSpec& spec_;
  const HeadWeights& head_;
  const std::unique_ptr<RowMath> math_;
  const ExitScorerOptions options_;
  std::vector<TokenId> frequent_tokens_;
  std::vector<PackedAdapter> adapters_;

  AlignedBuffer frequent_memory_;
  AlignedBuffer round_memory_;
  Linear frequent_;  // rows of the head
  Linear round_;
  std::vector<uint32_t> round_rows_;

  PageBuffer memory_;  // what follows is pieces of it
  RowBlock ones_;      // one row
  RowBlock normed_;    // [rows, embedding]: what enters a product or leaves one, and norm(h')
  RowBlock inner_;     // [rows, rank]
  RowBlock logits_;
  std::vector<float> sizes_;  // r, by row
};

}  // namespace outrider
