// A fast 64-bit hash that tells one model's bytes from another's. It guards against mixing up
// files, not against somebody who wants two files to collide.
//
// The same bytes give the same hash on every machine. Several gigabytes a second: a multiplication
// of 64 by 64 bits for every 16 bytes, two chains side by side.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace outrider {

uint64_t HashBytes(std::span<const std::byte> bytes, uint64_t seed);

// Sixteen hexadecimal digits, as messages say it.
std::string HashDigits(uint64_t hash);

// Hashes a list of values, in order.
class ContentHash {
 public:
  void Add(std::string_view text) { value_ = HashBytes(std::as_bytes(std::span(text)), value_); }
  template <std::integral Number>
  void Add(Number number) {
    AddWord(static_cast<uint64_t>(number));
  }
  void Add(float number) { AddWord(std::bit_cast<uint32_t>(number)); }

  uint64_t value() const { return value_; }

 private:
  void AddWord(uint64_t word);

  uint64_t value_ = 0;
};

}  // namespace outrider
