// What is told of secrets: nothing. A server's log, its operators' port and the reasons it gives have
// no piece of a key, of a token by which a session is resumed, of a prompt or of a text, whatever is
// done with them and however wrong.
#include <signal.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/base/random_bits.h"
#include "common/tokens/token_history.h"
#include "common/verification/machine/resume_token.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "openssl/evp.h"
#include "server/security/keys.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/device_line.h"
#include "tests/remote/server_process.h"

namespace outrider {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using Kind = DeviceLine::Kind;

// Shorter pieces stand in any text by chance.
constexpr size_t kPieceBytes = 12;
constexpr size_t kPieceTokens = 4;

// --- what is looked for ---

// Each byte as `format` has it, or those that cannot be printed.
std::string Each(std::string_view bytes, const char* format, bool keeps_printable = false) {
  std::string text;
  for (const char byte : bytes) {
    if (keeps_printable && byte >= ' ' && byte < 127) {
      text += byte;
      continue;
    }
    char one[16];
    std::snprintf(one, sizeof(one), format, static_cast<unsigned>(static_cast<uint8_t>(byte)));
    text += one;
  }
  return text;
}

std::string Base64(std::string_view bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<uint8_t*>(text.data()),
                                   reinterpret_cast<const uint8_t*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(size));
  return text;
}

// As somebody may write bytes: as they are, in numbers, with the escapes of a dump of a message, of a
// quoted name and of JSON.
std::vector<std::string> FormsOf(std::string_view bytes) {
  std::string for_urls = Base64(bytes);
  std::ranges::replace(for_urls, '+', '-');
  std::ranges::replace(for_urls, '/', '_');
  return {std::string(bytes),
          Each(bytes, "%02x"),
          Each(bytes, "%02X"),
          Each(bytes, "%02x "),
          Each(bytes, "%02x:"),
          Each(bytes, "%u "),
          Each(bytes, "%u,"),
          Each(bytes, "%u, "),
          Each(bytes, "\\%03o", /*keeps_printable=*/true),
          Each(bytes, "\\x%02x", /*keeps_printable=*/true),
          Each(bytes, "\\u%04x", /*keeps_printable=*/true),
          Base64(bytes),
          for_urls};
}

bool HasPieceOf(std::string_view said, std::string_view form) {
  for (size_t at = 0; at + kPieceBytes <= form.size(); ++at) {
    if (said.find(form.substr(at, kPieceBytes)) != std::string_view::npos) return true;
  }
  return false;
}

bool TellsOf(std::string_view said, std::string_view secret) {
  return std::ranges::any_of(FormsOf(secret),
                             [&](const std::string& form) { return HasPieceOf(said, form); });
}

// In their order, whatever stands between them.
std::vector<TokenId> NumbersIn(std::string_view said) {
  std::vector<TokenId> numbers;
  bool goes_on = false;
  for (const char letter : said) {
    const bool is_digit = letter >= '0' && letter <= '9';
    if (is_digit && !goes_on) numbers.push_back(0);
    // No token has so many digits.
    if (is_digit) numbers.back() = numbers.back() % 1'000'000 * 10 + (letter - '0');
    goes_on = is_digit;
  }
  return numbers;
}

bool TellsOf(std::string_view said, std::span<const TokenId> tokens) {
  const std::vector<TokenId> numbers = NumbersIn(said);
  for (size_t at = 0; at + kPieceTokens <= tokens.size(); ++at) {
    const auto piece = tokens.subspan(at, kPieceTokens);
    const auto found = std::search(numbers.begin(), numbers.end(), piece.begin(), piece.end());
    if (found != numbers.end()) return true;
  }
  return false;
}

// So that whoever finds nothing has looked for something.
TEST(ToldSecrets, AreFoundHoweverTheyAreWritten) {
  const std::string secret = RandomBytes(RandomBits);
  const std::string other = RandomBytes(RandomBits);
  for (const std::string& form : FormsOf(secret)) {
    const std::string line = Concat("2026-01-31T12:00:00.123Z fault session=1 why=\"", form, "\"");
    EXPECT_TRUE(TellsOf(line, secret)) << form;
    EXPECT_FALSE(TellsOf(line, other)) << form;
    const std::string half = form.substr(0, std::max(kPieceBytes, form.size() / 2));
    EXPECT_TRUE(TellsOf(Concat("why=", half), secret)) << half;
  }
  const std::vector<TokenId> tokens = {1, 403, 407, 261, 378};
  EXPECT_TRUE(TellsOf("[7, 403, 407, 261, 378]", tokens));
  EXPECT_TRUE(TellsOf("ids: 1 ids: 403 ids: 407 ids: 261", tokens));
  EXPECT_FALSE(TellsOf("403 407 262 378, 2026-01-31", tokens));
}

// --- a server ---

class ToldSecretsOf : public testing::TestWithParam<const char*> {
 protected:
  bool is_json() const { return std::string_view(GetParam()) == "json"; }

  // There are no levels in a server's log, which has it all. gRPC has a log of its own, in which the
  // headers of every call would be, and the server shuts it: here it is asked for everything.
  std::string TalkativeServer() const {
    const std::string path =
        dir_.Write("server", Concat("#!/bin/sh\nGRPC_VERBOSITY=debug GRPC_TRACE=all exec '",
                                    OUTRIDER_SERVER, "' \"$@\"\n"));
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }

  std::string WriteKeys(const std::string& text) const { return dir_.Write("keys", text); }

  void Hide(const std::string& what, std::string_view secret) {
    ASSERT_GE(secret.size(), kPieceBytes) << what;
    secrets_.emplace_back(what, secret);
  }
  void Hide(std::span<const TokenId> tokens) {
    ASSERT_GE(tokens.size(), kPieceTokens);
    tokens_.emplace_back(tokens.begin(), tokens.end());
  }
  // A reason that somebody was given.
  void Heard(const absl::Status& why) {
    EXPECT_FALSE(why.ok());
    heard_ += Concat(Message(why), "\n");
  }
  v1::ServerMessage Heard(v1::ServerMessage answer) {
    EXPECT_TRUE(answer.has_fault()) << answer.kind_case();
    heard_ += Concat(answer.fault().message(), "\n");
    return answer;
  }

  // A device writes a reply with its draft.
  void WriteReply(Verifier& verifier) {
    SessionOptions options;
    options.prompt = prompt_;
    options.stops.max_tokens = kTokens;
    DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, verifier);
    Screen screen;
    const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
    EXPECT_TRUE(status.ok()) << status;
    Hide("a reply's text", screen.Take());
    Hide(drafted.session().committed());
    drafted.driver().Close();
  }

  // The server's target writes one.
  void Generate(RemoteVerifier& verifier) {
    v1::GenerateRequest request;
    SetPrompt(prompt_, *request.mutable_open());
    request.mutable_open()->mutable_stops()->set_max_tokens(kTokens);
    std::vector<TokenId> tokens;
    const absl::Status status =
        verifier.Generate(request, [&](const v1::GenerateResponse& response) {
          for (const uint32_t token : response.tokens()) {
            tokens.push_back(static_cast<TokenId>(token));
          }
          return true;
        });
    EXPECT_TRUE(status.ok()) << status;
    Hide(tokens);
    request.mutable_open()->add_prompt()->mutable_image()->set_width(1);
    Heard(verifier.Generate(request, [](const v1::GenerateResponse&) { return true; }));
  }

  v1::ClientMessage Resuming(const v1::Opened& opened, const std::string& token, uint32_t attempt,
                             uint64_t drift = 0) const {
    v1::ClientMessage message;
    v1::Resume& resume = *message.mutable_resume();
    resume.set_session(opened.session());
    resume.set_token(token);
    uint64_t hash = drift;
    for (const TokenId id : prompt_) hash = TokenHistory::Extend(hash, id);
    resume.set_length(static_cast<uint32_t>(prompt_.size()));
    resume.set_hash(hash);
    resume.set_attempt(attempt);
    return message;
  }

  v1::ServerMessage Try(Verifier& as, const v1::ClientMessage& first) {
    DeviceLine line(as, ++number_);
    line.Say(first);
    return line.Hear(first.has_open() ? Kind::kOpened : Kind::kResumed);
  }

  // A session moves to another stream; whoever has no right to it, or has another text, does not.
  void Resume(Verifier& device, Verifier& other) {
    DeviceLine first(device, ++number_);
    first.Say(WaitingOpen(1, prompt_));
    const v1::Opened opened = first.Hear(Kind::kOpened).opened();
    Hide("a session's name", opened.session());
    Hide("a session's token", opened.token());
    const std::string guessed = RandomBytes(RandomBits);
    Hide("a guessed token", guessed);
    Heard(Try(device, Resuming(opened, guessed, 2)));
    Heard(Try(other, Resuming(opened, opened.token(), 3)));
    DeviceLine second(device, ++number_);
    second.Say(Resuming(opened, opened.token(), 4));
    const v1::Resumed resumed = second.Hear(Kind::kResumed).resumed();
    Hide("its next token", resumed.token());
    Heard(first.Hear(Kind::kFault));
    Heard(Try(device, Resuming(opened, resumed.token(), 5, /*drift=*/1)));
  }

  // A session that is over because its device breaks the contract.
  void BreakTheContract(Verifier& device) {
    DeviceLine line(device, ++number_);
    line.Say(WaitingOpen(2, prompt_));
    Hide("another's token", line.Hear(Kind::kOpened).opened().token());
    v1::ClientMessage growth;
    growth.mutable_grow()->set_seen(1000);
    line.Say(growth);
    Heard(line.Hear(Kind::kFault));
  }

  static absl::Status Ask(const ServerProcess& server, const std::string& key) {
    return OrDie(RemoteVerifier::Connect(server.address(), {.key = key}))->Describe().status();
  }

  static constexpr uint32_t kTokens = 24;

  const std::string prompt_text_ = "Once upon a time";
  const std::vector<TokenId> prompt_ = TheTokenizer().Encode(prompt_text_);
  ScratchDir dir_;
  std::vector<std::pair<std::string, std::string>> secrets_;  // what each is
  std::vector<std::vector<TokenId>> tokens_;
  std::string heard_;
  uint64_t number_ = 100;  // of the newest stream
};

TEST_P(ToldSecretsOf, NobodyHearsWhateverIsDone) {
  const std::string key = NewKey();
  const std::string withdrawn = NewKey();
  const std::string unknown = NewKey();
  for (const std::string& secret : {key, withdrawn, unknown}) Hide("a key", secret);
  Hide("the prompt", prompt_text_);
  Hide(prompt_);
  const std::string robots = Concat(LineOf("robot", key), "\n");
  const std::string keys = WriteKeys(Concat(robots, LineOf("gone", withdrawn), "\n"));
  ServerProcess server(
      0, {"--sessions", "4", "--keys", keys, "--admin", "127.0.0.1:0", "--log-format", GetParam()},
      TalkativeServer().c_str());
  {
    const auto device = OrDie(RemoteVerifier::Connect(server.address(), {.key = key}));
    const auto other = OrDie(RemoteVerifier::Connect(server.address(), {.key = withdrawn}));
    WriteReply(*device);
    Generate(*device);
    Resume(*device, *other);
    BreakTheContract(*device);
  }
  Heard(Ask(server, unknown));
  Heard(Ask(server, ""));

  // Somebody has put a key itself where its hash should be; then one is withdrawn.
  WriteKeys(Concat(robots, "new ", unknown, "\n", unknown, "\n"));
  kill(server.pid(), SIGHUP);
  EXPECT_NE(server.AwaitLine(is_json() ? "keys_unchanged" : "keys stay as they are"), "");
  WriteKeys(robots);
  kill(server.pid(), SIGHUP);
  EXPECT_NE(server.AwaitLine(is_json() ? "key_revoked" : "is not valid any more"), "");
  Heard(Ask(server, withdrawn));

  const std::string line =
      server.AwaitLine(is_json() ? "\"event\":\"admin\"" : "probes and metrics on ");
  httplib::Client admin("127.0.0.1", ServerProcess::PortIn(line));
  const httplib::Result metrics = admin.Get("/metrics");
  ASSERT_TRUE(metrics);
  EXPECT_THAT(metrics->body, HasSubstr("outrider:generation_tokens_total"));
  EXPECT_EQ(server.Stop(), 0);

  const std::string log = server.AwaitAll();
  EXPECT_THAT(log, ContainsRegex(is_json() ? "\"event\":\"session\".*\"key\":\"robot\",\"end\":"
                                             "\"closed\".*\"tokens\":24,"
                                           : " session session=.* key=robot end=closed .* "
                                             "tokens=24 "));
  EXPECT_THAT(log, HasSubstr("MALFORMED"));
  EXPECT_THAT(log, HasSubstr("unknown_key"));
  EXPECT_THAT(log, HasSubstr("a key itself"));
  EXPECT_THAT(heard_, HasSubstr("does not know the device's key"));
  EXPECT_THAT(heard_, HasSubstr("not with this token"));
  EXPECT_THAT(heard_, HasSubstr("seen verdict 1000"));

  const std::string said = Concat(log, heard_, metrics->body);
  for (const auto& [what, secret] : secrets_) EXPECT_FALSE(TellsOf(said, secret)) << what;
  for (const std::vector<TokenId>& tokens : tokens_) EXPECT_FALSE(TellsOf(said, tokens));
}

INSTANTIATE_TEST_SUITE_P(LogForms, ToldSecretsOf, testing::Values("text", "json"));

}  // namespace
}  // namespace outrider
