#include "common/tokens/stop_strings.h"

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

StopStrings Strings(const std::vector<std::string>& strings) {
  absl::StatusOr<StopStrings> result = StopStrings::Create(strings);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

// What the definition says of a whole text: where it is cut, if a string ends anywhere in it.
std::optional<size_t> PlainCut(std::string_view text, const std::vector<std::string>& strings) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& string : strings) {
      if (text.substr(0, end).ends_with(string)) longest = std::max(longest, string.size());
    }
    if (longest > 0) return end - longest;
  }
  return std::nullopt;
}

// The longest end of the text that begins a stop string.
size_t PlainWithheld(std::string_view text, const std::vector<std::string>& strings) {
  for (size_t length = text.size(); length > 0; --length) {
    for (const std::string& string : strings) {
      if (std::string_view(string).starts_with(text.substr(text.size() - length))) return length;
    }
  }
  return 0;
}

TEST(StopStrings, WithholdsWhatMayBecomeOneAndShowsItWhenItDoesNot) {
  const StopStrings strings = Strings({"\nUser:"});
  StopStringScanner scanner(strings);
  EXPECT_EQ(scanner.Add("Sure.\nUs"), "Sure.");
  EXPECT_EQ(scanner.Add("e"), "");
  EXPECT_EQ(scanner.Add(" it.\n"), "\nUse it.");
  EXPECT_EQ(scanner.Add("User"), "");
  EXPECT_FALSE(scanner.matched());
  EXPECT_EQ(scanner.Add(": and more"), "");
  EXPECT_TRUE(scanner.matched());
}

TEST(StopStrings, ATextThatEndsShowsWhatWasWithheld) {
  const StopStrings strings = Strings({"abc"});
  StopStringScanner scanner(strings);
  EXPECT_EQ(scanner.Add("xab"), "x");
  EXPECT_EQ(scanner.Finish(), "ab");
}

TEST(StopStrings, RepeatedPatternsFallBackAsFarAsTheyMust) {
  const StopStrings strings = Strings({"aabaaa"});
  StopStringScanner scanner(strings);
  EXPECT_EQ(scanner.Add("aabaab"), "aab");  // "aab" may begin it again
  EXPECT_EQ(scanner.Add("aa"), "");
  EXPECT_FALSE(scanner.matched());
  EXPECT_EQ(scanner.Add("a"), "");
  EXPECT_TRUE(scanner.matched());
}

TEST(StopStrings, OfSeveralTheFirstToEndCountsAndOfThoseTheLongest) {
  const StopStrings strings = Strings({"b", "ab"});
  StopStringScanner both(strings);
  EXPECT_EQ(both.Add("xab"), "x");
  EXPECT_TRUE(both.matched());
  const StopStrings inner = Strings({"abcd", "bc"});
  StopStringScanner first(inner);
  EXPECT_EQ(first.Add("xabcd"), "xa");
}

TEST(StopStrings, CharactersOfManyBytesAreNotCut) {
  const StopStrings strings = Strings({"語を", "🙂"});
  StopStringScanner scanner(strings);
  EXPECT_EQ(scanner.Add("日本語"), "日本");
  EXPECT_EQ(scanner.Add("語"), "語");  // the earlier one cannot be it any more
  EXPECT_EQ(scanner.Add("😀"), "語😀");  // shares three bytes with the other string
  EXPECT_EQ(scanner.Add("a🙂b"), "a");
  EXPECT_TRUE(scanner.matched());
}

TEST(StopStrings, WithoutAnyEverythingPasses) {
  const StopStrings none;
  StopStringScanner scanner(none);
  EXPECT_EQ(scanner.Add("anything"), "anything");
  EXPECT_EQ(scanner.Add(""), "");
  EXPECT_EQ(scanner.Finish(), "");
}

// Small alphabets and short periods, so that everything overlaps with everything: any text, cut
// into any pieces, shows at each moment what the definition allows, no more and no less.
TEST(StopStrings, TheCutDependsOnTheTextAndNotOnItsPieces) {
  std::mt19937 random(1);
  const auto random_text = [&](size_t length) {
    const size_t period = 1 + random() % 4;
    std::string text(length, 'a');
    for (size_t i = 0; i < length; ++i) {
      const bool repeats = i >= period && random() % 8 != 0;
      text[i] = repeats ? text[i - period] : static_cast<char>('a' + random() % 2);
    }
    return text;
  };
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> list(1 + random() % 4);
    for (std::string& string : list) string = random_text(1 + random() % 12);
    const std::string text = random_text(random() % 60);
    const std::optional<size_t> cut = PlainCut(text, list);
    const StopStrings strings = Strings(list);
    StopStringScanner scanner(strings);
    std::string shown;
    size_t at = 0;
    while (at < text.size() && !scanner.matched()) {
      const size_t length = std::min(random() % 5, text.size() - at);
      shown += scanner.Add(std::string_view(text).substr(at, length));
      at += length;
      if (scanner.matched()) break;
      const std::string_view so_far = std::string_view(text).substr(0, at);
      ASSERT_EQ(shown, so_far.substr(0, at - PlainWithheld(so_far, list)));
    }
    ASSERT_EQ(scanner.matched(), cut.has_value()) << text;
    matches += scanner.matched();
    if (!scanner.matched()) shown += scanner.Finish();
    ASSERT_EQ(shown, text.substr(0, cut.value_or(text.size())));
  }
  EXPECT_GT(matches, 1000);
}

// As long and as alike as they may be, and a text that all of them begin with over and over: every
// byte is a step, however many strings wait for it.
TEST(StopStrings, TheLongestOfAllStringsAreFoundInALongText) {
  std::vector<std::string> list;
  for (char last = ' '; list.size() < StopStrings::kStringsMax; ++last) {
    list.push_back(std::string(StopStrings::kBytesMax - 1, 'a') + last);
  }
  const StopStrings strings = Strings(list);
  StopStringScanner scanner(strings);
  std::string text = std::string(5000, 'a') + "\n" + std::string(5000, 'a');
  EXPECT_EQ(scanner.Add(text).size(), text.size() - (StopStrings::kBytesMax - 1));
  EXPECT_FALSE(scanner.matched());
  EXPECT_EQ(scanner.Add("!").size(), 0u);
  EXPECT_TRUE(scanner.matched());
}

std::string ErrorOf(const std::vector<std::string>& strings) {
  const absl::Status status = StopStrings::Create(strings).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(Message(status));
}

TEST(StopStrings, BadOnesAreRefused) {
  EXPECT_EQ(ErrorOf({"a", ""}), "a stop string is empty: every text would end at once");
  EXPECT_EQ(ErrorOf({std::string(1025, 'a')}),
            "a stop string of 1025 bytes is too long: at most 1024 are withheld");
  EXPECT_EQ(ErrorOf({"a\xFF"}), "stop string \"a\\xff\" is not UTF-8: no text contains it");
  EXPECT_EQ(ErrorOf(std::vector<std::string>(65, "a")),
            "65 stop strings are given: at most 64 can be watched for");
  EXPECT_TRUE(StopStrings::Create(std::vector<std::string>(64, std::string(1024, 'a'))).ok());
}

}  // namespace
}  // namespace outrider
