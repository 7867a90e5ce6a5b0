#include "common/model/layers/attention_heads.h"

#include "common/base/status.h"

namespace outrider {

absl::StatusOr<AttentionHeads> AttentionHeads::Create(const RowMath& math,
                                                      const HeadLengths& lengths,
                                                      uint32_t row_count_max) {
  AttentionHeads heads(math);
  OUTRIDER_ASSIGN_OR_RETURN(heads.memory_,
                            AllocateRows({{heads.query_, row_count_max, lengths.query},
                                          {heads.key_, row_count_max, lengths.key},
                                          {heads.value_, row_count_max, lengths.value},
                                          {heads.attended_, row_count_max, lengths.attended}}));
  return heads;
}

void AttentionHeads::Store(size_t i, const HeadCells& cells, const CellAt& cell) const {
  const AttentionCells& shape = cells.shape;
  for (uint32_t head = 0; head < shape.kv_head_count; ++head) {
    math_->kernels().to_half(key_.row(i) + size_t{head} * shape.key_length, shape.key_length,
                             cell.As<uint16_t>(cells.keys_at(head), shape.key_length));
    math_->kernels().to_half(value_.row(i) + size_t{head} * shape.value_length, shape.value_length,
                             cell.As<uint16_t>(cells.values_at(head), shape.value_length));
  }
}

}  // namespace outrider
