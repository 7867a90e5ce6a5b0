// What has to be read for one key: which bytes of which file become which rows of a slot.
//
// A read covers a whole number of panels, so that it can be packed as soon as it has landed, in
// whatever order reads land; and as many as fit into half a megabyte, since flash has its full
// rate from 256 KiB up and what is in flight takes memory. It begins and ends on the file's blocks: two
// reads that follow one another share a block at the most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/direct_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/weights/load_plan.h"

namespace outrider {

// No read is longer, but where a panel is.
inline constexpr uint64_t kReadBytesMax = uint64_t{512} << 10;
// No file system here has larger blocks.
inline constexpr uint64_t kBlockBytesMax = 4096;

// Rows [first_row, first_row + row_count) of a part, which begin extent.skip bytes into the extent.
struct FlashRead {
  uint32_t file;
  DirectFile::Extent extent;
  MatrixPart part;
  uint64_t first_row;  // of the part; a multiple of kPanelOutputs
  uint64_t row_count;
};

inline uint64_t RowBytesOf(const MatrixPart& part) {
  return RowBytes(part.tensor->type, part.tensor->dims[0]);
}

// Of a part, but for the last one of it.
uint64_t RowsPerRead(const MatrixPart& part);

// In the order of `parts`. `files` are those of the model, by index. InvalidArgument, naming the
// tensor, where its rows do not lie in a file as they are used.
absl::StatusOr<std::vector<FlashRead>> PlanReads(std::span<const MatrixPart> parts,
                                                 std::span<const DirectFile* const> files,
                                                 const std::string& path);

// The longest extent of them.
uint64_t LongestExtent(std::span<const FlashRead> reads);
// All of them together.
uint64_t ReadBytes(std::span<const FlashRead> reads);

// Puts rows that have landed where they belong in a slot: `blocks` is the extent's memory.
void Unpack(const FlashRead& read, std::span<const std::byte> blocks, std::byte* slot);

}  // namespace outrider
