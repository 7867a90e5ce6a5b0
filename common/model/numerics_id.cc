#include "common/model/numerics_id.h"

#include <cinttypes>
#include <cstdio>
#include <string_view>
#include <utility>
#include <variant>

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
  if (rope.scaling == RopeScaling::kLongRope) {  // its divisors are tensors
    hash.Add(rope.attention_factor);
    hash.Add(static_cast<uint32_t>(rope.is_long));
  }
  if (rope.scaling == RopeScaling::kYarn) {
    hash.Add(rope.original_context_length);
    hash.Add(rope.attention_factor);
    hash.Add(rope.yarn_beta_fast);
    hash.Add(rope.yarn_beta_slow);
    if (!rope.yarn_whole_dimensions) hash.Add(std::string_view("parts of dimensions"));
  }
}

void Add(const FeedForwardSpec& feed_forward, ContentHash& hash) {
  hash.Add(static_cast<uint32_t>(feed_forward.gate));
  hash.Add(feed_forward.length);
  if (!feed_forward.router) return;
  if (feed_forward.shared_length) hash.Add(*feed_forward.shared_length);
  hash.Add(feed_forward.router->expert_count);
  hash.Add(feed_forward.router->used_count);
  hash.Add(static_cast<uint32_t>(feed_forward.router->renormalize));
}

void Add(const CrossAttentionSpec& shape, ContentHash& hash) {
  hash.Add(shape.head_count);
  hash.Add(shape.kv_head_count);
  hash.Add(shape.key_length);
  hash.Add(shape.value_length);
  hash.Add(shape.scale);
}

bool IsLike(LayerSpec layer, const LayerSpec& other) {
  if (layer.attention() != nullptr && other.attention() != nullptr) {
    layer.attention()->head_count = other.attention()->head_count;
    layer.attention()->kv_head_count = other.attention()->kv_head_count;
  }
  return layer == other;
}

void AddWhole(uint32_t n, const AttentionSpec& attention, ContentHash& hash) {
  hash.Add(attention.key_length);
  hash.Add(attention.value_length);
  hash.Add(attention.scale);
  hash.Add(attention.window.value_or(0));
  Add(attention.rope, hash);
  hash.Add(attention.cells_of.value_or(n));
  if (attention.soft_cap) hash.Add(*attention.soft_cap);
  if (attention.head_norms == HeadNorms::kLayerEach) {
    hash.Add(std::string_view("layer norms of heads"));
  }
  if (!attention.query_growth) return;
  hash.Add(std::string_view("query growth"));
  hash.Add(attention.query_growth->scale);
  hash.Add(attention.query_growth->step);
}

void AddWhole(uint32_t, const GuestMixer& guest, ContentHash& hash) {
  hash.Add(guest.name);
}

void AddWhole(uint32_t n, const LayerSpec& layer, ContentHash& hash) {
  hash.Add(n);
  std::visit([&](const auto& mixer) { AddWhole(n, mixer, hash); }, layer.mixer);
  Add(layer.feed_forward, hash);
  if (layer.is_parallel) hash.Add(std::string_view("parallel"));
  if (layer.cross_attention) Add(*layer.cross_attention, hash);
}

// Layers without attention have none of its numbers.
AttentionSpec AttentionOf(const LayerSpec& layer) {
  return layer.attention() == nullptr ? AttentionSpec{} : *layer.attention();
}

// Nothing of models that have none.
void AddScales(const ModelSpec& spec, ContentHash& hash) {
  const std::pair<std::string_view, float> scales[] = {
      {"embedding scale", spec.embedding_scale},
      {"residual scale", spec.residual_scale},
      {"logit scale", spec.logit_scale},
  };
  for (const auto& [name, scale] : scales) {
    if (scale == 1.0f) continue;
    hash.Add(name);
    hash.Add(scale);
  }
  if (!spec.logit_soft_cap) return;
  hash.Add(std::string_view("logit soft cap"));
  hash.Add(*spec.logit_soft_cap);
}

// The first layer's numbers stand for those of all that are like it, and only how many heads each
// has is always said: so it was when layers could not differ in more.
void Add(const ModelSpec& spec, ContentHash& hash) {
  const LayerSpec& first = spec.layers.front();
  const AttentionSpec attention = AttentionOf(first);
  hash.Add(spec.embedding_length);
  hash.Add(first.feed_forward.length);
  hash.Add(spec.vocabulary_size);
  for (const LayerSpec& layer : spec.layers) {
    hash.Add(AttentionOf(layer).head_count);
    hash.Add(AttentionOf(layer).kv_head_count);
  }
  hash.Add(attention.key_length);
  hash.Add(attention.value_length);
  hash.Add(attention.scale);
  hash.Add(attention.window.value_or(0));
  hash.Add(static_cast<uint32_t>(spec.norm));
  hash.Add(spec.norm_epsilon);
  hash.Add(static_cast<uint32_t>(first.feed_forward.gate));
  Add(attention.rope, hash);
  hash.Add(static_cast<uint32_t>(spec.learned_positions));
  hash.Add(static_cast<uint32_t>(spec.tied_embeddings));
  if (first.feed_forward.router) Add(first.feed_forward, hash);
  // What the numbers above do not say.
  const bool says_more = first.attention() == nullptr || first.cross_attention ||
                         first.is_parallel || attention.soft_cap || attention.query_growth ||
                         attention.head_norms != HeadNorms::kRms;
  for (uint32_t n = 0; n < spec.layer_count(); ++n) {
    if ((n == 0 && says_more) || !IsLike(spec.layers[n], first)) AddWhole(n, spec.layers[n], hash);
  }
  AddScales(spec, hash);
}

}  // namespace

NumericsId NumericsId::Of(const ModelSpec& spec, uint64_t content_hash,
                          std::string_view backend_class, std::string_view kv_type) {
  ContentHash hash;
  hash.Add(spec.numerics_version);
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
