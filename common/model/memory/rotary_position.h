// Where rotary embeddings turn a row to: up to three numbers (time, height and width of an image's
// patch), which are all the token's index in plain text. An index counts tokens and is a plain
// number; the two never mix.
#pragma once

#include <array>
#include <cstdint>

namespace outrider {

struct RotaryPosition {
  std::array<uint32_t, 3> at;

  static constexpr RotaryPosition OfText(uint32_t index) { return {{index, index, index}}; }

  bool operator==(const RotaryPosition&) const = default;
};

}  // namespace outrider
