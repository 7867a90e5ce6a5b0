#include "common/model/numerics_id.h"

#include <cinttypes>
#include <cstdio>

#include "common/formats/models/content_hash.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

void Add(const Rope& rope, ContentHash& hash) {
  hash.Add(static_cast<uint32_t>(rope.style));
  if (rope.style == RopeStyle::kNone) return;
  hash.Add(rope.dimension_count);
  hash.Add(rope.base);
  hash.Add(static_cast<uint32_t>(rope.scaling));
  // What llama3 scaling does is a tensor, and hashed as one.
  if (rope.scaling == RopeScaling::kLinear || rope.scaling == RopeScaling::kYarn) {
    hash.Add(rope.factor);
  }
  if (rope.scaling == RopeScaling::kYarn) {
    hash.Add(rope.original_context_length);
    hash.Add(rope.attention_factor);
    hash.Add(rope.yarn_beta_fast);
    hash.Add(rope.yarn_beta_slow);
  }
}

void Add(const FeedForwardSpec& feed_forward, ContentHash& hash) {
  hash.Add(static_cast<uint32_t>(feed_forward.gate));
  hash.Add(feed_forward.length);
  if (!feed_forward.router) return;
  hash.Add(feed_forward.router->expert_count);
  hash.Add(feed_forward.router->used_count);
  hash.Add(static_cast<uint32_t>(feed_forward.router->renormalize));
}

bool IsLike(LayerSpec layer, const LayerSpec& other) {
  layer.attention.head_count = other.attention.head_count;
  layer.attention.kv_head_count = other.attention.kv_head_count;
  return layer == other;
}

void AddWhole(uint32_t n, const LayerSpec& layer, ContentHash& hash) {
  const AttentionSpec& attention = layer.attention;
  hash.Add(n);
  hash.Add(attention.key_length);
  hash.Add(attention.value_length);
  hash.Add(attention.scale);
  hash.Add(attention.window.value_or(0));
  Add(attention.rope, hash);
  hash.Add(attention.cells_of.value_or(n));
  Add(layer.feed_forward, hash);
}

// The first layer's numbers stand for those of all that are like it, and only how many heads each
// has is always said: so it was when layers could not differ in more.
void Add(const ModelSpec& spec, ContentHash& hash) {
  const LayerSpec& first = spec.layers.front();
  hash.Add(spec.embedding_length);
  hash.Add(first.feed_forward.length);
  hash.Add(spec.vocabulary_size);
  for (const LayerSpec& layer : spec.layers) {
    hash.Add(layer.attention.head_count);
    hash.Add(layer.attention.kv_head_count);
  }
  hash.Add(first.attention.key_length);
  hash.Add(first.attention.value_length);
  hash.Add(first.attention.scale);
  hash.Add(first.attention.window.value_or(0));
  hash.Add(static_cast<uint32_t>(spec.norm));
  hash.Add(spec.norm_epsilon);
  hash.Add(static_cast<uint32_t>(first.feed_forward.gate));
  Add(first.attention.rope, hash);
  hash.Add(static_cast<uint32_t>(spec.learned_positions));
  hash.Add(static_cast<uint32_t>(spec.tied_embeddings));
  if (first.feed_forward.router) Add(first.feed_forward, hash);
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    if (!IsLike(spec.layers[n], first)) AddWhole(n, spec.layers[n], hash);
  }
}

}  // namespace

NumericsId NumericsId::Of(const ModelSpec& spec, uint64_t content_hash,
                          std::string_view backend_class, std::string_view kv_type) {
  ContentHash hash;
  hash.Add(kNumericsVersion);
  hash.Add(backend_class);
  hash.Add(kv_type);
  Add(spec, hash);
  hash.Add(content_hash);
  NumericsId id;
  id.value_ = hash.value();
  return id;
}

std::string NumericsId::ToString() const {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, value_);
  return text;
}

}  // namespace outrider
