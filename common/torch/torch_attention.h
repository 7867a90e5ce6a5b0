// Attention in plain libtorch operations, with grouped heads.
#pragma once

#include <ATen/core/Tensor.h>

namespace outrider {

// softmax(query key' scale) value over the keys each row sees, where heads / kv heads neighbouring
// query heads share a key head.
//   query       [S, Q, heads, key length]
//   key, value  [S, K, kv heads, key length], [S, K, kv heads, value length]
//   hidden      [S or 1, Q, K], bool: the keys a row does not see, which may be NaN; it sees one.
//               Undefined: every row sees every key
// Returns [S, Q, heads, value length].
at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  float scale, const at::Tensor& hidden);

}  // namespace outrider
