// 128 random bits: the name of a session, and the token that only its device knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

namespace outrider {

inline constexpr size_t kRandomBytes = 16;

inline std::string RandomBytes(const std::function<uint64_t()>& random_bits) {
  std::string bytes(kRandomBytes, '\0');
  for (size_t at = 0; at < kRandomBytes; at += sizeof(uint64_t)) {
    const uint64_t bits = random_bits();
    std::memcpy(bytes.data() + at, &bits, sizeof(bits));
  }
  return bytes;
}

class ResumeToken {
 public:
  explicit ResumeToken(const std::function<uint64_t()>& random_bits)
      : bytes_(RandomBytes(random_bits)) {}

  // In a time that does not tell how many of the bytes are right.
  bool Matches(std::string_view other) const {
    if (other.size() != kRandomBytes) return false;
    volatile uint8_t difference = 0;
    for (size_t i = 0; i < kRandomBytes; ++i) {
      difference = difference | static_cast<uint8_t>(bytes_[i] ^ other[i]);
    }
    return difference == 0;
  }

  // For the wire, and nowhere else.
  const std::string& Bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace outrider
