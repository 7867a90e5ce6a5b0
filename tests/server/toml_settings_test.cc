#include "server/config/toml_settings.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::StartsWith;

std::vector<std::pair<std::string, std::string>> Read(std::string_view text) {
  const auto settings = ParseTomlSettings(text, "f.toml");
  EXPECT_TRUE(settings.ok()) << settings.status();
  std::vector<std::pair<std::string, std::string>> read;
  if (!settings.ok()) return read;
  for (const TomlSetting& setting : *settings) read.emplace_back(setting.name, setting.value);
  return read;
}

std::string ErrorOf(std::string_view text) {
  const auto settings = ParseTomlSettings(text, "f.toml");
  EXPECT_FALSE(settings.ok()) << text;
  return std::string(Message(settings.status()));
}

TEST(TomlSettings, AreReadAsFlagsHaveThem) {
  EXPECT_THAT(
      Read("sessions = 64\ninsecure=true # why not\n\n  model\t= \"a b.gguf\"\r\n"),
      ElementsAre(Pair("sessions", "64"), Pair("insecure", "true"), Pair("model", "a b.gguf")));
  EXPECT_THAT(Read("a = +1_000\nb = -2.5e+3"),
              ElementsAre(Pair("a", "1000"), Pair("b", "-2.5e+3")));
}

TEST(TomlSettings, OfATableHaveItsNameBeforeTheirs) {
  EXPECT_THAT(
      Read("[tls]\ncert = 'c'\nclient_ca='d'\n[ log ] # two\nformat = 'json'\n"),
      ElementsAre(Pair("tls-cert", "c"), Pair("tls-client-ca", "d"), Pair("log-format", "json")));
  EXPECT_THAT(Read("kv_memory = \"900MiB\"\ntls.key = ''"),
              ElementsAre(Pair("kv-memory", "900MiB"), Pair("tls-key", "")));
}

TEST(TomlSettings, StringsHaveEscapesOrNone) {
  EXPECT_THAT(Read(R"(a = "\t\"\\ \u00e9\U0001F600 # no comment")"),
              ElementsAre(Pair("a", "\t\"\\ \xC3\xA9\xF0\x9F\x98\x80 # no comment")));
  EXPECT_THAT(Read(R"(a = '\t')"), ElementsAre(Pair("a", "\\t")));
}

TEST(TomlSettings, WhatIsWrongIsSaidWithItsLine) {
  EXPECT_EQ(ErrorOf("a = 1\na = 2"), "f.toml:2: \"a\" stands in line 1 already");
  EXPECT_EQ(ErrorOf("[t]\na-b = 1\n[t-a]\nb = 1"), "f.toml:4: \"t-a-b\" stands in line 2 already");
  EXPECT_EQ(ErrorOf("\nsessions 4"), "f.toml:2: = is missing after \"sessions\"");
  EXPECT_EQ(ErrorOf("a = word"),
            "f.toml:1: \"word\" is no number, true or false; text stands in quotes");
  EXPECT_EQ(ErrorOf("a ="), "f.toml:1: a value is missing after =");
  EXPECT_EQ(ErrorOf("a = 1 2"), "f.toml:1: something follows the value of \"a\"");
  EXPECT_EQ(ErrorOf("a = \"x"), "f.toml:1: a string has no end: \" is missing");
  EXPECT_EQ(ErrorOf("a = 'x"), "f.toml:1: a string has no end: ' is missing");
  EXPECT_EQ(ErrorOf("a = \"\\q\""), "f.toml:1: a \\ has to escape something");
  EXPECT_EQ(ErrorOf("a = \"\\uD800\""), "f.toml:1: there is no such Unicode character");
  EXPECT_EQ(ErrorOf("a = [1]"),
            "f.toml:1: a list or table is not taken here; every setting has one value");
  EXPECT_EQ(ErrorOf("a = \"\"\"x"), "f.toml:1: a string of several lines is not taken here");
  EXPECT_EQ(ErrorOf("[[t]]"), "f.toml:1: a list of tables is not taken here");
  EXPECT_EQ(ErrorOf("[t"), "f.toml:1: ] is missing");
  EXPECT_EQ(ErrorOf("= 1"), "f.toml:1: a name of letters, digits, - and _ is missing");
  EXPECT_THAT(ErrorOf(std::string(70000, '#')), StartsWith("f.toml: has 70000 bytes"));
}

}  // namespace
}  // namespace outrider
