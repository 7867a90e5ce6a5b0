// Rows of floats that layers hand one another, each on cache lines of its own, and the one piece of
// memory in which several kinds of them lie.
//
//   OUTRIDER_ASSIGN_OR_RETURN(memory_, AllocateRows({{gate_, row_count_max, length},
//                                                    {up_, row_count_max, length}}));
#pragma once

#include <cstddef>
#include <initializer_list>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"

namespace outrider {

// A view: row i starts at data + i * stride.
struct RowBlock {
  float* data = nullptr;
  size_t stride = 0;

  float* row(size_t i) const { return data + i * stride; }
};

struct RowsToAllocate {
  RowBlock& rows;
  size_t row_count;
  size_t length;  // floats of a row
};

// Points them into the memory it returns. ResourceExhausted when the machine has not so much.
absl::StatusOr<PageBuffer> AllocateRows(std::initializer_list<RowsToAllocate> parts);

}  // namespace outrider
