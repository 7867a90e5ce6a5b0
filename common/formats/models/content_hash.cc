#include "common/formats/models/content_hash.h"

#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace outrider {
namespace {

// Digits of pi's fraction: odd-looking constants from nowhere.
constexpr uint64_t kPi0 = 0x243f6a8885a308d3;
constexpr uint64_t kPi1 = 0x13198a2e03707345;
constexpr uint64_t kPi2 = 0xa4093822299f31d1;
constexpr uint64_t kPi3 = 0x082efa98ec4e6c89;

constexpr size_t kStride = 32;

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

uint64_t Load(const std::byte* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// Both halves of the product: every bit of the factors moves about half of these.
uint64_t Mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

struct Chains {
  uint64_t first, second;

  // What came before stays in the sum, even where a factor happens to be zero.
  void Take(const std::byte* bytes) {
    first = std::rotl(first, 29) + Mix(Load(bytes) ^ kPi0, Load(bytes + 8) ^ first);
    second = std::rotl(second, 29) + Mix(Load(bytes + 16) ^ kPi1, Load(bytes + 24) ^ second);
  }
};

}  // namespace

uint64_t HashBytes(std::span<const std::byte> bytes, uint64_t seed) {
  Chains chains{seed ^ kPi2, seed ^ kPi3};
  size_t at = 0;
  for (; at + kStride <= bytes.size(); at += kStride) chains.Take(bytes.data() + at);
  if (at < bytes.size()) {
    std::array<std::byte, kStride> tail{};
    std::memcpy(tail.data(), bytes.data() + at, bytes.size() - at);
    chains.Take(tail.data());
  }
  // The length tells a tail of zeros from none.
  return Mix(Mix(chains.first ^ kPi1, chains.second ^ kPi0), bytes.size() ^ kPi3);
}

std::string HashDigits(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, hash);
  return text;
}

void ContentHash::AddWord(uint64_t word) {
  std::array<std::byte, sizeof(word)> bytes;
  std::memcpy(bytes.data(), &word, sizeof(word));
  value_ = HashBytes(bytes, value_);
}

}  // namespace outrider
