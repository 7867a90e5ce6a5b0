// Real sessions in one process: a drafter on its thread, a target on the verifier's, and the
// machine between them.
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/driver/session_driver.h"
#include "client/session/session.h"
#include "client/verifier/local_verifier.h"
#include "common/kernels/isa.h"
#include "common/model/cpu_target.h"
#include "common/speculation/lm_drafter.h"
#include "common/speculation/policies.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kContext = 200;

struct StoriesModel {
  explicit StoriesModel(const std::string& path)
      : file(OrDie(ModelFile::Open(path))),
        spec(OrDie(ModelSpec::From(*file, path))),
        pool(OrDie(ThreadPool::Create(1))),
        weights(OrDie(ResidentWeights::Load(*file, spec, path, *pool, nullptr))) {}

  std::unique_ptr<ModelFile> file;
  ModelSpec spec;
  std::unique_ptr<ThreadPool> pool;  // the drafter's; the target has one of its own
  std::unique_ptr<ResidentWeights> weights;
};

const StoriesModel& Good() {
  static const StoriesModel& model = *new StoriesModel(Stories());
  return model;
}

const StoriesModel& Damaged() {
  static const StoriesModel& model = *new StoriesModel(DamagedStories());
  return model;
}

const Tokenizer& TheTokenizer() {
  static const Tokenizer& tokenizer =
      *OrDie(Tokenizer::Create(OrDie(Good().file->ReadTokenizer()))).release();
  return tokenizer;
}

std::unique_ptr<Target> NewTarget() {
  static ThreadPool& pool = *OrDie(ThreadPool::Create(1)).release();
  return OrDie(CpuTarget::Load(*Good().file, "stories",
                               {.context_length = kContext, .node_count_max = 32},
                               KernelsFor(BestIsa()), pool, nullptr));
}

struct Text {
  std::vector<TokenId> tokens;
  std::string text;
};

// What the target alone writes.
Text Alone(const std::vector<TokenId>& prompt, const SamplingOptions& sampling,
           const StopOptions& stops, bool continues_text) {
  const std::unique_ptr<Target> target = NewTarget();
  const Chooser chooser = OrDie(Chooser::Create(sampling, TheTokenizer().vocabulary_size()));
  const StopConditions conditions = OrDie(StopConditions::Create(stops, TheTokenizer()));
  TokenHistory history({.vocabulary_size = TheTokenizer().vocabulary_size(),
                        .capacity = kContext + 1,
                        .counts_tokens = sampling.penalizes()});
  OUTRIDER_CHECK_OK(history.Append(prompt));
  history.StartReply();
  Reply reply(conditions,
              continues_text ? std::span<const TokenId>(prompt) : std::span<const TokenId>());
  const SequenceId sequence = OrDie(target->CreateSequence());
  OUTRIDER_CHECK_OK(target->Prefill(sequence, prompt, nullptr));
  Text text;
  while (!reply.finish() && history.size() <= kContext) {
    const Pass pass = {sequence, {}, &chooser, &history};
    PassResult result;
    target->Run({&pass, 1}, {&result, 1});
    OUTRIDER_CHECK_OK(result.status);
    OUTRIDER_CHECK_OK(target->Commit(sequence, result.outcome));
    OUTRIDER_CHECK_OK(history.Append({&result.outcome.next, 1}));
    text.text += reply.Take({&result.outcome.next, 1}).text;
  }
  if (!reply.finish()) text.text += reply.Abandon();
  text.tokens.assign(history.tokens().begin(), history.tokens().end());
  return text;
}

class Screen final : public SessionDriver::Observer {
 public:
  void OnText(std::string_view text) override { text_ += text; }
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status& status) override { reports_.push_back(status); }
  bool Interrupted() override { return interrupted_ && !text_.empty(); }

  void Interrupt() { interrupted_ = true; }
  std::string Take() { return std::exchange(text_, {}); }
  const std::vector<absl::Status>& reports() const { return reports_; }

 private:
  std::string text_;
  std::vector<absl::Status> reports_;
  bool interrupted_ = false;
};

SamplingOptions Sampled(uint64_t seed) {
  SamplingOptions options;
  options.temperature = 0.9;
  options.top_p = 0.95;
  options.repetition_penalty = 1.1;
  options.frequency_penalty = 0.2;
  options.seed = seed;
  return options;
}

// All that a session in this process is made of.
class LocalSession {
 public:
  LocalSession(SessionOptions options, const StoriesModel& draft, PolicyKind kind)
      : sampling_(options.sampling),
        drafter_(OrDie(
            LmDrafter::Create(draft.spec, *draft.weights,
                              OrDie(Chooser::Create(sampling_, TheTokenizer().vocabulary_size())),
                              {}, KernelsFor(BestIsa()), *draft.pool))),
        policy_(MakePolicy({.kind = kind})),
        target_(NewTarget()),
        verifier_(*target_, TheTokenizer(), 64) {
    options.length_max = kContext;
    options.sketch.node_count_max = 64;
    session_ = OrDie(
        Session::Create(std::move(options), {TheTokenizer(), *policy_, costs_, [] { return 7; }}));
    driver_ = std::make_unique<SessionDriver>(
        *session_, *drafter_,
        TokenHistory::Options{.vocabulary_size = TheTokenizer().vocabulary_size(),
                              .capacity = kContext + 1,
                              .counts_tokens = sampling_.penalizes()},
        verifier_);
  }

  Session& session() { return *session_; }
  SessionDriver& driver() { return *driver_; }

 private:
  const SamplingOptions sampling_;
  std::unique_ptr<LmDrafter> drafter_;
  std::unique_ptr<TreePolicy> policy_;
  CostModel costs_;
  const std::unique_ptr<Target> target_;
  LocalVerifier verifier_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionDriver> driver_;
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
    const Text alone = Alone(options.prompt, options.sampling, options.stops, true);
    LocalSession local(options, damaged ? Damaged() : Good(), kind);
    Screen screen;
    ASSERT_TRUE(local.driver().Run(Session::Start{}, screen).ok());
    const auto committed = local.session().committed();
    EXPECT_EQ(std::vector(committed.begin(), committed.end()), alone.tokens);
    EXPECT_EQ(screen.Take(), alone.text);
    EXPECT_EQ(local.driver().finish(), v1::FINISH_TOKEN_LIMIT);
    EXPECT_TRUE(screen.reports().empty());
    // A draft that is the target is always right.
    const SessionStats& stats = local.session().stats();
    EXPECT_EQ(stats.tokens, 100u);
    if (!damaged && !sampled) {
      EXPECT_LE(stats.passes, 50u) << PolicyName(kind);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Policies, LosslessTest,
    ::testing::Combine(::testing::Values(PolicyKind::kChain, PolicyKind::kFsd, PolicyKind::kLlmcad,
                                         PolicyKind::kEdgellm, PolicyKind::kLever,
                                         PolicyKind::kOurs, PolicyKind::kAwaited),
                       ::testing::Bool(), ::testing::Bool()),
    [](const auto& which) {
      return std::string(PolicyName(std::get<0>(which.param))) +
             (std::get<1>(which.param) ? "_damaged" : "_same") +
             (std::get<2>(which.param) ? "_sampled" : "_greedy");
    });

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
  const Text alone = Alone(options.prompt, {}, options.stops, false);
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

TEST(LocalSessionTest, ATokenizerOfAnotherFamilyIsRefused) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.tokenizer_fingerprint = "feed";
  LocalSession local(options, Good(), PolicyKind::kOurs);
  Screen screen;
  const absl::Status status = local.driver().Run(Session::Start{}, screen);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("fingerprint feed"));
}

}  // namespace
}  // namespace outrider
