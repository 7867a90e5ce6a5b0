// Jinja source to tokens, with the whitespace rules chat templates are written for:
// trim_blocks (the line break after a {% tag %} or {# comment #} goes), lstrip_blocks (blanks
// before one that begins its line go), '-' strips either side, '+' keeps, and a final line break is
// dropped. {% raw %} and comments are dealt with here; the parser never sees them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider::jinja {

enum class TokenType : uint8_t {
  kData,  // text between the tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,  // unescaped
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type;
  int line;
  std::string text;
  int64_t integer = 0;
  double real = 0;

  bool is(TokenType wanted) const { return type == wanted; }
  bool is(TokenType wanted, std::string_view wanted_text) const {
    return type == wanted && text == wanted_text;
  }
};

// The tokens, the last of them kEnd. Errors begin with "line N: ". `source` is valid UTF-8.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace outrider::jinja
