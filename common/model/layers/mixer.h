// The part of a layer in which a row hears of the rows above it: attention (attention_mixer.h), and
// whatever else a layer has in its place (MixerSpec). Rows come in normed, and what goes out is added
// to the residual stream.
//
// What a row comes to may depend on its token, its positions and on what the rows above it have
// left behind; never on other rows of the run. What is left behind, for rows of later runs too,
// lies in sequence memory (model/memory), where the batch says.
#pragma once

#include <cstdint>
#include <span>

#include "common/model/layers/rows.h"
#include "common/model/memory/batch.h"
#include "common/model/weights/layer_weights.h"

namespace outrider {

struct MixerRun {
  uint32_t layer;
  const LayerWeights& weights;
  const Batch& batch;
  std::span<const uint32_t> rows;  // row i of x and out is row rows[i] of the batch; ascending

  uint32_t row_count() const { return static_cast<uint32_t>(rows.size()); }
};

class Mixer {
 public:
  virtual ~Mixer() = default;

  // A run begins: what does not change from layer to layer is made here.
  virtual void Begin(const Batch& batch) = 0;

  // x and out: [rows, embedding_length]; out may be x.
  virtual void Mix(const MixerRun& run, const RowBlock& x, const RowBlock& out) = 0;
};

}  // namespace outrider
