// Messages of few sizes. TLS hides what a message says and not how long it is, and by the lengths of
// growth and verdicts one can tell prompts apart (arXiv 2411.01076). Zeros that fill each message up
// to a multiple of so many bytes leave little to tell by: whoever chooses as many as the largest of
// a reply's messages has them all of one size.
//
//   PadTo(256, message);   // has 256 bytes now, or 512, or 768 ...
//
// What is not hidden: how many messages there are, and when.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/base/status.h"

namespace outrider {

// With frames of this size or more all messages of a reply are alike, but long edits.
inline constexpr uint32_t kReplyFrameBytes = 256;

// A server writes no more for who asks for it.
inline constexpr uint32_t kFrameBytesMax = 4096;

struct Padding {
  size_t zeros = 0;
  bool padded = false;  // a field of two bytes
};

// That with which a message of `size` bytes has a multiple of `frame_bytes`. The field of zeros takes a
// byte for its tag, and one for their number, or two from 128 on: it has 3 bytes or more, and never 130.
// With the other there is all but 1 byte: then it is the next multiple.
constexpr Padding PaddingFor(size_t size, uint32_t frame_bytes) {
  size_t missing = (frame_bytes - size % frame_bytes) % frame_bytes;
  if (missing == 1) missing += frame_bytes;
  const bool padded = missing == 2 || missing == 130;
  if (padded) missing -= 2;
  if (missing == 0) return {.zeros = 0, .padded = padded};
  return {.zeros = missing < 130 ? missing - 2 : missing - 3, .padded = padded};
}

// `message` has the fields `padding` and `padded`. 0: none.
template <typename Message>
void PadTo(uint32_t frame_bytes, Message& message) {
  message.clear_padding();
  message.clear_padded();
  if (frame_bytes == 0) return;
  const Padding padding = PaddingFor(message.ByteSizeLong(), frame_bytes);
  message.set_padded(padding.padded);
  if (padding.zeros > 0) message.mutable_padding()->assign(padding.zeros, '\0');
}

// Of what a device asks for; of the zeros of a message that has come.
inline absl::Status CheckFrameBytes(uint32_t frame_bytes) {
  if (frame_bytes <= kFrameBytesMax) return absl::OkStatus();
  return InvalidArgument("frames of ", frame_bytes, " bytes are more than the ", kFrameBytesMax,
                         " that a server writes");
}

inline absl::Status CheckPadding(size_t zeros) {
  if (zeros <= 2 * kFrameBytesMax) return absl::OkStatus();
  return InvalidArgument("a message is padded by ", zeros, " bytes, more than the ",
                         2 * kFrameBytesMax, " that there may be");
}

}  // namespace outrider
