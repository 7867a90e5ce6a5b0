#include "server/security/keys.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <span>

#include "common/base/check.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "openssl/crypto.h"
#include "openssl/evp.h"

namespace outrider {
namespace {

constexpr std::string_view kHashKind = "sha256:";
constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::string_view kKeyMark = "ork_";  // that ours begin with
constexpr size_t kKeyDigits = 64;
constexpr char kIdentityMark = '/';  // which no name has
constexpr size_t kFileBytesMax = 1 << 20;
constexpr size_t kNameLengthMax = 64;

Keys::Hash HashOf(std::string_view key) {
  Keys::Hash hash;
  OUTRIDER_CHECK(
      EVP_Digest(key.data(), key.size(), hash.data(), nullptr, EVP_sha256(), nullptr) == 1,
      "every OpenSSL has SHA-256");
  return hash;
}

std::optional<Keys::Hash> HashFromDigits(std::string_view digits) {
  Keys::Hash hash;
  if (digits.size() != 2 * hash.size()) return std::nullopt;
  for (size_t i = 0; i < hash.size(); ++i) {
    const std::string_view pair = digits.substr(2 * i, 2);
    const auto [end, error] = std::from_chars(pair.data(), pair.data() + 2, hash[i], 16);
    if (error != std::errc() || end != pair.data() + 2) return std::nullopt;
  }
  return hash;
}

std::string DigitsOf(const Keys::Hash& hash) {
  std::string digits;
  for (const uint8_t byte : hash) {
    digits += kDigits[byte >> 4];
    digits += kDigits[byte & 15];
  }
  return digits;
}

bool IsName(std::string_view name) {
  const auto is_part = [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
  };
  return !name.empty() && name.size() <= kNameLengthMax && std::ranges::all_of(name, is_part);
}

// Whether it is a key of ours, or has one in it.
bool HasKey(std::string_view word) {
  return word.size() >= kKeyMark.size() + kKeyDigits && word.find(kKeyMark) != word.npos;
}

// Not much of it: what is long may be a secret that stands in the wrong place.
std::string Quoted(std::string_view word) {
  constexpr size_t kShown = 20;
  return Concat("'", word.substr(0, kShown), word.size() > kShown ? "...'" : "'");
}

// "sessions=4". False: it is no limit.
bool ReadLimit(std::string_view word, CallerTerms& terms) {
  const size_t equals = word.find('=');
  if (equals == std::string_view::npos) return false;
  const std::string_view name = word.substr(0, equals);
  const std::string_view number = word.substr(equals + 1);
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || value == 0) return false;
  if (name == "sessions") {
    terms.sessions_max = value;
  } else if (name == "opens-per-minute") {
    terms.opens_per_minute = value;
  } else if (name == "share" && value <= Keys::kShareMax) {
    terms.share = value;
  } else if (name == "streams") {
    terms.streams_max = value;
  } else {
    return false;
  }
  return true;
}

std::vector<std::string_view> WordsOf(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (;;) {
    const size_t begin = line.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const size_t end = std::min(line.find_first_of(kSpace), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

// `place` starts messages. A hash is never repeated in one, nor is a key: they go to the log.
absl::StatusOr<Keys::Key> ParseLine(std::span<const std::string_view> words,
                                    const std::string& place) {
  if (std::ranges::any_of(words, HasKey)) {
    return InvalidArgument(place,
                           ": a key itself stands here, where only its hash should; "
                           "outrider-server --new-key makes such a line");
  }
  if (!IsName(words[0])) {
    return InvalidArgument(place, ": ", Quoted(words[0]), " is no name; take up to ",
                           kNameLengthMax, " letters, digits, dots, dashes and underscores");
  }
  const bool has_hash = words.size() > 1 && words[1].starts_with(kHashKind);
  const auto hash = has_hash ? HashFromDigits(words[1].substr(kHashKind.size())) : std::nullopt;
  if (!hash) {
    return InvalidArgument(
        place, ": after the name comes ", kHashKind,
        " and 64 hexadecimal digits; outrider-server --new-key makes such a line");
  }
  Keys::Key key = {std::string(words[0]), *hash, {}};
  for (const std::string_view word : words.subspan(2)) {
    if (ReadLimit(word, key.terms)) continue;
    return InvalidArgument(
        place, ": ", Quoted(word),
        " is no limit; there are sessions=N, streams=N, opens-per-minute=N and share=N, up to ",
        Keys::kShareMax);
  }
  return key;
}

}  // namespace

std::string Keys::Key::identity() const {
  return Concat(name, std::string(1, kIdentityMark), DigitsOf(hash));
}

absl::StatusOr<Keys> Keys::Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kFileBytesMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file.eof() && file.fail())) return NotFound(path, ": cannot be read");
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.empty())
    return NotFound(path, ": is not there, or empty; a server of no keys serves nobody");
  if (text.size() > kFileBytesMax)
    return InvalidArgument(path, ": is too large for a file of keys");
  return Parse(text, path);
}

absl::StatusOr<Keys> Keys::Parse(std::string_view text, const std::string& name) {
  Keys keys;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = WordsOf(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.empty()) continue;
    const std::string place = Concat(name, ":", number);
    OUTRIDER_ASSIGN_OR_RETURN(Key key, ParseLine(words, place));
    if (keys.HasName(key.name)) {
      return InvalidArgument(place, ": there is another key named ", key.name);
    }
    keys.keys_.push_back(std::move(key));
  }
  if (keys.keys_.empty()) return InvalidArgument(name, ": has no keys, so nobody could call");
  return keys;
}

const Keys::Key* Keys::Find(std::string_view key) const {
  const Hash hash = HashOf(key);
  const Key* found = nullptr;
  for (const Key& known : keys_) {
    if (CRYPTO_memcmp(known.hash.data(), hash.data(), hash.size()) == 0) found = &known;
  }
  return found;
}

bool Keys::HasName(std::string_view name) const {
  return std::ranges::any_of(keys_, [&](const Key& key) { return key.name == name; });
}

std::vector<Keys::Key> Keys::NotIn(const Keys& others) const {
  std::vector<Key> keys;
  for (const Key& key : keys_) {
    const bool is_there = std::ranges::any_of(others.keys_, [&](const Key& other) {
      return other.name == key.name && other.hash == key.hash;
    });
    if (!is_there) keys.push_back(key);
  }
  return keys;
}

std::string NewKey() {
  std::string key(kKeyMark);
  while (key.size() < kKeyMark.size() + kKeyDigits) {
    uint64_t bits = RandomBits();
    for (int digit = 0; digit < 16; ++digit, bits >>= 4) key += kDigits[bits & 15];
  }
  return key;
}

std::string_view NameIn(std::string_view identity) {
  return identity.substr(0, identity.find(kIdentityMark));
}

std::string LineOf(std::string_view name, std::string_view key) {
  return Concat(name, " ", kHashKind, DigitsOf(HashOf(key)));
}

}  // namespace outrider
