#include "common/text/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "common/base/status.h"
#include "common/text/jinja/strings.h"
#include "common/text/unicode/unicode.h"

namespace outrider::jinja {

namespace {

// Line breaks become "\n", and one at the end goes.
std::string NormalizeLines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out.push_back(source[i]);
      continue;
    }
    out.push_back('\n');
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool IsDigitOf(char c, int base) {
  if (base == 16) {
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
  }
  return c >= '0' && c < '0' + base;
}

bool StartsName(char c) {
  return c == '_' || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

std::string WithoutUnderscores(std::string_view digits) {
  std::string out(digits);
  out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(NormalizeLines(source)), rest_(source_) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (!rest_.empty()) OUTRIDER_RETURN_IF_ERROR(LexData());
    Emit(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  absl::Status LexData();
  absl::Status LexTag(TokenType begin, TokenType end);
  absl::Status LexToken();
  absl::Status LexString();
  absl::Status LexNumber();
  absl::Status LexOperator();
  bool LexTagEnd(TokenType end);
  absl::Status SkipComment();
  std::optional<size_t> MatchRawBegin() const;
  absl::Status LexRaw(size_t begin_length);
  std::string_view StripBeforeTag(std::string_view text, char sign, bool is_variable) const;

  absl::Status Unescape(std::string_view body, std::string& out) const;
  absl::Status UnescapeOne(std::string_view body, size_t& at, std::string& out) const;

  // The length of an optionally underscored run of digits at `at`.
  size_t DigitRun(size_t at, int base, bool leading_underscore) const;

  void Emit(TokenType type, std::string text) { tokens_.push_back({type, line_, std::move(text)}); }
  char PeekAt(size_t at) const { return at < rest_.size() ? rest_[at] : '\0'; }
  bool Sees(std::string_view text) const { return rest_.substr(0, text.size()) == text; }
  void Advance(size_t length) {
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + length, '\n'));
    rest_.remove_prefix(length);
  }
  size_t BlanksFrom(size_t at) const;
  template <typename... Parts>
  absl::Status Fail(const Parts&... parts) const {
    return InvalidArgument("line ", line_, ": ", parts...);
  }

  const std::string source_;
  std::string_view rest_;
  int line_ = 1;
  bool line_starting_ = true;  // the last tag took the line break after it along
  std::string open_brackets_;  // the closing ones that are due
  std::vector<Token> tokens_;
};

size_t Lexer::BlanksFrom(size_t at) const {
  const std::string_view text = rest_.substr(at);
  return text.size() - Strip(text, Side::kLeft).size();
}

// What is left of the text before a tag.
std::string_view Lexer::StripBeforeTag(std::string_view text, char sign, bool is_variable) const {
  if (sign == '-') return Strip(text, Side::kRight);
  if (sign == '+' || is_variable) return text;
  const size_t line_break = text.rfind('\n');
  if (line_break == std::string_view::npos && !line_starting_) return text;
  const size_t line_start = line_break == std::string_view::npos ? 0 : line_break + 1;
  return IsAllBlank(text.substr(line_start)) ? text.substr(0, line_start) : text;
}

// "{%- raw %}" and its length; no trim_blocks behind this one, as in Jinja.
std::optional<size_t> Lexer::MatchRawBegin() const {
  size_t at = 2;
  if (PeekAt(at) == '-' || PeekAt(at) == '+') ++at;
  at += BlanksFrom(at);
  if (rest_.substr(at, 3) != "raw") return std::nullopt;
  at += 3;
  at += BlanksFrom(at);
  if (rest_.substr(at, 3) == "-%}") return at + 3 + BlanksFrom(at + 3);
  if (rest_.substr(at, 2) == "%}") return at + 2;
  return std::nullopt;
}

absl::Status Lexer::LexData() {
  size_t at = 0;
  while (true) {
    at = rest_.find('{', at);
    if (at == std::string_view::npos || at + 1 >= rest_.size()) {
      if (!rest_.empty()) Emit(TokenType::kData, std::string(rest_));
      Advance(rest_.size());
      return absl::OkStatus();
    }
    const char kind = rest_[at + 1];
    if (kind == '{' || kind == '%' || kind == '#') break;
    ++at;
  }
  const char kind = rest_[at + 1];
  const char sign = PeekAt(at + 2) == '-' || PeekAt(at + 2) == '+' ? PeekAt(at + 2) : ' ';
  const std::string_view text = StripBeforeTag(rest_.substr(0, at), sign, kind == '{');
  if (!text.empty()) Emit(TokenType::kData, std::string(text));
  Advance(at);
  if (kind == '%') {
    if (const std::optional<size_t> length = MatchRawBegin()) return LexRaw(*length);
  }
  Advance(sign == ' ' ? 2 : 3);
  if (kind == '#') return SkipComment();
  return kind == '{' ? LexTag(TokenType::kVariableBegin, TokenType::kVariableEnd)
                     : LexTag(TokenType::kBlockBegin, TokenType::kBlockEnd);
}

absl::Status Lexer::SkipComment() {
  if (rest_.empty()) return absl::OkStatus();  // Jinja lets a comment pass that only begins
  const size_t at = rest_.find("#}");
  if (at == std::string_view::npos) return Fail("a comment is not closed");
  size_t length = at + 2;
  const char sign = at > 0 ? rest_[at - 1] : ' ';
  if (sign == '-') {
    length += BlanksFrom(length);
  } else if (sign != '+' && PeekAt(length) == '\n') {
    ++length;
  }
  line_starting_ = rest_[length - 1] == '\n';
  Advance(length);
  return absl::OkStatus();
}

absl::Status Lexer::LexRaw(size_t begin_length) {
  const int line = line_;
  line_starting_ = rest_[begin_length - 1] == '\n';
  Advance(begin_length);
  if (rest_.empty()) return absl::OkStatus();  // as with comments
  for (size_t at = rest_.find("{%"); at != std::string_view::npos; at = rest_.find("{%", at + 2)) {
    const char sign = PeekAt(at + 2) == '-' || PeekAt(at + 2) == '+' ? PeekAt(at + 2) : ' ';
    size_t end = at + (sign == ' ' ? 2 : 3);
    end += BlanksFrom(end);
    if (rest_.substr(end, 6) != "endraw") continue;
    end += 6;
    end += BlanksFrom(end);
    if (rest_.substr(end, 3) == "-%}") {
      end += 3;
      end += BlanksFrom(end);
    } else if (rest_.substr(end, 3) == "+%}") {
      end += 3;
    } else if (rest_.substr(end, 2) == "%}") {
      end += 2;
      if (PeekAt(end) == '\n') ++end;
    } else {
      continue;
    }
    const std::string_view text = StripBeforeTag(rest_.substr(0, at), sign, false);
    if (!text.empty()) Emit(TokenType::kData, std::string(text));
    line_starting_ = rest_[end - 1] == '\n';
    Advance(end);
    return absl::OkStatus();
  }
  return InvalidArgument("line ", line, ": 'raw' is not closed by 'endraw'");
}

absl::Status Lexer::LexTag(TokenType begin, TokenType end) {
  Emit(begin, begin == TokenType::kBlockBegin ? "{%" : "{{");
  const int line = line_;
  open_brackets_.clear();
  while (!LexTagEnd(end)) {
    Advance(BlanksFrom(0));
    if (rest_.empty()) return InvalidArgument("line ", line, ": a tag is not closed");
    if (LexTagEnd(end)) break;
    OUTRIDER_RETURN_IF_ERROR(LexToken());
  }
  return absl::OkStatus();
}

// Inside brackets the end of a tag is only operators: {{ {"a": {}} }}.
bool Lexer::LexTagEnd(TokenType end) {
  if (!open_brackets_.empty()) return false;
  const std::string_view closing = end == TokenType::kBlockEnd ? "%}" : "}}";
  size_t length;
  if (PeekAt(0) == '-' && rest_.substr(1, 2) == closing) {
    length = 3 + BlanksFrom(3);
  } else if (PeekAt(0) == '+' && end == TokenType::kBlockEnd && rest_.substr(1, 2) == closing) {
    length = 3;
  } else if (Sees(closing)) {
    length = end == TokenType::kBlockEnd && PeekAt(2) == '\n' ? 3 : 2;
  } else {
    return false;
  }
  Emit(end, std::string(closing));
  line_starting_ = rest_[length - 1] == '\n';
  Advance(length);
  return true;
}

absl::Status Lexer::LexToken() {
  const char c = rest_[0];
  if (c >= '0' && c <= '9') return LexNumber();
  if (c == '"' || c == '\'') return LexString();
  if (!StartsName(c)) return LexOperator();
  size_t length = 1;
  while (StartsName(PeekAt(length)) || IsDigitOf(PeekAt(length), 10)) ++length;
  Emit(TokenType::kName, std::string(rest_.substr(0, length)));
  Advance(length);
  return absl::OkStatus();
}

size_t Lexer::DigitRun(size_t at, int base, bool leading_underscore) const {
  size_t length = 0;
  while (true) {
    const bool underscore = PeekAt(at + length) == '_' && (length > 0 || leading_underscore);
    if (!IsDigitOf(PeekAt(at + length + (underscore ? 1 : 0)), base)) return length;
    length += underscore ? 2 : 1;
  }
}

absl::Status Lexer::LexNumber() {
  const char second = static_cast<char>(PeekAt(1) | 0x20);
  const int base = rest_[0] != '0' ? 10
                   : second == 'x' ? 16
                   : second == 'o' ? 8
                   : second == 'b' ? 2
                                   : 10;
  size_t length = 0;
  bool is_float = false;
  if (base != 10) {
    length = DigitRun(2, base, true);
    if (length > 0) length += 2;
  }
  if (length == 0) {
    length = DigitRun(0, 10, false);
    // After a dot digits are a subscript: x.0.1
    const bool after_dot = rest_.data() != source_.data() && rest_.data()[-1] == '.';
    const auto exponent_at = [&](size_t at) {
      if ((PeekAt(at) | 0x20) != 'e') return size_t{0};
      const size_t sign = PeekAt(at + 1) == '+' || PeekAt(at + 1) == '-' ? 1 : 0;
      const size_t digits = DigitRun(at + 1 + sign, 10, false);
      return digits == 0 ? 0 : 1 + sign + digits;
    };
    if (!after_dot) {
      const size_t fraction = PeekAt(length) == '.' ? DigitRun(length + 1, 10, false) : 0;
      const size_t with_fraction = length + (fraction > 0 ? fraction + 1 : 0);
      const size_t exponent = exponent_at(with_fraction);
      is_float = fraction > 0 || exponent > 0;
      if (is_float) length = with_fraction + exponent;
    }
    // Of "012" the number is the zero.
    if (!is_float && rest_[0] == '0') {
      length = 1;
      while (PeekAt(length) == '0' || (PeekAt(length) == '_' && PeekAt(length + 1) == '0'))
        ++length;
    }
  }
  const std::string digits = WithoutUnderscores(rest_.substr(0, length));
  const char* const first = digits.data() + (base == 10 || length == 1 ? 0 : 2);
  const char* const last = digits.data() + digits.size();
  Token token{is_float ? TokenType::kFloat : TokenType::kInteger, line_, digits};
  const auto error = is_float ? std::from_chars(first, last, token.real).ec
                              : std::from_chars(first, last, token.integer, base).ec;
  if (error != std::errc()) {
    return Unimplemented("line ", line_, ": the number ", digits, " is not supported");
  }
  tokens_.push_back(std::move(token));
  Advance(length);
  return absl::OkStatus();
}

absl::Status Lexer::LexOperator() {
  static constexpr std::array<std::string_view, 26> kOperators = {
      "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
      "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
  const auto* const found = std::find_if(kOperators.begin(), kOperators.end(),
                                         [this](std::string_view text) { return Sees(text); });
  if (found == kOperators.end()) {
    const size_t length = DecodeAt(rest_, 0).length;
    if (length > 1) {
      return Unimplemented("line ", line_, ": '", rest_.substr(0, length),
                           "' outside of a string is not supported");
    }
    return Fail("unexpected '", rest_.substr(0, 1), "'");
  }
  const char c = (*found)[0];
  if (c == '(') open_brackets_.push_back(')');
  if (c == '[') open_brackets_.push_back(']');
  if (c == '{') open_brackets_.push_back('}');
  if (c == ')' || c == ']' || c == '}') {
    if (open_brackets_.empty()) return Fail("unexpected '", c, "'");
    if (open_brackets_.back() != c) {
      return Fail("unexpected '", c, "', expected '", open_brackets_.back(), "'");
    }
    open_brackets_.pop_back();
  }
  Emit(TokenType::kOperator, std::string(*found));
  Advance(found->size());
  return absl::OkStatus();
}

absl::Status Lexer::LexString() {
  const char quote = rest_[0];
  size_t end = 1;
  while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
  if (end >= rest_.size()) return Fail("a string is not closed");
  std::string text;
  OUTRIDER_RETURN_IF_ERROR(Unescape(rest_.substr(1, end - 1), text));
  Emit(TokenType::kString, std::move(text));
  Advance(end + 1);
  return absl::OkStatus();
}

absl::Status Lexer::Unescape(std::string_view body, std::string& out) const {
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\') {
      out.push_back(body[at++]);
      continue;
    }
    ++at;  // there is a character behind it, or the string had not ended here
    OUTRIDER_RETURN_IF_ERROR(UnescapeOne(body, at, out));
  }
  return absl::OkStatus();
}

// The escape whose letter is body[at], Python's "unicode-escape".
absl::Status Lexer::UnescapeOne(std::string_view body, size_t& at, std::string& out) const {
  static constexpr std::string_view kLetters = "\n\\'\"abfnrtv";
  static constexpr std::array<std::string_view, 11> kMeanings = {"",   "\\", "'",  "\"", "\a", "\b",
                                                                 "\f", "\n", "\r", "\t", "\v"};
  const char letter = body[at];
  if (const size_t found = kLetters.find(letter); found != std::string_view::npos) {
    out.append(kMeanings[found]);
    ++at;
    return absl::OkStatus();
  }
  const auto number = [&](size_t from, size_t length, int base) -> std::optional<uint32_t> {
    uint32_t value = 0;
    const std::string_view digits = body.substr(std::min(from, body.size()), length);
    for (const char digit : digits) {
      if (!IsDigitOf(digit, base)) return std::nullopt;
    }
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    return parsed.ec == std::errc() ? std::optional(value) : std::nullopt;
  };
  if (IsDigitOf(letter, 8)) {
    size_t length = 1;
    while (length < 3 && at + length < body.size() && IsDigitOf(body[at + length], 8)) ++length;
    AppendUtf8(*number(at, length, 8), out);
    at += length;
    return absl::OkStatus();
  }
  if (letter == 'x' || letter == 'u' || letter == 'U') {
    const size_t length = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    const std::optional<uint32_t> code =
        at + length < body.size() ? number(at + 1, length, 16) : std::nullopt;
    if (!code || *code > 0x10FFFF) return Fail("truncated or impossible escape \\", letter);
    if (*code >= 0xD800 && *code < 0xE000) {
      return Unimplemented("line ", line_, ": half a surrogate pair in a string is not supported");
    }
    AppendUtf8(*code, out);
    at += 1 + length;
    return absl::OkStatus();
  }
  if (letter == 'N') {
    return Unimplemented("line ", line_, ": the escape \\N{...} is not supported");
  }
  // Any other backslash stands for itself. Before a character beyond ASCII it used to meet Python's
  // spelling of that character, \xe9, and escapes its backslash.
  out.push_back('\\');
  const Character character = DecodeAt(body, at);
  at += character.length;
  if (character.length == 1) {
    out.push_back(letter);
    return absl::OkStatus();
  }
  const int width = character.code < 0x100 ? 2 : character.code < 0x10000 ? 4 : 8;
  out.push_back(width == 2 ? 'x' : width == 4 ? 'u' : 'U');
  for (int shift = 4 * (width - 1); shift >= 0; shift -= 4) {
    out.push_back("0123456789abcdef"[character.code >> shift & 0xF]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(source).Run();
}

}  // namespace outrider::jinja
