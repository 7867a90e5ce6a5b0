#include "common/torch/torch_attention.h"

#include <ATen/ops/matmul.h>
#include <ATen/ops/softmax.h>

#include <limits>

namespace outrider {

at::Tensor Attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  float scale, const at::Tensor& hidden) {
  const int64_t sequences = query.size(0), rows = query.size(1), heads = query.size(2);
  const int64_t kv_heads = key.size(2), group = heads / kv_heads;
  // The heads of a group are more rows to their key head's product: [S, kv heads, group * Q, ...].
  const at::Tensor queries =
      query.mul(scale).transpose(1, 2).reshape({sequences, kv_heads, group * rows, query.size(3)});
  at::Tensor scores = at::matmul(queries, key.permute({0, 2, 3, 1}))
                          .view({sequences, kv_heads, group, rows, key.size(1)});
  if (hidden.defined()) {
    scores.masked_fill_(hidden.unsqueeze(1).unsqueeze(1), -std::numeric_limits<double>::infinity());
  }
  const at::Tensor weights =
      at::softmax(scores, -1).view({sequences, kv_heads, group * rows, key.size(1)});
  return at::matmul(weights, value.transpose(1, 2))
      .view({sequences, heads, rows, value.size(3)})
      .transpose(1, 2);
}

}  // namespace outrider
