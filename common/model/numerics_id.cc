#include "common/model/numerics_id.h"

#include <cinttypes>
#include <cstdio>

#include "common/kernels/kernels.h"
#include "common/model/content_hash.h"

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

void Add(const ModelSpec& spec, ContentHash& hash) {
  hash.Add(spec.embedding_length);
  hash.Add(spec.feed_forward_length);
  hash.Add(spec.vocabulary_size);
  for (const AttentionShape& layer : spec.layers) {
    hash.Add(layer.head_count);
    hash.Add(layer.kv_head_count);
  }
  hash.Add(spec.key_length);
  hash.Add(spec.value_length);
  hash.Add(spec.attention_scale);
  hash.Add(spec.window.value_or(0));
  hash.Add(static_cast<uint32_t>(spec.norm));
  hash.Add(spec.norm_epsilon);
  hash.Add(static_cast<uint32_t>(spec.gate));
  Add(spec.rope, hash);
  hash.Add(static_cast<uint32_t>(spec.learned_positions));
  hash.Add(static_cast<uint32_t>(spec.tied_embeddings));
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
