#include "common/text/pre_tokenizer.h"

#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

using Class = CharacterClass;

// The end of the run of characters of class `wanted` that starts at `at` (`at` itself when there is
// none).
size_t RunEnd(std::string_view text, size_t at, Class wanted) {
  while (at < text.size()) {
    const Character c = DecodeAt(text, at);
    if (ClassOf(c.code) != wanted) break;
    at += c.length;
  }
  return at;
}

bool HasClassAt(std::string_view text, size_t at, Class wanted) {
  return at < text.size() && ClassOf(DecodeAt(text, at).code) == wanted;
}

bool IsNewline(char c) {
  return c == '\r' || c == '\n';
}

// 's|'t|'re|'ve|'m|'ll|'d after the apostrophe; 0 when none of them follows. Ignoring case, Unicode
// counts U+017F (the long s) as an s.
size_t ContractionLength(std::string_view text, bool ignore_case) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const auto letter = [&](size_t i) -> char {
    if (i >= text.size()) return '\0';
    const bool upper = text[i] >= 'A' && text[i] <= 'Z';
    return ignore_case && upper ? static_cast<char>(text[i] | 0x20) : text[i];
  };
  switch (letter(1)) {
    case 's':
    case 't':
    case 'm':
    case 'd':
      return 2;
    case 'r':
    case 'v':
      return letter(2) == 'e' ? 3 : 0;
    case 'l':
      return letter(2) == 'l' ? 3 : 0;
    default:
      return ignore_case && text.substr(1, 2) == "\xC5\xBF" ? 3 : 0;
  }
}

// \s+(?!\S)|\s+ over the white space that ends at `run_end`: all of it at the end of the text;
// before anything else all but its last character, which is left to the piece that follows, unless
// it is the only one.
size_t SpacesBeforeText(std::string_view text, size_t run_end) {
  if (run_end == text.size()) return run_end;
  const size_t without_last = run_end - DecodeBefore(text, run_end).length;
  return without_last > 0 ? without_last : run_end;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t FirstGpt2Piece(std::string_view text) {
  if (const size_t length = ContractionLength(text, /*ignore_case=*/false)) return length;
  const size_t start = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  const Character c = DecodeAt(text, start);
  const Class kind = ClassOf(c.code);
  if (kind != Class::kSpace) return RunEnd(text, start + c.length, kind);
  return SpacesBeforeText(text, RunEnd(text, 0, Class::kSpace));
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+| \s+(?!\S)|\s+          where `digits` is 3 for Llama 3 and 1
// for Qwen 2
size_t FirstLlama3Piece(std::string_view text, int digits) {
  if (const size_t length = ContractionLength(text, /*ignore_case=*/true)) return length;
  const Character first = DecodeAt(text, 0);
  const Class kind = ClassOf(first.code);
  if (kind == Class::kLetter) return RunEnd(text, first.length, Class::kLetter);
  if (kind == Class::kNumber) {
    size_t end = first.length;
    for (int i = 1; i < digits && HasClassAt(text, end, Class::kNumber); ++i)
      end += DecodeAt(text, end).length;
    return end;
  }
  if (!IsNewline(text[0]) && HasClassAt(text, first.length, Class::kLetter)) {
    return RunEnd(text, first.length, Class::kLetter);
  }
  const size_t start = text[0] == ' ' ? 1 : 0;
  if (HasClassAt(text, start, Class::kOther)) {
    size_t end = RunEnd(text, start, Class::kOther);
    while (end < text.size() && IsNewline(text[end])) ++end;
    return end;
  }
  const size_t run_end = RunEnd(text, 0, Class::kSpace);
  for (size_t end = run_end; end > 0; --end) {
    if (IsNewline(text[end - 1])) return end;  // no other white space contains these bytes
  }
  return SpacesBeforeText(text, run_end);
}

}  // namespace

size_t FirstPiece(TokenizerSpec::PreTokenizer pre_tokenizer, std::string_view text) {
  switch (pre_tokenizer) {
    case TokenizerSpec::PreTokenizer::kGpt2:
      return FirstGpt2Piece(text);
    case TokenizerSpec::PreTokenizer::kLlama3:
      return FirstLlama3Piece(text, 3);
    case TokenizerSpec::PreTokenizer::kQwen2:
      return FirstLlama3Piece(text, 1);
    case TokenizerSpec::PreTokenizer::kNone:
      break;
  }
  return text.size();
}

}  // namespace outrider
