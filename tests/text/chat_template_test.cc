// Chat templates against transformers: every text equal, every error an error.
// The golden files are made by tests/golden/chat_templates.py.
#include "common/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ReadTemplate(const std::string& name) {
  const std::string text = ReadFile(TestFile("chat_templates/" + name));
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

std::vector<Json> ReadLines(const std::string& name) {
  std::vector<Json> rows;
  std::ifstream file(TestFile("chat_templates/" + name));
  for (std::string line; std::getline(file, line);) rows.push_back(Json::parse(line));
  EXPECT_FALSE(rows.empty()) << name;
  return rows;
}

// The moment at which the golden clock stands, in local time.
std::chrono::system_clock::time_point GoldenNow() {
  std::tm time{};
  time.tm_year = 2024 - 1900;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 9;
  time.tm_min = 5;
  time.tm_sec = 3;
  time.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&time)) +
         std::chrono::microseconds(4567);
}

ChatInputs GoldenInputs(const Json& conversation) {
  ChatInputs inputs;
  inputs.messages = conversation.at("messages");
  inputs.tools = conversation.value("tools", Json());
  inputs.documents = conversation.value("documents", Json());
  inputs.extra = conversation.value("extra", Json::object());
  inputs.bos_token = "<s>";
  inputs.eos_token = "</s>";
  inputs.now = GoldenNow();
  return inputs;
}

absl::StatusOr<std::string> Render(const std::string& source, const ChatInputs& inputs) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Parse(source, "t.gguf"));
  return chat.Render(inputs);
}

absl::StatusOr<std::string> Render(const std::string& source) {
  ChatInputs inputs;
  inputs.messages.push_back({{"role", "user"}, {"content", "Hi"}});
  return Render(source, inputs);
}

std::string MessageOf(const absl::StatusOr<std::string>& result) {
  return result.ok() ? "no error, but: " + *result : std::string(Message(result.status()));
}

std::string TextOf(const absl::StatusOr<std::string>& result) {
  return result.ok() ? *result : "the error: " + std::string(Message(result.status()));
}

// Whether a rendering is what a golden row says.
void ExpectGolden(const Json& row, const absl::StatusOr<std::string>& result,
                  const std::string& expected_text) {
  if (row.contains("error")) {
    EXPECT_FALSE(result.ok()) << "rendered '" << *result << "' instead of the error "
                              << row["error"];
    if (row.contains("raised")) {
      EXPECT_THAT(MessageOf(result), HasSubstr(row["error"].get<std::string>()));
    }
    return;
  }
  ASSERT_TRUE(result.ok()) << MessageOf(result) << "\ninstead of '" << expected_text << "'";
  EXPECT_EQ(*result, expected_text);
}

TEST(ChatTemplate, WholeTemplatesRenderAsTransformersRendersThem) {
  const Json conversations = Json::parse(ReadTemplate("conversations.json"));
  std::map<std::string, std::string> sources;
  size_t rendered = 0;
  for (const Json& row : ReadLines("rendered.jsonl")) {
    const std::string name = row["template"];
    if (!sources.contains(name)) sources[name] = ReadTemplate(name + ".jinja");
    SCOPED_TRACE(name + " / " + row["conversation"].get<std::string>());
    const absl::StatusOr<ChatTemplate> chat = ChatTemplate::Parse(sources[name], name);
    ASSERT_TRUE(chat.ok()) << Message(chat.status());
    ChatInputs inputs = GoldenInputs(conversations.at(row["conversation"]));
    const std::string text = row.value("text", "");
    ExpectGolden(row, chat->Render(inputs), text);
    inputs.add_generation_prompt = true;
    ExpectGolden(row, chat->Render(inputs), row.value("prompted", text + row.value("prompt", "")));
    rendered += row.contains("text") ? 1 : 0;
  }
  EXPECT_GT(rendered, 400u);
}

TEST(ChatTemplate, EveryConstructRendersAsJinjaRendersIt) {
  ChatInputs inputs = GoldenInputs(Json{{"messages", {{{"role", "user"}, {"content", "Hi"}}}}});
  inputs.extra = Json::parse(ReadTemplate("micro_variables.json"));
  for (const Json& row : ReadLines("micro.jsonl")) {
    const std::string source = row["source"];
    SCOPED_TRACE(source);
    const absl::StatusOr<std::string> result = Render(source, inputs);
    if (row.contains("refused")) {
      EXPECT_FALSE(result.ok()) << *result;
      continue;
    }
    ExpectGolden(row, result, row.value("text", ""));
  }
}

TEST(ChatTemplate, AnErrorNamesTemplateLineAndConstruct) {
  EXPECT_EQ(MessageOf(Render("a\nb\n{% import 'x' as y %}")),
            "t.gguf: chat template line 3: 'import' is not supported");
  EXPECT_EQ(MessageOf(Render("{{ 1 | urlencode }}")),
            "t.gguf: chat template line 1: the filter 'urlencode' is not supported");
  EXPECT_EQ(MessageOf(Render("{{ 1 }}\n\n{{ 'a'.format(1) }}")),
            "t.gguf: chat template line 3: 'str.format' is not supported");
  EXPECT_EQ(MessageOf(Render("{% if 1 %}\n{{ messages[0].x.y }}{% endif %}")),
            "t.gguf: chat template line 2: 'dict object' has no attribute 'x'");
  EXPECT_EQ(MessageOf(Render("\n{{ raise_exception('No system role!') }}")),
            "t.gguf: chat template line 2: No system role!");
  EXPECT_EQ(MessageOf(Render("{% for x in [1] %}\n")),
            "t.gguf: chat template line 1: 'endfor' is missing at the end of the template");
}

TEST(ChatTemplate, WhatIsUnsupportedIsToldFromWhatIsWrong) {
  EXPECT_TRUE(absl::IsUnimplemented(Render("{% block x %}{% endblock %}").status()));
  EXPECT_TRUE(absl::IsUnimplemented(Render("{% for x in [] recursive %}{% endfor %}").status()));
  EXPECT_TRUE(absl::IsUnimplemented(Render("{{ cycler(1) }}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Render("{% nosuch %}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Render("{{ 1 + 'a' }}").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Render("{{ raise_exception('x') }}").status()));
}

// Each of these would take years, or all memory, in Python.
TEST(ChatTemplate, NothingATemplateDoesIsUnbounded) {
  const char* const kGreedy[] = {
      "{{ 'a' * 10 ** 12 }}",
      "{{ [1] * 10 ** 12 }}",
      "{{ 'a'.ljust(10 ** 12) }}",
      "{{ 'a' | center(10 ** 12) }}",
      "{{ ('a' * 10 ** 6).replace('a', 'b' * 10 ** 6) }}",
      "{{ ('a' * 10 ** 6).replace('', 'b' * 10 ** 6) }}",
      "{{ ('a' * 10 ** 6) | list | join('b' * 10 ** 6) }}",
      "{{ ('a,' * 8 * 10 ** 6).split(',') | length }}",
      "{{ ('a ' * 8 * 10 ** 6).split() | length }}",
      "{{ ('\n' * 16 * 10 ** 6).splitlines() | length }}",
      "{{ ('a\n' * 10 ** 6) | indent(10 ** 6) }}",
      "{{ [[[[1]]]] | tojson(indent=10 ** 9) }}",
      "{{ range(10 ** 12) | list }}",
      "{{ 2 ** 10 ** 9 }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% set ns = namespace(x='a') %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% "
      "endfor %}",
      "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}"
      "{{ ns.x }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% "
      "endfor %}"
      "{{ ns.x | tojson }}",
      "{% set a = namespace(x=[]) %}{% set b = namespace(x=[]) %}{% for i in range(99) %}"
      "{% set a.x = [a.x, a.x] %}{% set b.x = [b.x, b.x] %}{% endfor %}{{ a.x == b.x }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
      "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
      "{% macro f() %}{{ f() ~ f() }}{% endmacro %}{{ f() }}",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(30) }}",
      "{{ ('a' * 10 ** 7).find('a' * 5 * 10 ** 6 ~ 'b') ~ 5 / 0 }}",
      "{{ ('a' * 10 ** 7).rfind('b' ~ 'a' * 5 * 10 ** 6) ~ 5 / 0 }}",
      "{{ ('a' * 5 * 10 ** 6 ~ 'b') in ('a' * 10 ** 7) or 5 / 0 }}",
      "{% set ns = namespace(x=()) %}{% for i in range(99) %}{% set ns.x = (ns.x, ns.x) %}{% "
      "endfor %}"
      "{{ {ns.x: 1}[(ns.x, 1)] }}{{ 5 / 0 }}",
      "{{ 'a' | map('map', 'map', 'map', 'map', 'upper') | list | nosuch }}",
  };
  for (const char* const source : kGreedy) {
    SCOPED_TRACE(source);
    EXPECT_FALSE(Render(source).ok());
  }
}

TEST(ChatTemplate, NestingOfTheSourceIsBounded) {
  const auto repeat = [](const std::string& text, size_t times) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += text;
    return out;
  };
  const size_t n = 40'000;
  EXPECT_FALSE(Render("{{ " + repeat("(", n)).ok());
  EXPECT_FALSE(Render("{{ " + repeat("[", n)).ok());
  EXPECT_FALSE(Render("{{ " + repeat("{1:", n)).ok());
  EXPECT_FALSE(Render("{{ " + repeat("-", n) + "1 }}").ok());
  EXPECT_FALSE(Render("{{ " + repeat("not ", n) + "1 }}").ok());
  EXPECT_FALSE(Render("{{ 1" + repeat(" + 1", n) + " }}").ok());
  EXPECT_FALSE(Render("{{ 1" + repeat(" | string", n) + " }}").ok());
  EXPECT_FALSE(Render("{{ 1" + repeat(".a", n) + " }}").ok());
  EXPECT_FALSE(Render("{{ 1" + repeat(" if 1 else 1", n) + " }}").ok());
  EXPECT_FALSE(Render(repeat("{% if 1 %}", n)).ok());
  EXPECT_FALSE(Render("{% set " + repeat("(", n)).ok());
  // Long is not deep.
  EXPECT_TRUE(Render("{{ 1" + repeat(" ~ 1", n) + " }}").ok());
  EXPECT_TRUE(Render(repeat("{% if 1 %}{% endif %}", n)).ok());
  EXPECT_EQ(TextOf(Render("{{ [" + repeat("1,", n) + "] | length }}")), "40000");
  EXPECT_EQ(TextOf(Render("{% if 0 %}" + repeat("{% elif 0 %}", 1000) + "{% endif %}")), "");
}

// A namespace may hold itself, and chains of them may be long: neither leaks nor recurses.
TEST(ChatTemplate, NamespacesMayTieKnots) {
  EXPECT_EQ(TextOf(Render("{% set ns = namespace(a=1) %}{% set ns.me = ns %}{{ ns.me.me.a }}")),
            "1");
  EXPECT_EQ(TextOf(Render("{% set o = namespace(x=none) %}{% for i in range(50000) %}"
                          "{% set o.x = namespace(next=o.x) %}{% endfor %}"
                          "{{ o.x.next.next is defined }}")),
            "True");
  EXPECT_EQ(TextOf(Render("{% set ns = namespace() %}{% for i in [1, 2] %}{% for j in [3] %}"
                          "{% macro m() %}{{ i }}{{ j }}{% endmacro %}{% set ns.m = m %}"
                          "{% endfor %}{% set kept = ns.m %}{% endfor %}{{ ns.m() }}")),
            "23");
}

TEST(ChatTemplate, ChainsOfLoopsMayBeLong) {
  EXPECT_EQ(TextOf(Render("{% set ns = namespace(l=0) %}{% for i in range(50000) %}"
                          "{% set before = ns.l %}{% for j in [1] if before is defined %}"
                          "{% set ns.l = loop %}{% endfor %}{% endfor %}"
                          "{{ ns.l.index }}{{ ns.l.last }}")),
            "1True");
}

TEST(ChatTemplate, LongPiecesAreFoundWhereTheyAre) {
  const std::string source =
      "{% set p = 'ab' * 20 ~ 'c' %}{% set t = 'ab' * 30 ~ 'c' ~ 'ab' * 21 ~ 'cx' %}"
      "{{ t.find(p) }} {{ t.rfind(p) }} {{ t.find(p, 21) }} {{ t.find(p, 64) }} {{ t.count(p) }} "
      "{{ t.replace(p, '-') }} {{ t.split(p) }} {{ t.rsplit(p, 1) | length }} {{ p in t }} "
      "{{ t.find('ab' * 40) }} {{ t.rfind('x' * 40) }}";
  EXPECT_EQ(TextOf(Render(source)),
            "20 63 63 -1 2 abababababababababab-ab-x "
            "['abababababababababab', 'ab', 'x'] 2 True -1 -1");
}

TEST(ChatTemplate, EverySourceCutShortIsAnErrorOrATemplate) {
  for (const char* const name : {"llama-3.1", "mistral-tools", "qwen3", "schema-macros"}) {
    const std::string source = ReadTemplate(std::string(name) + ".jinja");
    for (size_t size = 0; size < source.size(); ++size) {
      const auto result = Render(source.substr(0, size));
      if (result.ok()) continue;
      EXPECT_THAT(MessageOf(result), StartsWith("t.gguf: chat template line "));
    }
  }
}

TEST(ChatTemplate, TextThatIsNoUtf8IsReadWithReplacements) {
  ChatInputs inputs;
  inputs.messages.push_back({{"role", "user"}, {"content", "a\xFF\xE4\xB8z"}});
  EXPECT_EQ(TextOf(Render("\xC3{{ messages[0].content }}{{ messages[0].content | length }}"
                          "{{ messages[0].content | tojson }}",
                          inputs)),
            "\uFFFDa\uFFFD\uFFFDz4\"a\uFFFD\uFFFDz\"");
}

TEST(ChatTemplate, BadInputsAreNamed) {
  const std::string source = "{{ messages }}";
  ChatInputs inputs;
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("the conversation has no message"));
  inputs.messages = "Hi";
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("the messages are a JSON string"));
  inputs.messages = {"Hi"};
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("message 0 is a JSON string"));
  inputs.messages = Json::array({{{"role", "user"}}});
  inputs.tools = {"tool"};
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("one of the tools is a JSON string"));
  inputs.tools = nullptr;
  inputs.extra = {{"messages", 1}};
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("'messages' is no extra variable"));
  inputs.extra = {{"n", 18446744073709551615u}};
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("18446744073709551615"));
  Json deep = 1;
  for (int i = 0; i < 10'000; ++i) deep = Json::array({std::move(deep)});
  inputs.extra = Json::object();
  inputs.extra["deep"] = std::move(deep);
  EXPECT_THAT(MessageOf(Render(source, inputs)), HasSubstr("nested deeper than"));
}

// What apply_chat_template does before it renders.
TEST(ChatTemplate, MessagesArePreparedAsTransformersPreparesThem) {
  ChatInputs inputs;
  inputs.messages.push_back({{"role", "assistant"}, {"content", nullptr}, {"reasoning", "why"}});
  EXPECT_EQ(TextOf(Render("{{ messages }}", inputs)),
            "[{'thinking': 'why', 'role': 'assistant', 'reasoning': 'why', "
            "'reasoning_content': 'why'}]");
}

TEST(ChatTemplate, RendersTheSameEachTime) {
  const absl::StatusOr<ChatTemplate> chat = ChatTemplate::Parse(
      "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}"
      "{{ ns.n }}{{ messages | map(attribute='content') | list }}",
      "t");
  ASSERT_TRUE(chat.ok());
  ChatInputs inputs;
  inputs.messages.push_back({{"role", "user"}, {"content", "Hi"}});
  EXPECT_EQ(TextOf(chat->Render(inputs)), "1['Hi']");
  EXPECT_EQ(TextOf(chat->Render(inputs)), "1['Hi']");
}

TEST(ChatTemplate, ALongConversationIsNoProblem) {
  ChatInputs inputs = GoldenInputs(Json{{"messages", Json::array()}});
  for (int i = 0; i < 2'000; ++i) {
    inputs.messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                               {"content", std::string(1'000, static_cast<char>('a' + i % 26))}});
  }
  for (const char* const name : {"qwen3", "llama-3.1", "mistral-tools", "schema-macros"}) {
    const auto result = Render(ReadTemplate(std::string(name) + ".jinja"), inputs);
    ASSERT_TRUE(result.ok()) << name << ": " << MessageOf(result);
    EXPECT_GT(result->size(), 2'000'000u) << name;
  }
}

}  // namespace
}  // namespace outrider
