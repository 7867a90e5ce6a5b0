#include "bench/plain_reader.h"

#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;
constexpr uint32_t kInFlight = 4;

}  // namespace

absl::StatusOr<std::unique_ptr<PlainReader>> PlainReader::Open(const std::string& path) {
  std::unique_ptr<PlainReader> reader(new PlainReader);
  OUTRIDER_ASSIGN_OR_RETURN(reader->memory_, PageBuffer::CreateLarge(kReadBytes * kInFlight));
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
  const auto ask = [&](uint64_t place) {
    const uint64_t offset = asked / kReadBytes % pieces * kReadBytes;
    asked += kReadBytes;
    return file_->SubmitRead(offset, memory_.bytes().subspan(place * kReadBytes, kReadBytes),
                             place);
  };
  for (uint64_t place = 0; place < kInFlight; ++place) OUTRIDER_RETURN_IF_ERROR(ask(place));
  while (file_->in_flight() > 0) {
    const DirectFile::Completion landed = file_->WaitCompletion();
    OUTRIDER_RETURN_IF_ERROR(landed.status);
    if (asked < bytes) OUTRIDER_RETURN_IF_ERROR(ask(landed.tag));
  }
  return absl::OkStatus();
}

}  // namespace outrider
