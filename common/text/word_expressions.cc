#include "common/text/word_expressions.h"

#include <cstdint>

#include "common/text/character_runs.h"
#include "common/text/unicode/scripts.h"

namespace outrider::words {

namespace {

using character::kCaseless;
using character::kLetter;
using character::kLower;
using character::kMark;
using character::kNumber;
using character::kPunctuation;
using character::kRest;
using character::kSpace;
using character::kSymbol;
using character::kUpper;
using character::Set;

constexpr Set kNoText = kMark | kPunctuation | kSymbol | kRest;  // [^\s\p{L}\p{N}]

enum class Word {
  kLetters,          // [^\r\n\p{L}\p{N}]?\p{L}+
  kLettersAndMarks,  // [^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+
  kPhrase,           // [^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+
  // [^\r\n\p{L}\p{N}]?[UPPER]*[LOWER]+|[^\r\n\p{L}\p{N}]?[UPPER]+[LOWER]*
  // where both have \p{Lm}\p{Lo}\p{M}, UPPER also \p{Lu}\p{Lt} and LOWER \p{Ll}
  kByCase,
  kByCaseWithoutHan,  // both less \p{Han}, of which runs are words of their own
};

// (?i:'s|'t|'re|'ve|'m|'ll|'d)
enum class Contractions { kNone, kPieces, kWordEnds };

// What of [\r\n], or of [\r\n/], goes with the punctuation before it.
enum class Tail { kNone, kNewlines, kNewlinesAndSlashes, kOneNewlineOrSlash };

struct Rules {
  Contractions contractions;
  Word word;
  int digits;  // \p{N}{1,digits}
  Set others;  // in " ?[others]+"
  Tail tail;
};

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

// \s*[\r\n]+|\s+(?!\S)|\s+
size_t Spaces(std::string_view text) {
  const size_t run_end = RunEnd(text, 0, kSpace);
  for (size_t end = run_end; end > 0; --end) {
    if (IsNewline(text[end - 1])) return end;  // no other white space contains these bytes
  }
  return run_end == 0 ? 0 : SpacesBeforeText(text, run_end);
}

// [^\r\n\p{L}\p{N}]?, greedy: how long the one character is.
size_t LeadLength(std::string_view text) {
  const Character first = DecodeAt(text, 0);
  return IsNewline(text[0]) || (ClassOf(first.code) & (kLetter | kNumber)) ? 0 : first.length;
}

size_t WordOf(std::string_view text, Set letters) {
  const size_t start = HasAt(text, 0, letters) ? 0 : LeadLength(text);
  const size_t end = RunEnd(text, start, letters);
  return end > start ? end : 0;
}

size_t Phrase(std::string_view text) {
  const size_t start = HasAt(text, 0, kLetter) ? 0 : LeadLength(text);
  if (!HasAt(text, start, kLetter)) return 0;
  for (size_t at = start;;) {
    at = RunEnd(text, RunEnd(text, at, kLetter), kMark);
    if (HasAt(text, at, kLetter)) continue;
    if (at == text.size() || text[at] != ' ' || !HasAt(text, at + 1, kLetter)) return at;
    ++at;
  }
}

// The two expressions of Word::kByCase from `start` on, behind the character in front.
struct CasedWord {
  size_t with_lower;   // [UPPER]*[LOWER]+, 0 for none
  size_t upper_alone;  // [UPPER]+ where no LOWER follows it, 0 for none
};

template <bool kHan>
CasedWord CasedWordFrom(std::string_view text, size_t start) {
  const auto in = [](Set set) {
    return [set](char32_t code) { return (ClassOf(code) & set) != 0 && (kHan || !IsHan(code)); };
  };
  constexpr Set kBoth = kCaseless | kMark;
  // Where the run of UPPER has no LOWER behind it, it gives back characters until the next one is
  // LOWER, which those in both sets are: the last of them then ends the match.
  size_t last_of_both = 0;
  size_t at = start;
  while (at < text.size()) {
    const Character c = DecodeAt(text, at);
    if (!in(kUpper | kBoth)(c.code)) break;
    at += c.length;
    if (ClassOf(c.code) & kBoth) last_of_both = at;
  }
  const size_t end = RunEnd(text, at, in(kLower | kBoth));
  return {end > at ? end : last_of_both, at > start ? at : 0};
}

template <bool kHan>
size_t CasedWordLength(std::string_view text) {
  const size_t lead = LeadLength(text);
  const CasedWord plain = CasedWordFrom<kHan>(text, 0);
  if (lead == 0) return plain.with_lower != 0 ? plain.with_lower : plain.upper_alone;
  const CasedWord led = CasedWordFrom<kHan>(text, lead);
  if (led.with_lower != 0) return led.with_lower;
  if (plain.with_lower != 0) return plain.with_lower;
  return led.upper_alone != 0 ? led.upper_alone : plain.upper_alone;
}

template <Rules kRules>
size_t WordLength(std::string_view text) {
  if constexpr (kRules.word == Word::kLetters) return WordOf(text, kLetter);
  if constexpr (kRules.word == Word::kLettersAndMarks) return WordOf(text, kLetter | kMark);
  if constexpr (kRules.word == Word::kPhrase) return Phrase(text);
  return CasedWordLength<kRules.word == Word::kByCase>(text);
}

size_t TailEnd(std::string_view text, size_t at, Tail tail) {
  const auto fits = [&] {
    return at < text.size() &&
           (IsNewline(text[at]) || (text[at] == '/' && tail != Tail::kNewlines));
  };
  if (tail == Tail::kNone) return at;
  if (tail == Tail::kOneNewlineOrSlash) return fits() ? at + 1 : at;
  while (fits()) ++at;
  return at;
}

// A word (perhaps with a contraction), digits, others with what follows them, white space.
template <Rules kRules>
size_t Match(std::string_view text) {
  if constexpr (kRules.contractions == Contractions::kPieces) {
    if (const size_t length = ContractionLength(text, /*ignore_case=*/true)) return length;
  }
  if constexpr (kRules.word == Word::kByCaseWithoutHan) {
    if (const size_t han = RunEnd(text, 0, IsHan)) return han;
  }
  if (const size_t word = WordLength<kRules>(text)) {
    return kRules.contractions == Contractions::kWordEnds
               ? word + ContractionLength(text.substr(word), /*ignore_case=*/true)
               : word;
  }
  if (HasAt(text, 0, kNumber)) {
    size_t end = 0;
    for (int i = 0; i < kRules.digits && HasAt(text, end, kNumber); ++i)
      end += DecodeAt(text, end).length;
    return end;
  }
  const size_t start = text[0] == ' ' ? 1 : 0;
  if (HasAt(text, start, kRules.others)) {
    return TailEnd(text, RunEnd(text, start, kRules.others), kRules.tail);
  }
  return Spaces(text);
}

bool IsAsciiPunctuation(char c) {
  return static_cast<unsigned char>(c) < 0x80 &&
         (kAsciiClasses[static_cast<size_t>(c)] & (kPunctuation | kSymbol)) != 0;
}

bool IsAsciiLetter(char32_t code) {
  return code < 0x80 && (kAsciiClasses[code] & kLetter) != 0;
}

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
size_t DeepseekWord(std::string_view text) {
  if (IsAsciiPunctuation(text[0])) {
    const size_t end = RunEnd(text, 1, IsAsciiLetter);
    return end > 1 ? end : 0;
  }
  const Character first = DecodeAt(text, 0);
  const bool leads =
      !IsNewline(text[0]) && !(ClassOf(first.code) & (kLetter | kMark | kPunctuation | kSymbol));
  const size_t start = leads ? first.length : 0;
  const size_t end = RunEnd(text, start, kLetter | kMark);
  return end > start ? end : 0;
}

size_t DeepseekPunctuation(std::string_view text) {  //  ?[\p{P}\p{S}]+
  const size_t start = text[0] == ' ' ? 1 : 0;
  const size_t end = RunEnd(text, start, kPunctuation | kSymbol);
  return end > start ? end : 0;
}

}  // namespace

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2(std::string_view text) {
  if (const size_t length = ContractionLength(text, /*ignore_case=*/false)) return length;
  const size_t start = text[0] == ' ' && text.size() > 1 ? 1 : 0;
  for (const Set set : {kLetter, kNumber, kNoText}) {
    if (HasAt(text, start, set)) return RunEnd(text, start, set);
  }
  return SpacesBeforeText(text, RunEnd(text, 0, kSpace));
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
// ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t Llama3(std::string_view text) {
  return Match<Rules{Contractions::kPieces, Word::kLetters, 3, kNoText, Tail::kNewlines}>(text);
}

// As Llama 3's with \p{N} for \p{N}{1,3}.
size_t Qwen2(std::string_view text) {
  return Match<Rules{Contractions::kPieces, Word::kLetters, 1, kNoText, Tail::kNewlines}>(text);
}

// As Qwen 2's with [\p{L}\p{M}]+ for \p{L}+ and [^\s\p{L}\p{M}\p{N}] for [^\s\p{L}\p{N}].
size_t Qwen35(std::string_view text) {
  constexpr Set kOthers = kNoText & ~kMark;
  return Match<Rules{Contractions::kPieces, Word::kLettersAndMarks, 1, kOthers, Tail::kNewlines}>(
      text);
}

// As Qwen 2's without [\r\n]* behind punctuation.
size_t SeedCoder(std::string_view text) {
  return Match<Rules{Contractions::kPieces, Word::kLetters, 1, kNoText, Tail::kNone}>(text);
}

// As Qwen 2's without contractions: an apostrophe is where Turkish hangs on its suffixes.
size_t Ufakzeka(std::string_view text) {
  return Match<Rules{Contractions::kNone, Word::kLetters, 1, kNoText, Tail::kNewlines}>(text);
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|
// ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+
size_t ExaoneMoe(std::string_view text) {
  return Match<Rules{Contractions::kPieces, Word::kPhrase, 1, kNoText, Tail::kOneNewlineOrSlash}>(
      text);
}

// Words by case, then \p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t Tekken(std::string_view text) {
  return Match<Rules{Contractions::kNone, Word::kByCase, 1, kNoText, Tail::kNewlinesAndSlashes}>(
      text);
}

// As Tekken's with \p{N}{1,3}, and contractions at the end of words.
size_t Gpt4o(std::string_view text) {
  return Match<Rules{Contractions::kWordEnds, Word::kByCase, 3, kNoText,
                     Tail::kNewlinesAndSlashes}>(text);
}

// As GPT-4o's with \p{N} for \p{N}{1,3}.
size_t Youtu(std::string_view text) {
  return Match<Rules{Contractions::kWordEnds, Word::kByCase, 1, kNoText,
                     Tail::kNewlinesAndSlashes}>(text);
}

// \p{Han}+, then as GPT-4o's with Han left out of words, and [\r\n]* behind punctuation.
size_t KimiK2(std::string_view text) {
  return Match<Rules{Contractions::kWordEnds, Word::kByCaseWithoutHan, 3, kNoText,
                     Tail::kNewlines}>(text);
}

// The words, then  ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
size_t DeepseekV3(std::string_view text) {
  if (const size_t word = DeepseekWord(text)) return word;
  if (const size_t end = DeepseekPunctuation(text)) return TailEnd(text, end, Tail::kNewlines);
  return Spaces(text);
}

// The words, then  ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+
size_t Spark(std::string_view text) {
  if (const size_t word = DeepseekWord(text)) return word;
  if (const size_t end = DeepseekPunctuation(text)) return end;
  if (IsNewline(text[0])) return 1;
  const size_t run_end = RunEnd(text, 0, kSpace);
  return run_end == 0 ? 0 : SpacesBeforeText(text, run_end);
}

}  // namespace outrider::words
