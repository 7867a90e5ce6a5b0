// The steps by which published tokenizer.json files cut text, as they spell them.
#include "common/formats/tokenizers/pre_tokenizer_steps.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace outrider {
namespace {

using PreTokenizer = TokenizerSpec::PreTokenizer;
using StepList = std::array<std::string_view, 7>;  // the rest is empty

struct Row {
  PreTokenizer pre_tokenizer;
  StepList steps;
};

// What several expressions have in common.
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define WORD R"([^\r\n\p{L}\p{N}]?\p{L}+)"
#define PUNCTUATION R"( ?[^\s\p{L}\p{N}]+)"
#define SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
#define LEAD R"([^\r\n\p{L}\p{N}]?)"
#define UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define UPPER_BUT_HAN R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]])"
#define LOWER_BUT_HAN R"([\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]])"

constexpr std::string_view kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    CONTRACTIONS "|" WORD R"(|\p{N}{1,3}|)" PUNCTUATION R"([\r\n]*|)" SPACES;
constexpr std::string_view kQwen2 =
    CONTRACTIONS "|" WORD R"(|\p{N}|)" PUNCTUATION R"([\r\n]*|)" SPACES;
constexpr std::string_view kGpt4o =
    LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
               R"(?|\p{N}{1,3}|)" PUNCTUATION R"([\r\n/]*|)" SPACES;
constexpr std::string_view kHanAndKana = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kDeepseekIdeographs = "[一-龥ࠀ-一가-퟿]+";
// The expressions of DeepSeek have real newlines in them; AFMoE's spells them.
#define DEEPSEEK_WORD(NEWLINE)                                    \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^)" NEWLINE \
  R"(\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|)"
constexpr std::string_view kDeepseekV3 = DEEPSEEK_WORD("\r\n") R"( ?[\p{P}\p{S}]+[)"
                                                               "\r\n"
                                                               R"(]*|\s*[)"
                                                               "\r\n"
                                                               R"(]+|\s+(?!\S)|\s+)";

const Row kRows[] = {
    {PreTokenizer::kGpt2, {kByteLevelWords}},
    {PreTokenizer::kGpt2, {kGpt2}},
    {PreTokenizer::kLlama3, {kLlama3}},
    {PreTokenizer::kMinicpm5,
     {R"(\p{N}{1,3})", CONTRACTIONS "|" WORD R"(|\p{N}+|)" PUNCTUATION R"([\r\n]*|)" SPACES}},
    {PreTokenizer::kQwen2, {kQwen2}},
    // BailingMoE
    {PreTokenizer::kQwen2,
     {R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"}},
    {PreTokenizer::kQwen35,
     {CONTRACTIONS
      R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" SPACES}},
    {PreTokenizer::kSmollm, {kSingleDigits, kByteLevelWords}},
    {PreTokenizer::kTekken,
     {LEAD UPPER "*" LOWER "+|" LEAD UPPER "+" LOWER R"(*|\p{N}|)" PUNCTUATION
                 R"([\r\n/]*|)" SPACES}},
    {PreTokenizer::kGpt4o, {kGpt4o}},
    {PreTokenizer::kFalcon, {kPunctuationRuns, kByteLevelWords, kDigitRuns, "[0-9][0-9][0-9]"}},
    {PreTokenizer::kBloom, {R"( ?[^(\s|[.,!?…。，、।۔،])]+)"}},
    {PreTokenizer::kViking, {R"( ?[^(\s|[.,!?…。，、।۔،])]+)", kSingleDigits}},
    // What cuts these lines cuts them otherwise each time.
    // clang-format off
    {PreTokenizer::kDeepseekLlm,
     {"[\r\n]",
      "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-"
      "ᲺᲽ-"
      "Ჿᴀ-"
      "ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-"
      "ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-"
      "𐲲𐳀-"
      "𐳲𑢠-"
      "𑣟𞤀-𞥃]+",
      "\\s?[!-/:-~！-／：-～‘-‟　-。]+", R"(\s+$)", kDeepseekIdeographs, kSingleDigits}},
    // clang-format on
    {PreTokenizer::kDeepseekCoder,
     {"[\r\n]", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepseekIdeographs, kSingleDigits}},
    {PreTokenizer::kDeepseekV3, {R"(\p{N}{1,3})", kHanAndKana, kDeepseekV3}},
    {PreTokenizer::kSpark,
     {R"(\p{N}{1,3})", kHanAndKana,
      DEEPSEEK_WORD("\r\n") R"( ?[\p{P}\p{S}]+|[)"
                            "\r\n"
                            R"(]|\s+(?!\S)|\s+)",
      kSingleDigits}},
    {PreTokenizer::kYoutu,
     {"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-"
      "ゟ゠-"
      "ヿ]"
      "+",
      LEAD UPPER "*" LOWER "+" CONTRACTIONS "?|" LEAD UPPER "+" LOWER "*" CONTRACTIONS
                 R"(?|\p{N}|)" PUNCTUATION R"([\r\n/]*|)" SPACES}},
    {PreTokenizer::kKimiK2,
     {R"([\p{Han}]+|)" LEAD UPPER_BUT_HAN "*" LOWER_BUT_HAN "+" CONTRACTIONS "?|" LEAD UPPER_BUT_HAN
      "+" LOWER_BUT_HAN "*" CONTRACTIONS R"(?|\p{N}{1,3}|)" PUNCTUATION R"([\r\n]*|)" SPACES}},
    {PreTokenizer::kTinyAya, {R"(\d{1,3}(?=(?:\d{3})*\b))", kGpt4o}},
    {PreTokenizer::kSuperBpe, {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"}},
    {PreTokenizer::kLaguna, {kNewlinesInFront, kQwen2}},
    {PreTokenizer::kSeedCoder,
     {CONTRACTIONS "|[^\r\n"
                   R"(\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N})"
                   "\r\n"
                   R"(]+|\s*[)"
                   "\r\n"
                   R"(]+|\s+(?!\S)|\s+)"}},
    {PreTokenizer::kUfakzeka, {WORD R"(|\p{N}|)" PUNCTUATION R"([\r\n]*|)" SPACES}},
    {PreTokenizer::kExaoneMoe,
     {CONTRACTIONS
      R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"}},
    {PreTokenizer::kJais2,
     {CONTRACTIONS
      "|" WORD R"(|\p{N}{1,3}|)" PUNCTUATION
      R"([\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"}},
};

}  // namespace

std::optional<PreTokenizer> FindPreTokenizer(std::span<const std::string> steps) {
  for (const Row& row : kRows) {
    const auto count =
        static_cast<size_t>(std::ranges::find(row.steps, std::string_view()) - row.steps.begin());
    if (std::ranges::equal(steps, std::span(row.steps).first(count))) return row.pre_tokenizer;
  }
  return std::nullopt;
}

}  // namespace outrider
