// The strings that tokenizers are held against others with (tests/golden/tokenizer_strings.py), and
// how golden files write numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/text/unicode/unicode.h"
#include "tests/test_files.h"

namespace outrider {

// Numbers in LEB128, and bytes, from a golden file.
class Varints {
 public:
  explicit Varints(std::string bytes) : bytes_(std::move(bytes)) {}

  bool done() const { return at_ == bytes_.size(); }

  uint64_t Next() {
    uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    return value;
  }

  std::string NextBytes(size_t count) {
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

inline std::vector<std::string> GoldenStrings() {
  std::vector<std::string> strings;
  for (Varints file(ReadFile(TestFile("tokenizers/strings.bin"))); !file.done();) {
    strings.push_back(file.NextBytes(file.Next()));
  }
  return strings;
}

// Those that golden files of many tokenizers are about: every third, where it is not long; valid.
inline std::vector<std::string> CutStrings() {
  const std::vector<std::string> all = GoldenStrings();
  std::vector<std::string> strings;
  for (size_t i = 0; i < all.size(); i += 3) {
    std::string storage;
    if (all[i].size() <= 400) strings.emplace_back(ValidUtf8(all[i], storage));
  }
  return strings;
}

}  // namespace outrider
