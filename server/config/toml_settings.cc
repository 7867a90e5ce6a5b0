#include "server/config/toml_settings.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "common/base/quote.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kBytesMax = 64 << 10;

bool IsNameLetter(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '_';
}

bool IsBlank(char letter) {
  return letter == ' ' || letter == '\t';
}

// Of \b, \t ... what stands for one byte.
std::optional<char> EscapedByte(char letter) {
  switch (letter) {
    case 'b':
      return '\b';
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'f':
      return '\f';
    case 'r':
      return '\r';
    case '"':
    case '\\':
      return letter;
    default:
      return std::nullopt;
  }
}

void AppendUtf8(uint32_t code, std::string& out) {
  const auto add = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  const auto follow = [&](uint32_t shift) { add(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | (code >> 6));
    follow(0);
  } else if (code < 0x10000) {
    add(0xE0 | (code >> 12));
    follow(6);
    follow(0);
  } else {
    add(0xF0 | (code >> 18));
    follow(12);
    follow(6);
    follow(0);
  }
}

// A number as flags have it: TOML lets an underscore stand between digits, and a plus before them.
// None: it is not one.
std::optional<std::string> Number(std::string_view word) {
  std::string digits;
  bool has_digit = false;
  for (size_t i = 0; i < word.size(); ++i) {
    const bool is_digit = std::isdigit(static_cast<unsigned char>(word[i])) != 0;
    has_digit |= is_digit;
    const bool is_sign = word[i] == '-' || word[i] == '+';
    const bool follows_e = i > 0 && (word[i - 1] == 'e' || word[i - 1] == 'E');
    if (is_sign && i > 0 && !follows_e) return std::nullopt;
    if (word[i] == '_' || (word[i] == '+' && i == 0)) continue;
    if (!is_digit && !is_sign && word[i] != '.' && word[i] != 'e' && word[i] != 'E') {
      return std::nullopt;
    }
    digits.push_back(word[i]);
  }
  if (!has_digit) return std::nullopt;
  return digits;
}

// One line, from its beginning to its end.
class Line {
 public:
  Line(std::string_view text, const std::string& file, uint32_t number)
      : text_(text), file_(file), number_(number) {}

  void SkipBlanks() {
    while (!text_.empty() && IsBlank(text_.front())) text_.remove_prefix(1);
  }

  // Nothing but a comment is left.
  bool IsOver() {
    SkipBlanks();
    return text_.empty() || text_.front() == '#';
  }

  bool Take(char letter) {
    if (text_.empty() || text_.front() != letter) return false;
    text_.remove_prefix(1);
    return true;
  }

  // tls, kv_memory, tls.cert: parts are joined by hyphens.
  absl::StatusOr<std::string> TakeName() {
    std::string name;
    do {
      SkipBlanks();
      const size_t before = name.size();
      while (!text_.empty() && IsNameLetter(text_.front())) {
        name.push_back(text_.front() == '_' ? '-' : text_.front());
        text_.remove_prefix(1);
      }
      if (name.size() == before) return Error("a name of letters, digits, - and _ is missing");
      SkipBlanks();
      if (Take('.')) {
        name.push_back('-');
      } else {
        return name;
      }
    } while (true);
  }

  absl::StatusOr<std::string> TakeValue() {
    SkipBlanks();
    if (text_.starts_with("\"\"\"") || text_.starts_with("'''")) {
      return Error("a string of several lines is not taken here");
    }
    if (Take('"')) return TakeBasicString();
    if (Take('\'')) return TakeLiteralString();
    if (text_.starts_with('[') || text_.starts_with('{')) {
      return Error("a list or table is not taken here; every setting has one value");
    }
    return TakeWord();
  }

  template <typename... Parts>
  absl::Status Error(const Parts&... parts) const {
    return InvalidArgument(file_, ":", number_, ": ", parts...);
  }

 private:
  absl::StatusOr<std::string> TakeWord() {
    const size_t end = std::min(text_.find_first_of(" \t#"), text_.size());
    const std::string_view word = text_.substr(0, end);
    text_.remove_prefix(end);
    if (word == "true" || word == "false") return std::string(word);
    if (const std::optional<std::string> number = Number(word)) return *number;
    if (word.empty()) return Error("a value is missing after =");
    return Error(Quote(word), " is no number, true or false; text stands in quotes");
  }

  absl::StatusOr<std::string> TakeLiteralString() {
    const size_t end = text_.find('\'');
    if (end == std::string_view::npos) return Error("a string has no end: ' is missing");
    std::string value(text_.substr(0, end));
    text_.remove_prefix(end + 1);
    return value;
  }

  absl::StatusOr<std::string> TakeBasicString() {
    std::string value;
    while (!text_.empty()) {
      const char letter = text_.front();
      text_.remove_prefix(1);
      if (letter == '"') return value;
      if (letter != '\\') {
        value.push_back(letter);
        continue;
      }
      OUTRIDER_RETURN_IF_ERROR(TakeEscape(value));
    }
    return Error("a string has no end: \" is missing");
  }

  absl::Status TakeEscape(std::string& value) {
    if (text_.empty()) return Error("a string has no end: \" is missing");
    const char kind = text_.front();
    text_.remove_prefix(1);
    if (const std::optional<char> byte = EscapedByte(kind)) {
      value.push_back(*byte);
      return absl::OkStatus();
    }
    const size_t digit_count = kind == 'u' ? 4 : kind == 'U' ? 8 : 0;
    if (digit_count == 0 || text_.size() < digit_count)
      return Error("a \\ has to escape something");
    uint32_t code = 0;
    for (const char digit : text_.substr(0, digit_count)) {
      if (std::isxdigit(static_cast<unsigned char>(digit)) == 0) {
        return Error("\\", std::string_view(&kind, 1), " takes ", digit_count, " digits");
      }
      const int nibble = std::isdigit(static_cast<unsigned char>(digit)) != 0
                             ? digit - '0'
                             : std::tolower(static_cast<unsigned char>(digit)) - 'a' + 10;
      code = code << 4 | static_cast<uint32_t>(nibble);
    }
    text_.remove_prefix(digit_count);
    const bool is_surrogate = code >= 0xD800 && code < 0xE000;
    if (code > 0x10FFFF || is_surrogate) return Error("there is no such Unicode character");
    AppendUtf8(code, value);
    return absl::OkStatus();
  }

  std::string_view text_;
  const std::string& file_;
  const uint32_t number_;
};

// [tls]: what follows is tls-...
absl::Status ReadTable(Line& line, std::string& table) {
  if (line.Take('[')) return line.Error("a list of tables is not taken here");
  OUTRIDER_ASSIGN_OR_RETURN(table, line.TakeName());
  if (!line.Take(']')) return line.Error("] is missing");
  if (!line.IsOver()) return line.Error("something follows the ]");
  return absl::OkStatus();
}

absl::Status ReadSetting(Line& line, const std::string& table, TomlSetting& setting) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string name, line.TakeName());
  setting.name = table.empty() ? name : Concat(table, "-", name);
  if (!line.Take('=')) return line.Error("= is missing after ", Quote(setting.name));
  OUTRIDER_ASSIGN_OR_RETURN(setting.value, line.TakeValue());
  if (!line.IsOver()) return line.Error("something follows the value of ", Quote(setting.name));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<TomlSetting>> ParseTomlSettings(std::string_view text,
                                                           const std::string& name) {
  if (text.size() > kBytesMax) {
    return InvalidArgument(name, ": has ", text.size(), " bytes; settings take ", kBytesMax,
                           " at the most");
  }
  std::vector<TomlSetting> settings;
  std::string table;
  for (uint32_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view content = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (content.ends_with('\r')) content.remove_suffix(1);
    Line line(content, name, number);
    if (line.IsOver()) continue;
    if (line.Take('[')) {
      OUTRIDER_RETURN_IF_ERROR(ReadTable(line, table));
      continue;
    }
    TomlSetting setting = {.name = {}, .value = {}, .line = number};
    OUTRIDER_RETURN_IF_ERROR(ReadSetting(line, table, setting));
    const auto twin = std::ranges::find(settings, setting.name, &TomlSetting::name);
    if (twin != settings.end()) {
      return line.Error(Quote(setting.name), " stands in line ", twin->line, " already");
    }
    settings.push_back(std::move(setting));
  }
  return settings;
}

}  // namespace outrider
