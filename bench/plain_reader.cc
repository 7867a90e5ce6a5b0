#include "bench/plain_reader.h"

#include <algorithm>

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;
constexpr uint32_t kInFlight = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<PlainReader>> PlainReader::Open(const std::string& path,
                                                               uint64_t memory_bytes) {
  std::unique_ptr<PlainReader> reader(new PlainReader);
  const uint64_t places = std::max<uint64_t>(kInFlight, memory_bytes / kReadBytes);
  OUTRIDER_ASSIGN_OR_RETURN(reader->memory_, PageBuffer::CreateLarge(kReadBytes * places));
  for (uint64_t place = 0; place < places; ++place) reader->free_places_.push_back(place);
  OUTRIDER_ASSIGN_OR_RETURN(reader->file_, DirectFile::Open(path, {.queue_depth = kInFlight}));
  if (reader->file_->size() < kReadBytes) {
    return InvalidArgument(path, ": has ", reader->file_->size(),
                           " bytes; a reader wants a mebibyte at least");
  }
  return reader;
}

absl::Status PlainReader::Read(uint64_t bytes) {
  const uint64_t pieces = file_->size() / kReadBytes;
  uint64_t asked = 0;
  while (asked < bytes || file_->in_flight() > 0) {
    if (asked < bytes && file_->in_flight() < kInFlight) {
      const uint64_t offset = asked / kReadBytes % pieces * kReadBytes;
      const uint64_t place = free_places_.front();
      free_places_.pop_front();
      asked += kReadBytes;
      OUTRIDER_RETURN_IF_ERROR(file_->SubmitRead(
          offset, memory_.bytes().subspan(place * kReadBytes, kReadBytes), place));
      continue;
    }
    const DirectFile::Completion landed = file_->WaitCompletion();
    free_places_.push_back(landed.tag);
    OUTRIDER_RETURN_IF_ERROR(landed.status);
  }
  return absl::OkStatus();
}

}  // namespace outrider
