#include "common/text/fingerprint.h"

namespace outrider {

void Fingerprint::Add(TokenId id, TokenKind kind, std::string_view printed) {
  if (kind == TokenKind::kUnused) return;
  const bool control = kind == TokenKind::kControl || kind == TokenKind::kUnknown;
  AddNumber(static_cast<uint32_t>(id));
  AddBytes(control ? "c" : "t");
  AddNumber(static_cast<uint32_t>(printed.size()));
  AddBytes(printed);
}

void Fingerprint::AddBytes(std::string_view bytes) {
  for (const char c : bytes) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
}

void Fingerprint::AddNumber(uint32_t number) {
  for (int shift = 0; shift < 32; shift += 8) {
    const char byte = static_cast<char>(number >> shift & 0xFF);
    AddBytes({&byte, 1});
  }
}

}  // namespace outrider
