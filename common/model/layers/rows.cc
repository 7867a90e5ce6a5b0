#include "common/model/layers/rows.h"

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kFloatsPerLine = kVectorAlignment / sizeof(float);

size_t Stride(size_t length) {
  return (length + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

}  // namespace

absl::StatusOr<PageBuffer> AllocateRows(std::initializer_list<RowsToAllocate> parts) {
  size_t floats = 0;
  for (const RowsToAllocate& part : parts) floats += part.row_count * Stride(part.length);
  OUTRIDER_ASSIGN_OR_RETURN(PageBuffer memory, PageBuffer::Create(floats * sizeof(float)));
  float* next = memory.As<float>().data();
  for (const RowsToAllocate& part : parts) {
    part.rows = {next, Stride(part.length)};
    next += part.row_count * Stride(part.length);
  }
  return memory;
}

}  // namespace outrider
