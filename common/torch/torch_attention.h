// Attention in plain libtorch operations, with grouped heads.
#pragma once

#include <ATen/core/Tensor.h>

namespace outrider {

// softmax(query key' scale + mask) value, where heads / kv heads neighbouring query heads share a
// key head.
//   query       [S, Q, heads, key length]
//   key, value  [S, K, kv heads, key length], [S, K, kv heads, value length]
//   mask        [S or 1, Q, K]: zero where a row sees a key, minus infinity where it does not;
//   every
//               row sees one
// Returns [S, Q, heads, value length].
at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  float scale, const at::Tensor& mask);

}  // namespace outrider
