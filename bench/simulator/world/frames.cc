#include "bench/simulator/world/frames.h"

#include "common/base/check.h"

namespace outrider {

std::string FrameOf(FrameKind kind, std::string_view content) {
  std::string frame;
  frame.reserve(kFrameHeaderBytes + content.size());
  frame.push_back(static_cast<char>(kind));
  const uint32_t length = static_cast<uint32_t>(content.size());
  for (int shift = 24; shift >= 0; shift -= 8) frame.push_back(static_cast<char>(length >> shift));
  frame += content;
  return frame;
}

std::string FrameOf(const absl::Status& status) {
  std::string content(1, static_cast<char>(status.raw_code()));
  content.append(status.message().data(), status.message().size());
  return FrameOf(FrameKind::kStatus, content);
}

absl::Status StatusIn(const Frame& frame) {
  OUTRIDER_CHECK(frame.kind == FrameKind::kStatus && !frame.content.empty(),
                 "a status is asked for");
  return absl::Status(static_cast<absl::StatusCode>(frame.content[0]),
                      {frame.content.data() + 1, frame.content.size() - 1});
}

void FrameReader::Add(std::string_view bytes) {
  bytes_.erase(0, begin_);
  begin_ = 0;
  bytes_ += bytes;
}

std::optional<Frame> FrameReader::Next() {
  const std::string_view left = std::string_view(bytes_).substr(begin_);
  if (left.size() < kFrameHeaderBytes) return std::nullopt;
  uint32_t length = 0;
  for (size_t i = 1; i < kFrameHeaderBytes; ++i)
    length = length << 8 | static_cast<uint8_t>(left[i]);
  if (left.size() < kFrameHeaderBytes + length) return std::nullopt;
  begin_ += kFrameHeaderBytes + length;
  return Frame{static_cast<FrameKind>(left[0]), left.substr(kFrameHeaderBytes, length)};
}

}  // namespace outrider
