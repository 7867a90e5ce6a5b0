// Messages on a stream of bytes, as gRPC frames them.
//
//    0        1                    5
//   +--------+--------------------+---------
//   | flag   | length, big-endian | message
//   +--------+--------------------+---------
//
// The flag is 0 for a message. A stream's status, which real gRPC sends in HTTP/2 trailers, is a
// frame of its own here, with flag 0x80 as in gRPC-Web, so that it costs bytes and can be cut too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace outrider {

enum class FrameKind : uint8_t { kMessage = 0, kStatus = 0x80 };

struct Frame {
  FrameKind kind;
  std::string_view content;
};

inline constexpr size_t kFrameHeaderBytes = 5;

std::string FrameOf(FrameKind kind, std::string_view content);
std::string FrameOf(const absl::Status& status);
absl::Status StatusIn(const Frame& frame);

// Puts frames together again from bytes that arrive in pieces.
class FrameReader {
 public:
  void Add(std::string_view bytes);
  // What it points to is good until the next call of anything.
  std::optional<Frame> Next();

 private:
  std::string bytes_;
  size_t begin_ = 0;  // of what has not been read
};

}  // namespace outrider
