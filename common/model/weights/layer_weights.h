// A model's weights as the forward pass takes them: views of memory a WeightStore keeps, one struct
// for every architecture. What a model does not have is empty: a norm without a bias is an RMS
// norm or one of zeros, a product without a bias adds nothing, no gate means act(up x).
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

// Of the expert that every row of a layer goes to; its gate is one output, so a vector.
struct SharedExpertWeights {
  FeedForwardWeights feed_forward;
  std::span<const float> gate;
};

// Around a part of a layer, those it has:  hidden = sum(hidden + after(part(before(hidden))))
struct PartNorms {
  Norm before;
  Norm after;
  Norm sum;
};

// GPT-2 and Phi 3 keep query, key and value projections in one matrix; its rows are three matrices
// here.
struct AttentionWeights {
  Linear query;
  Linear key;
  Linear value;
  std::span<const float> query_norm;  // AttentionSpec::head_norms
  std::span<const float> key_norm;
  std::span<const float> sinks;  // of each head, where they have any; gpt-oss
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
  SharedExpertWeights shared;       // beside them
};

// What stands before the first layer.
struct EntryWeights {
  WeightMatrix embeddings;  // a row a token
  WeightMatrix positions;   // a row a position, where they are learned
  // A factor for each pair: llama3 scaling's, or those of longrope's two that turn.
  std::span<const float> rope_freqs;
  std::span<const float> unused_rope_freqs;  // longrope's others, which only the content hash needs
};

// What stands after the last.
struct HeadWeights {
  Norm norm;
  WeightMatrix matrix;  // a row a token; tied ones are the embeddings too
};

}  // namespace outrider
