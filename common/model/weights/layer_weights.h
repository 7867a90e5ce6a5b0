// A model's weights as the forward pass takes them: views of memory a WeightStore keeps, one struct
// for every architecture. What a model does not have is empty: a norm without a bias is an RMS
// norm, a product without a bias adds nothing, no gate means act(up x).
#pragma once

#include <span>

#include "common/kernels/weight_matrix.h"

namespace outrider {

struct Norm {
  std::span<const float> weight;
  std::span<const float> bias;  // layer norm only
};

struct Linear {
  WeightMatrix matrix;
  std::span<const float> bias;
};

// Of a layer, or of one of its experts.
struct FeedForwardWeights {
  Linear gate;
  Linear up;
  Linear down;
};

// Around a part of a layer, those it has:  hidden = sum(hidden + after(part(before(hidden))))
struct PartNorms {
  Norm before;
  Norm after;
  Norm sum;
};

// GPT-2 keeps query, key and value projections in one matrix; its rows are three matrices here.
struct AttentionWeights {
  Linear query;
  Linear key;
  Linear value;
  std::span<const float> query_norm;  // of one head; Qwen 3
  std::span<const float> key_norm;
  Linear output;
};

// Keys and values are of what an encoder says.
struct CrossAttentionWeights {
  Linear query;
  Linear key;
  Linear value;
  Linear output;
};

struct LayerWeights {
  PartNorms mixer_norms;
  AttentionWeights attention;

  PartNorms cross_attention_norms;
  CrossAttentionWeights cross_attention;

  PartNorms feed_forward_norms;
  FeedForwardWeights feed_forward;  // or
  Linear router;                    // where there are experts
};

// What stands before the first layer.
struct EntryWeights {
  WeightMatrix embeddings;            // a row a token
  WeightMatrix positions;             // a row a position, where they are learned
  std::span<const float> rope_freqs;  // llama3 scaling: a factor for each pair
};

// What stands after the last.
struct HeadWeights {
  Norm norm;
  WeightMatrix matrix;  // a row a token; tied ones are the embeddings too
};

}  // namespace outrider
