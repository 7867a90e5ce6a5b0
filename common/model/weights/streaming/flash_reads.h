// What has to be read for one key: which bytes of which file become which bytes of a slot.
//
// What lies in the file as it is used, panels of a file that `outrider convert --flash` wrote, lands
// where it belongs in the slot, without any processor's help: the file's blocks are the slot's. Where
// they are not it is copied there. Rows of any other file are packed: those reads cover a whole number of
// panels, so that each can be packed as soon as it has landed, in whatever order they land.
//
// Reads are as long as fits into half a megabyte, since flash has its full rate from 256 KiB up and what
// is in flight takes memory. They begin and end on the file's blocks: two that follow one another share a
// block at the most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/direct_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/weights/load_plan.h"

namespace outrider {

// No read is longer, but where a panel is.
inline constexpr uint64_t kReadBytesMax = uint64_t{512} << 10;
// No file system here has larger blocks; nor does a slot.
inline constexpr uint64_t kBlockBytesMax = kSlotAlignment;

enum class Landing {
  kInPlace,  // in the slot
  kCopied,   // in staging, and is copied
  kPacked,   // in staging, and is packed
};

// How a part is read: `bytes` of its file from `offset` on, `step` at a time.
struct PartReads {
  Landing landing;
  uint64_t offset;
  uint64_t bytes;
  uint64_t step;

  uint64_t count() const { return (bytes + step - 1) / step; }
  // Of a read, at the most; 0 for what lands in place.
  uint64_t staging_bytes() const;
};

// In a file whose blocks are `block_bytes`.
PartReads ReadsOf(const MatrixPart& part, uint64_t block_bytes);

// `bytes` of a part, extent.skip into the extent, which come to be at slot + at.
struct FlashRead {
  uint32_t file;
  DirectFile::Extent extent;
  MatrixPart part;
  Landing landing;
  uint64_t bytes;
  size_t at;
};

// In the order of `parts`. `files` are those of the model, by index. InvalidArgument, naming the
// tensor, where what is wanted of it does not lie in a file.
absl::StatusOr<std::vector<FlashRead>> PlanReads(std::span<const MatrixPart> parts,
                                                 std::span<const DirectFile* const> files,
                                                 const std::string& path);

absl::Status CannotBeStreamed(const ModelTensor& tensor, const std::string& path);

// The longest extent of those that land in staging.
uint64_t LongestStaged(std::span<const FlashRead> reads);
// All of them together.
uint64_t ReadBytes(std::span<const FlashRead> reads);

// Where a read's extent is to be read to: in the slot, or the beginning of `staging`.
std::span<std::byte> LandingPlace(const FlashRead& read, std::byte* slot,
                                  std::span<std::byte> staging);
// It has landed: puts what is in staging where it belongs.
void Unload(const FlashRead& read, std::span<const std::byte> staging, std::byte* slot);

}  // namespace outrider
