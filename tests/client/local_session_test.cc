// Real sessions in one process: a drafter on its thread, a target on the verifier's, and the
// machine between them.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "client/verifier/local_verifier.h"
#include "common/speculation/policies/policies.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/local_host.h"
#include "tests/client/stories_world.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// A session whose target is in this process, too.
class LocalSession {
 public:
  LocalSession(SessionOptions options, const StoriesModel& draft, PolicyKind kind)
      : verifier_(host_.driver(), {}), drafted_(std::move(options), draft, kind, verifier_) {}

  Session& session() { return drafted_.session(); }
  SessionDriver& driver() { return drafted_.driver(); }

 private:
  LocalHost host_;
  LocalVerifier verifier_;
  DraftedSession drafted_;
};

class LosslessTest : public ::testing::TestWithParam<std::tuple<PolicyKind, bool, bool>> {};

TEST_P(LosslessTest, WritesWhatTheTargetAloneWould) {
  const auto [kind, damaged, sampled] = GetParam();
  for (const char* text : {"Once upon a time", "Lily had a red ball.", "The dog"}) {
    SessionOptions options;
    options.prompt = TheTokenizer().Encode(text);
    options.continues_text = true;
    options.stops.max_tokens = 100;
    if (sampled) options.sampling = Sampled(options.prompt.size());
    const Written alone = Alone(options.prompt, options.sampling, options.stops, true);
    LocalSession local(options, damaged ? Damaged() : Good(), kind);
    Screen screen;
    ASSERT_TRUE(local.driver().Run(Session::Start{}, screen).ok());
    const auto committed = local.session().committed();
    EXPECT_EQ(std::vector(committed.begin(), committed.end()), alone.tokens);
    EXPECT_EQ(screen.Take(), alone.text);
    EXPECT_EQ(local.driver().finish(), v1::FINISH_TOKEN_LIMIT);
    EXPECT_TRUE(screen.reports().empty());
    // A draft that is the target is always right; but it takes as long, and auto may do without.
    const SessionStats& stats = local.session().stats();
    EXPECT_EQ(stats.tokens, 100u);
    if (!damaged && !sampled && kind != PolicyKind::kAuto) {
      EXPECT_LE(stats.passes, 50u) << PolicyName(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, LosslessTest,
                         ::testing::Combine(::testing::ValuesIn(kPolicyKinds), ::testing::Bool(),
                                            ::testing::Bool()),
                         [](const auto& which) {
                           return std::string(PolicyName(std::get<0>(which.param))) +
                                  (std::get<1>(which.param) ? "_damaged" : "_same") +
                                  (std::get<2>(which.param) ? "_sampled" : "_greedy");
                         });

// Lines of real text, as tokens; what JSON adds to them is as good as any.
std::vector<std::vector<TokenId>> PromptsOf(const std::string& path) {
  constexpr size_t kLengthMax = 120;
  std::vector<std::vector<TokenId>> prompts;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    prompts.push_back(TheTokenizer().Encode(line));
    prompts.back().resize(std::min(prompts.back().size(), kLengthMax));
  }
  return prompts;
}

// Policies and drafts take turns; every prompt is greedy once and sampled once.
TEST(LocalSessionTest, FiftyPromptsGoOnAsTheTargetAloneWould) {
  const std::string path = ExternalFile("prompts/mt_bench.jsonl");
  OUTRIDER_SKIP_WITHOUT(path);
  const std::vector<std::vector<TokenId>> prompts = PromptsOf(path);
  ASSERT_EQ(prompts.size(), 50u);
  for (size_t i = 0; i < 2 * prompts.size(); ++i) {
    SessionOptions options;
    options.prompt = prompts[i / 2];
    options.stops.max_tokens = 32;
    if (i % 2 == 1) options.sampling = Sampled(i);
    const PolicyKind kind = kPolicyKinds[i % kPolicyKinds.size()];
    LocalSession local(options, i % 3 == 0 ? Good() : Damaged(), kind);
    Screen screen;
    ASSERT_TRUE(local.driver().Run(Session::Start{}, screen).ok());
    const auto committed = local.session().committed();
    EXPECT_EQ(std::vector(committed.begin(), committed.end()),
              Alone(options.prompt, options.sampling, options.stops, false).tokens)
        << "prompt " << i / 2 << ", " << PolicyName(kind);
  }
}

TEST(LocalSessionTest, TurnsFollowOneAnother) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.stops.max_tokens = 20;
  LocalSession local(options, Damaged(), PolicyKind::kOurs);
  Screen screen;
  ASSERT_TRUE(local.driver().Run(Session::Start{}, screen).ok());
  EXPECT_EQ(screen.Take(), Alone(options.prompt, {}, options.stops, false).text);
  for (int turn = 0; turn < 4; ++turn) {
    if (turn == 2) {
      ASSERT_TRUE(local.driver().Run(Session::UserTruncate{12}, screen).ok());
    }
    const std::vector<TokenId> more = TheTokenizer().Encode(" The cat", {.add_special = false});
    const auto committed = local.session().committed();
    std::vector<TokenId> prompt(committed.begin(), committed.end());
    prompt.insert(prompt.end(), more.begin(), more.end());
    ASSERT_TRUE(local.driver().Run(Session::UserAppend{more}, screen).ok());
    EXPECT_EQ(screen.Take(), Alone(prompt, {}, options.stops, false).text) << turn;
  }
  local.driver().Close();
  EXPECT_TRUE(local.session().ended());
}

TEST(LocalSessionTest, TheContextEndsAReplyAndSaysSo) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.stops.at_end_of_generation = false;
  const Written alone = Alone(options.prompt, {}, options.stops, false);
  ASSERT_EQ(alone.tokens.size(), kContext + 1);
  for (const PolicyKind kind : {PolicyKind::kChain, PolicyKind::kOurs, PolicyKind::kLever}) {
    LocalSession local(options, Good(), kind);
    Screen screen;
    ASSERT_TRUE(local.driver().Run(Session::Start{}, screen).ok());
    EXPECT_EQ(screen.Take(), alone.text) << PolicyName(kind);
    EXPECT_EQ(local.driver().finish(), v1::FINISH_LENGTH);
  }
}

TEST(LocalSessionTest, AnInterruptedReplyIsABeginningOfTheText) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  const std::string alone = Alone(options.prompt, {}, options.stops, false).text;
  LocalSession local(options, Good(), PolicyKind::kOurs);
  Screen screen;
  screen.Interrupt();
  ASSERT_TRUE(local.driver().Run(Session::Start{}, screen).ok());
  EXPECT_FALSE(local.session().replying());
  EXPECT_TRUE(alone.starts_with(screen.Take()));
}

// Each with a draft, and a pool for it, of its own.
TEST(LocalSessionTest, FourAtOnceWriteAsOne) {
  struct User {
    SessionOptions options;
    std::string alone;
    const StoriesModel draft = StoriesModel(DamagedStories());
    std::thread thread = {};
  };
  std::vector<std::unique_ptr<User>> users;
  for (const char* prompt : {"Once upon a time", "The dog", "Lily had a red ball.", "Tom"}) {
    auto user = std::make_unique<User>();
    SessionOptions& options = user->options;
    options.prompt = TheTokenizer().Encode(prompt);
    options.stops.max_tokens = 60;
    if (users.size() % 2 == 1) options.sampling = Sampled(users.size());
    user->alone = Alone(options.prompt, options.sampling, options.stops, false).text;
    users.push_back(std::move(user));
  }
  LocalHost host(/*sequence_count=*/4);
  for (size_t i = 0; i < users.size(); ++i) {
    users[i]->thread = std::thread([&host, &user = *users[i], i] {
      LocalVerifier verifier(host.driver(), {});
      DraftedSession drafted(user.options, user.draft, kPolicyKinds[i], verifier);
      Screen screen;
      ASSERT_TRUE(drafted.driver().Run(Session::Start{}, screen).ok());
      EXPECT_EQ(screen.Take(), user.alone);
    });
  }
  for (const auto& user : users) user->thread.join();
}

TEST(LocalSessionTest, ATokenizerOfAnotherFamilyIsRefused) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.tokenizer_fingerprint = "feed";
  LocalSession local(options, Good(), PolicyKind::kOurs);
  Screen screen;
  const absl::Status status = local.driver().Run(Session::Start{}, screen);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer is feed"));
}

}  // namespace
}  // namespace outrider
