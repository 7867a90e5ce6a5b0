#include "common/text/fingerprint.h"

#include <cinttypes>
#include <cstdio>
#include <string_view>

#include "common/text/token_table.h"

namespace outrider {
namespace {

class Fnv1a {
 public:
  void AddBytes(std::string_view bytes) {
    for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }

  void AddNumber(uint32_t number) {
    for (int shift = 0; shift < 32; shift += 8) {
      const char byte = static_cast<char>(number >> shift & 0xFF);
      AddBytes({&byte, 1});
    }
  }

  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

}  // namespace

uint64_t TokenizerFingerprint(const TokenizerSpec& spec) {
  const TokenTable table(spec);
  Fnv1a hash;
  for (size_t i = 0; i < spec.tokens.size(); ++i) {
    const TokenKind kind = spec.tokens[i].kind;
    if (kind == TokenKind::kUnused) continue;
    const bool control = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
    const auto id = static_cast<TokenId>(i);
    const std::string_view printed = table.Printed(id);
    hash.AddNumber(static_cast<uint32_t>(id));
    hash.AddBytes(control ? "c" : "t");
    hash.AddNumber(static_cast<uint32_t>(printed.size()));
    hash.AddBytes(printed);
  }
  return hash.value();
}

std::string FingerprintDigits(uint64_t fingerprint) {
  char digits[17];
  std::snprintf(digits, sizeof(digits), "%016" PRIx64, fingerprint);
  return digits;
}

}  // namespace outrider
