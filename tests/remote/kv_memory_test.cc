// A server whose keys and values have less memory than it takes: for any session, or for long ones.
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// What a server says that does not start.
std::string WhyNot(const std::string& kv_memory) {
  const std::string command = Concat("timeout 60 ", OUTRIDER_SERVER, " --model ", Stories(),
                                     " --listen 127.0.0.1:0 --kv-memory ", kv_memory, " 2>&1");
  FILE* const program = popen(command.c_str(), "r");
  OUTRIDER_CHECK(program != nullptr, "a shell can be had");
  std::string said;
  std::array<char, 1024> bytes;
  while (fgets(bytes.data(), bytes.size(), program) != nullptr) said += bytes.data();
  EXPECT_EQ(WEXITSTATUS(pclose(program)), 1);
  return said;
}

uint64_t LeastOf(const std::string& sentence) {
  constexpr std::string_view kBefore = "the least is ";
  const size_t at = sentence.find(kBefore);
  return at == std::string::npos ? 0 : std::stoull(sentence.substr(at + kBefore.size()));
}

absl::Status Write(const ServerProcess& server, std::vector<TokenId> prompt, uint32_t tokens,
                   std::vector<TokenId>& text) {
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  v1::GenerateRequest request;
  SetPrompt(prompt, *request.mutable_open());
  request.mutable_open()->mutable_stops()->set_max_tokens(tokens);
  text = std::move(prompt);
  return verifier->Generate(request, [&](const v1::GenerateResponse& response) {
    for (const uint32_t token : response.tokens()) text.push_back(static_cast<TokenId>(token));
    return true;
  });
}

TEST(KvMemoryTest, TooLittleForAnySessionIsOneSentenceWithTheLeastThatWorks) {
  const std::string said = WhyNot("1");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_THAT(said, HasSubstr("a KV cache of 1 bytes is too small; the least is "));
  EXPECT_THAT(said, HasSubstr("--kv-memory: "));
  const uint64_t least = LeastOf(said);
  ASSERT_GT(least, 0u);
  EXPECT_EQ(LeastOf(WhyNot(std::to_string(least - 1))), least);

  const ServerProcess server(0, {"--sessions", "2", "--kv-memory", std::to_string(least)});
  const std::vector<TokenId> prompt = TheTokenizer().Encode("Once upon a time");
  StopOptions stops;
  stops.max_tokens = 8;
  std::vector<TokenId> text;
  const absl::Status status = Write(server, prompt, *stops.max_tokens, text);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(text, Alone(prompt, {}, stops, false).tokens);
}

TEST(KvMemoryTest, TooLittleForALongPromptIsASentenceWithBothLengths) {
  const ServerProcess server(
      0, {"--sessions", "1", "--kv-memory", std::to_string(LeastOf(WhyNot("1")))});
  std::vector<TokenId> text;
  const absl::Status status = Write(server, std::vector<TokenId>(100, 300), 8, text);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("100"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("32"));
}

}  // namespace
}  // namespace outrider
