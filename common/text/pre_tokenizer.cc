#include "common/text/pre_tokenizer.h"

#include <cstddef>
#include <span>

#include "common/text/character_runs.h"
#include "common/text/unicode/scripts.h"
#include "common/text/word_expressions.h"

namespace outrider {

namespace {

using character::kDigit;
using character::kLetter;
using character::kNumber;
using character::kPunctuation;
using character::kSpace;
using character::kSymbol;
using character::Set;
using PreTokenizer = TokenizerSpec::PreTokenizer;
using Visit = absl::FunctionRef<void(std::string_view)>;

// One expression at work. As a rule its matches become pieces, and so does what stands between two
// of them.
using Stage = void (*)(std::string_view text, Visit visit);

// A stage by a function that gives the length of the match at the front of a text, 0 for none. It
// may take time for what it matches, not for what it does not.
template <size_t (*kMatch)(std::string_view)>
void Isolate(std::string_view text, Visit visit) {
  size_t gap = 0;  // where what no match has taken yet begins
  for (size_t at = 0; at < text.size();) {
    const size_t length = kMatch(text.substr(at));
    if (length == 0) {
      at += DecodeAt(text, at).length;
      continue;
    }
    if (gap < at) visit(text.substr(gap, at - gap));
    visit(text.substr(at, length));
    gap = at += length;
  }
  if (gap < text.size()) visit(text.substr(gap));
}

template <Set kSet>
size_t One(std::string_view text) {
  return HasAt(text, 0, kSet) ? DecodeAt(text, 0).length : 0;
}

template <Set kSet>
size_t Run(std::string_view text) {
  return RunEnd(text, 0, kSet);
}

template <bool (*kBelongs)(char32_t)>
size_t RunOf(std::string_view text) {
  return RunEnd(text, 0, kBelongs);
}

// \s?[...]+, where the brackets may have white space of their own.
template <bool (*kBelongs)(char32_t)>
size_t SpacedRunOf(std::string_view text) {
  const Character first = DecodeAt(text, 0);
  const size_t start = IsSpace(first.code) ? first.length : 0;
  const size_t end = RunEnd(text, start, kBelongs);
  return end > start ? end : RunEnd(text, 0, kBelongs);
}

// --- what single expressions list ------------------------------------------------------------

bool IsLetter(char32_t code) {
  return (ClassOf(code) & kLetter) != 0;
}

bool IsPunctuation(char32_t code) {
  return ClassOf(code) == kPunctuation;
}

bool IsAsciiDigit(char32_t code) {
  return code - U'0' < 10;
}

// [\p{P}\$\+<=>\^~\|`]
bool IsFalconPunctuation(char32_t code) {
  return IsPunctuation(code) || (code < 0x80 && ClassOf(code) == kSymbol);
}

// The same without the backtick: llama.cpp's for files that do not say.
bool IsDefaultPunctuation(char32_t code) {
  return IsFalconPunctuation(code) && code != U'`';
}

// [!-/:-~！-／：-～‘-‟　-。]
bool IsDeepseekPunctuation(char32_t code) {
  return (code >= U'!' && code <= U'/') || (code >= U':' && code <= U'~') ||
         (code >= 0xFF01 && code <= 0xFF0F) || (code >= 0xFF1A && code <= 0xFF5E) ||
         (code >= 0x2018 && code <= 0x201F) || (code >= 0x3000 && code <= 0x3002);
}

// [一-龥ࠀ-一가-퟿]
bool IsDeepseekIdeograph(char32_t code) {
  return (code >= 0x800 && code <= 0x9FA5) || (code >= 0xAC00 && code <= 0xD7FF);
}

// [一-龥぀-ゟ゠-ヿ]
bool IsHanOrKana(char32_t code) {
  return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
}

// [가-힣ㄱ-ㆎ]
bool IsHangul(char32_t code) {
  return (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0x3131 && code <= 0x318E);
}

// [！…“”‘’—：；，、-〿︰-﹏]
bool IsYoutuPunctuation(char32_t code) {
  switch (code) {
    case 0xFF01:
    case 0x2026:
    case 0x201C:
    case 0x201D:
    case 0x2018:
    case 0x2019:
    case 0x2014:
    case 0xFF1A:
    case 0xFF1B:
    case 0xFF0C:
      return true;
    default:
      return (code >= 0x3001 && code <= 0x303F) || (code >= 0xFE30 && code <= 0xFE4F);
  }
}

// [ㄅ-ㄯ]
bool IsBopomofo(char32_t code) {
  return code >= 0x3105 && code <= 0x312F;
}

// [^(\s|.,!?…。，、।۔،)]
bool IsBloomText(char32_t code) {
  if (IsSpace(code)) return false;
  switch (code) {
    case U'(':
    case U'|':
    case U'.':
    case U',':
    case U'!':
    case U'?':
    case U')':
    case 0x2026:
    case 0x3002:
    case 0xFF0C:
    case 0x3001:
    case 0x0964:
    case 0x06D4:
    case 0x060C:
      return false;
    default:
      return true;
  }
}

// --- expressions that are no words -----------------------------------------------------------

size_t Newline(std::string_view text) {  // [\r\n]
  return IsNewline(text[0]) ? 1 : 0;
}

size_t UpToThreeNumbers(std::string_view text) {  // \p{N}{1,3}
  size_t end = 0;
  for (int i = 0; i < 3 && HasAt(text, end, kNumber); ++i) end += DecodeAt(text, end).length;
  return end;
}

size_t ThreeAsciiDigits(std::string_view text) {  // [0-9][0-9][0-9]
  for (size_t i = 0; i < 3; ++i) {
    if (i == text.size() || !IsAsciiDigit(static_cast<unsigned char>(text[i]))) return 0;
  }
  return 3;
}

size_t BloomWord(std::string_view text) {  //  ?[^(\s|.,!?…。，、।۔،)]+
  const size_t start = text[0] == ' ' ? 1 : 0;
  const size_t end = RunEnd(text, start, IsBloomText);
  return end > start ? end : 0;
}

// [가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+
size_t YoutuScripts(std::string_view text) {
  for (const auto belongs : {IsHangul, IsYoutuPunctuation, IsBopomofo, IsHanOrKana}) {
    if (const size_t end = RunEnd(text, 0, belongs)) return end;
  }
  return 0;
}

size_t ChameleonSentinel(std::string_view text) {  // <sentinel:[0-9]+>
  constexpr std::string_view kFront = "<sentinel:";
  if (!text.starts_with(kFront)) return 0;
  const size_t end = RunEnd(text, kFront.size(), IsAsciiDigit);
  return end > kFront.size() && end < text.size() && text[end] == '>' ? end + 1 : 0;
}

size_t ChameleonImage(std::string_view text) {  // (IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z
  constexpr std::string_view kFront = "IMGIMG";
  if (!text.starts_with(kFront)) return 0;
  size_t at = kFront.size();
  while (at < kFront.size() + 4 && at < text.size() && text[at] >= 'A' && text[at] <= 'I') ++at;
  return at > kFront.size() && at < text.size() && text[at] == 'Z' ? at + 1 : 0;
}

size_t ChameleonSpace(std::string_view text) {  // ([\t\n]|    |  )
  if (text[0] == '\t' || text[0] == '\n') return 1;
  return text.starts_with("    ") ? 4 : text.starts_with("  ") ? 2 : 0;
}

size_t OnePunctuation(std::string_view text) {  // [\p{P}!-/:-@\[-`{-~]
  const Character first = DecodeAt(text, 0);
  return IsFalconPunctuation(first.code) ? first.length : 0;
}

// --- stages of their own ---------------------------------------------------------------------

// (?:\r?\n)+(?!\r?\n), each match a piece with what follows it.
void NewlinesInFront(std::string_view text, Visit visit) {
  const auto newline = [&](size_t at) -> size_t {
    if (text.substr(at).starts_with("\n")) return 1;
    return text.substr(at).starts_with("\r\n") ? 2 : 0;
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    if (newline(at) == 0) {
      ++at;
      continue;
    }
    if (at > begin) visit(text.substr(begin, at - begin));
    begin = at;
    while (at < text.size() && newline(at) > 0) at += newline(at);
  }
  if (begin < text.size()) visit(text.substr(begin));
}

// Falcon's last two steps, which see bytes in GPT-2's alphabet: runs of numbers, among them those
// that the alphabet has for six bytes, and in them [0-9][0-9][0-9]. They may cut characters.
void FalconNumbers(std::string_view text, Visit visit) {
  const auto is_number = [&](size_t i) {
    return (text[i] >= '0' && text[i] <= '9') ||
           std::string_view("\xB2\xB3\xB9\xBC\xBD\xBE").find(text[i]) != std::string_view::npos;
  };
  size_t begin = 0;
  const auto cut = [&](size_t end) {
    if (end > begin) visit(text.substr(begin, end - begin));
    begin = end;
  };
  int digits = 0;  // ASCII ones in a row before `at`, since the last three
  for (size_t at = 0; at < text.size(); ++at) {
    if (at > 0 && is_number(at) != is_number(at - 1)) cut(at), digits = 0;
    digits = text[at] >= '0' && text[at] <= '9' ? digits + 1 : 0;
    if (digits == 3) cut(at - 2), cut(at + 1), digits = 0;
  }
  cut(text.size());
}

// \s+$
void EndSpaces(std::string_view text, Visit visit) {
  size_t begin = text.size();
  while (begin > 0) {
    const Character c = DecodeBefore(text, begin);
    if (!IsSpace(c.code)) break;
    begin -= c.length;
  }
  if (begin > 0) visit(text.substr(0, begin));
  if (begin < text.size()) visit(text.substr(begin));
}

// \s{512}(?!\S)|\s{256}(?!\S)| ... |\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1} over what \s+(?!\S)|\s+ takes,
// and nothing else.
void PowersOfSpaces(std::string_view text, Visit visit) {
  const bool spaces_alone = RunEnd(text, 0, kSpace) == text.size();
  if (!spaces_alone || IsNewline(text.back())) return visit(text);
  size_t left = 0;
  for (size_t at = 0; at < text.size(); at += DecodeAt(text, at).length) ++left;
  for (size_t count = 512; left > 0;) {
    if (count > left) {
      count /= 2;
      continue;
    }
    size_t end = 0;
    for (size_t i = 0; i < count; ++i) end += DecodeAt(text, end).length;
    visit(text.substr(0, end));
    text.remove_prefix(end);
    left -= count;
  }
}

// Runs of \d in threes counted from their right end; a run before which kAllowed says no to the
// rest stays as it is. kTakesText, an expression that matches places and no text: what is before
// the first three and behind the last is no piece of its own.
template <bool kTakesText, bool (*kAllowed)(std::string_view rest)>
void ThreesFromTheRight(std::string_view text, Visit visit) {
  size_t begin = 0;  // of what has not been visited
  const auto cut = [&](size_t end) {
    if (end > begin) visit(text.substr(begin, end - begin));
    begin = end;
  };
  for (size_t at = 0; at < text.size();) {
    if (!HasAt(text, at, kDigit)) {
      at += DecodeAt(text, at).length;
      continue;
    }
    const size_t run_end = RunEnd(text, at, kDigit);
    if (!kAllowed(text.substr(run_end))) {
      at = run_end;
      continue;
    }
    size_t left = 0;
    for (size_t i = at; i < run_end; i += DecodeAt(text, i).length) ++left;
    if (!kTakesText || left % 3 == 0) cut(at);
    for (; at < run_end; --left) {
      if (left % 3 == 0) cut(at);
      at += DecodeAt(text, at).length;
    }
    if (!kTakesText) cut(run_end);
  }
  cut(text.size());
}

bool Always(std::string_view /*rest*/) {
  return true;
}

// \b behind a digit. To Oniguruma the numerals of Latin-1 (one half) are word characters too, and
// the joiners (U+200C, U+200D) are none.
bool NoWordGoesOn(std::string_view rest) {
  if (rest.empty()) return true;
  const char32_t next = DecodeAt(rest, 0).code;
  if (next == 0x200c || next == 0x200d) return true;
  return !IsWordCharacter(next) && !(next < 0x100 && ClassOf(next) == character::kNumeral);
}

// --- the rules by name -----------------------------------------------------------------------

constexpr Stage kGpt2[] = {Isolate<words::Gpt2>};
constexpr Stage kLlama3[] = {Isolate<words::Llama3>};
constexpr Stage kQwen2[] = {Isolate<words::Qwen2>};
constexpr Stage kQwen35[] = {Isolate<words::Qwen35>};
constexpr Stage kMinicpm5[] = {Isolate<UpToThreeNumbers>, Isolate<words::Llama3>};
constexpr Stage kSeedCoder[] = {Isolate<words::SeedCoder>};
constexpr Stage kUfakzeka[] = {Isolate<words::Ufakzeka>};
constexpr Stage kExaoneMoe[] = {Isolate<words::ExaoneMoe>};
constexpr Stage kTekken[] = {Isolate<words::Tekken>};
constexpr Stage kGpt4o[] = {Isolate<words::Gpt4o>};
constexpr Stage kKimiK2[] = {Isolate<words::KimiK2>};
constexpr Stage kSmollm[] = {Isolate<One<kNumber>>, Isolate<words::Gpt2>};
constexpr Stage kDefault[] = {Isolate<RunOf<IsDefaultPunctuation>>, Isolate<words::Gpt2>,
                              Isolate<Run<kNumber>>, Isolate<ThreeAsciiDigits>};
constexpr Stage kFalcon[] = {Isolate<RunOf<IsFalconPunctuation>>, Isolate<words::Gpt2>,
                             FalconNumbers};
constexpr Stage kDeepseekLlm[] = {Isolate<Newline>,
                                  Isolate<SpacedRunOf<IsOfCasedScript>>,
                                  Isolate<SpacedRunOf<IsDeepseekPunctuation>>,
                                  EndSpaces,
                                  Isolate<RunOf<IsDeepseekIdeograph>>,
                                  Isolate<One<kNumber>>};
constexpr Stage kDeepseekCoder[] = {Isolate<Newline>, Isolate<SpacedRunOf<IsLetter>>,
                                    Isolate<SpacedRunOf<IsPunctuation>>,
                                    Isolate<RunOf<IsDeepseekIdeograph>>, Isolate<One<kNumber>>};
constexpr Stage kDeepseekV3[] = {Isolate<UpToThreeNumbers>, Isolate<RunOf<IsHanOrKana>>,
                                 Isolate<words::DeepseekV3>};
constexpr Stage kSpark[] = {Isolate<UpToThreeNumbers>, Isolate<RunOf<IsHanOrKana>>,
                            Isolate<words::Spark>, Isolate<One<kNumber>>};
constexpr Stage kYoutu[] = {Isolate<YoutuScripts>, Isolate<words::Youtu>};
constexpr Stage kBloom[] = {Isolate<BloomWord>};
constexpr Stage kViking[] = {Isolate<BloomWord>, Isolate<One<kNumber>>};
constexpr Stage kChameleon[] = {Isolate<ChameleonSentinel>, Isolate<ChameleonImage>,
                                Isolate<ChameleonSpace>,    Isolate<One<kNumber>>,
                                Isolate<OnePunctuation>,    Isolate<words::Gpt2>};
constexpr Stage kTinyAya[] = {ThreesFromTheRight<false, NoWordGoesOn>, Isolate<words::Gpt4o>};
constexpr Stage kSuperBpe[] = {Isolate<Run<kNumber>>, ThreesFromTheRight<true, Always>};
constexpr Stage kAfmoe[] = {ThreesFromTheRight<false, Always>, Isolate<RunOf<IsWrittenTogether>>,
                            Isolate<words::DeepseekV3>};
constexpr Stage kLaguna[] = {NewlinesInFront, Isolate<words::Qwen2>};
constexpr Stage kJais2[] = {Isolate<words::Llama3>, PowersOfSpaces};

std::span<const Stage> StagesOf(PreTokenizer pre_tokenizer) {
  switch (pre_tokenizer) {
    case PreTokenizer::kNone:
      return {};
    case PreTokenizer::kDefault:
      return kDefault;
    case PreTokenizer::kGpt2:
      return kGpt2;
    case PreTokenizer::kLlama3:
      return kLlama3;
    case PreTokenizer::kQwen2:
      return kQwen2;
    case PreTokenizer::kQwen35:
      return kQwen35;
    case PreTokenizer::kMinicpm5:
      return kMinicpm5;
    case PreTokenizer::kSmollm:
      return kSmollm;
    case PreTokenizer::kTekken:
      return kTekken;
    case PreTokenizer::kGpt4o:
      return kGpt4o;
    case PreTokenizer::kFalcon:
      return kFalcon;
    case PreTokenizer::kBloom:
      return kBloom;
    case PreTokenizer::kViking:
      return kViking;
    case PreTokenizer::kDeepseekLlm:
      return kDeepseekLlm;
    case PreTokenizer::kDeepseekCoder:
      return kDeepseekCoder;
    case PreTokenizer::kDeepseekV3:
      return kDeepseekV3;
    case PreTokenizer::kSpark:
      return kSpark;
    case PreTokenizer::kYoutu:
      return kYoutu;
    case PreTokenizer::kKimiK2:
      return kKimiK2;
    case PreTokenizer::kTinyAya:
      return kTinyAya;
    case PreTokenizer::kSuperBpe:
      return kSuperBpe;
    case PreTokenizer::kAfmoe:
      return kAfmoe;
    case PreTokenizer::kLaguna:
      return kLaguna;
    case PreTokenizer::kSeedCoder:
      return kSeedCoder;
    case PreTokenizer::kUfakzeka:
      return kUfakzeka;
    case PreTokenizer::kExaoneMoe:
      return kExaoneMoe;
    case PreTokenizer::kJais2:
      return kJais2;
    case PreTokenizer::kChameleon:
      return kChameleon;
  }
  return {};
}

void RunStages(std::span<const Stage> stages, std::string_view text, Visit visit) {
  if (stages.empty()) return visit(text);
  stages.front()(text, [&](std::string_view piece) { RunStages(stages.subspan(1), piece, visit); });
}

}  // namespace

void ForEachPiece(PreTokenizer pre_tokenizer, std::string_view text, Visit visit) {
  if (!text.empty()) RunStages(StagesOf(pre_tokenizer), text, visit);
}

}  // namespace outrider
