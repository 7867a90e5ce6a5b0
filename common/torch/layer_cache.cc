#include "common/torch/layer_cache.h"

#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace outrider {
namespace {

// The first room a sequence gets, in cells.
constexpr int64_t kFirstRoom = 64;

struct RowShape {
  int64_t heads;
  int64_t length;
};

void ReserveRows(at::Tensor& tensor, const CacheRoom& room, const RowShape& row,
                 at::Device device) {
  const int64_t before = tensor.defined() ? tensor.size(0) - room.node_count : 0;
  const bool is_large_enough = tensor.defined() && room.cell_count <= before;
  if (is_large_enough && tensor.use_count() == 1) return;
  const int64_t grown = std::min(std::max(2 * before, kFirstRoom), room.cell_count_max);
  const int64_t after = is_large_enough ? before : std::max(room.cell_count, grown);
  // Zeros: slots that no node is in stand among the keys of those that are.
  at::Tensor larger = at::zeros({room.node_count + after, row.heads, row.length},
                                at::TensorOptions(at::kFloat).device(device));
  if (tensor.defined()) larger.narrow(0, 0, tensor.size(0)).copy_(tensor);
  tensor = std::move(larger);
}

}  // namespace

void LayerCache::Reserve(const CacheRoom& room, const AttentionSpec& shape, at::Device device) {
  ReserveRows(keys_, room, {shape.kv_head_count, shape.key_length}, device);
  ReserveRows(values_, room, {shape.kv_head_count, shape.value_length}, device);
}

// A row that sees no such key must not be touched by it, and zero times NaN is NaN: so what is not
// finite is told by the key alone, and the value is zero.
void LayerCache::Write(const at::Tensor& at, const at::Tensor& keys, const at::Tensor& values) {
  const at::Tensor spoiled = values.isfinite().all(-1, true).logical_not();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  keys_.index_copy_(0, at, keys.masked_fill(spoiled, nan));
  values_.index_copy_(0, at, values.masked_fill(spoiled, 0.0));
}

void LayerCache::Copy(int64_t first, const at::Tensor& from) {
  for (at::Tensor* const tensor : {&keys_, &values_}) {
    tensor->narrow(0, first, from.size(0)).copy_(tensor->index_select(0, from));
  }
}

}  // namespace outrider
