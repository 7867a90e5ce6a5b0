// Attention over a row's own keys and those of the rows above it, wherever they are stored.
//
// Keys and values of all rows of a run are written to the slots the batch gives before any row
// looks at any: rows of one run may stand below one another.
//
// Memory:  taken in Create(), for `row_count_max` rows. Nothing allocates afterwards.
// Threads: one call at a time; it shares its work out over the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/kernels/rope_table.h"
#include "common/model/layers/attention_heads.h"
#include "common/model/layers/mixer.h"
#include "common/model/layers/row_math.h"
#include "common/model/memory/memory_layout.h"
#include "common/model/model_spec.h"

namespace outrider {

class AttentionMixer final : public Mixer {
 public:
  // `rope_divisors` are WeightStore::rope_freqs(). All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<AttentionMixer>> Create(
      const ModelSpec& spec, std::span<const float> rope_divisors, const MemoryLayout& cache,
      RowMath& math, uint32_t row_count_max);

  void Begin(const Batch& batch) override;
  void Mix(const MixerRun& run, const RowBlock& x, const RowBlock& out) override;

 private:
  // One way of turning, and how far it turns each row of the batch.
  struct Turns {
    Rope rope;
    RopeTable table;
    PageBuffer memory;
    RowBlock cosines, sines;  // by batch row
  };

  AttentionMixer(const ModelSpec& spec, const MemoryLayout& cache, RowMath& math,
                 AttentionHeads heads)
      : spec_(spec),
        cache_(cache),
        math_(math),
        kernels_(math.kernels()),
        heads_(std::move(heads)) {}
  absl::Status MakeTurns(std::span<const float> rope_divisors, uint32_t row_count_max);

  void PlaceQueries(const MixerRun& run, size_t i) const;
  void Grow(const QueryGrowth& growth, uint32_t position, float* query, uint32_t length) const;
  void PlaceKeys(const MixerRun& run, size_t i, const CellAt& own) const;
  void NormalizeHeads(const AttentionSpec& shape, std::span<const float> weight,
                      uint32_t head_count, float* heads) const;
  void TurnHeads(const Turns& turns, size_t row, float* heads, uint32_t head_count,
                 uint32_t key_length) const;

  const ModelSpec& spec_;
  const MemoryLayout& cache_;
  RowMath& math_;
  const RowKernels& kernels_;
  const AttentionHeads heads_;
  std::vector<Turns> turns_;      // one for each rope the layers have
  std::vector<size_t> turns_of_;  // by layer that has attention
};

}  // namespace outrider
