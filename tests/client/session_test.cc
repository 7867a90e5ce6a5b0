// Laws of the session machine: in random worlds, where only the seed decides what happens next, and
// one by one against a server whose every message is written out here.
#include "client/session/session.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/speculation/chain_policy.h"
#include "common/speculation/policies.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/client/session_world.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr uint32_t kContext = 160;

const Oracle& TheOracle() {
  static const Oracle& oracle = *new Oracle();
  return oracle;
}

std::unique_ptr<TreePolicy> PolicyOf(uint64_t seed) {
  constexpr PolicyKind kKinds[] = {PolicyKind::kChain,   PolicyKind::kFsd,   PolicyKind::kLlmcad,
                                   PolicyKind::kEdgellm, PolicyKind::kLever, PolicyKind::kOurs,
                                   PolicyKind::kAwaited};
  return MakePolicy({.kind = kKinds[seed % std::size(kKinds)], .gamma = 3});
}

// --- random worlds ---

SessionWorld::Options World(uint64_t seed) {
  SessionWorld::Options options;
  options.seed = seed;
  options.skill_percent = static_cast<uint32_t>(seed * 7 % 101);
  options.session.prompt = {'a', 'b', static_cast<TokenId>('a' + seed % 3)};
  options.session.length_max = kContext;
  options.session.sketch.node_count_max = 32;
  options.session.continues_text = seed % 3 == 0;
  options.session.stops.max_tokens = 60;
  if (seed % 4 == 0) options.session.stops.strings = {"a ", "cdb"};
  if (seed % 5 == 0) options.session.stops = {};
  if (seed % 6 == 0) options.session.dry_policy = v1::DRY_POLICY_ALONE;
  // However long everything breaks, it does not give up.
  options.session.link.first_patience = options.session.link.patience = std::chrono::hours(24);
  options.limits = {.vocabulary_size = TheOracle().tokenizer().vocabulary_size(),
                    .context_length = kContext,
                    .pass_nodes_max = 8,
                    .sketch_nodes_max = static_cast<uint32_t>(seed % 7 == 0 ? 16 : 32)};
  return options;
}

void RunWorld(const SessionWorld::Options& options) {
  SCOPED_TRACE(Concat("seed ", options.seed));
  const auto policy = PolicyOf(options.seed);
  SessionWorld world(options, TheOracle(), *policy);
  world.Start();
  world.RunReply();
  if (::testing::Test::HasFailure()) return;
  ASSERT_FALSE(world.end()) << *world.end();
  ASSERT_EQ(world.shown(), world.expected().text);
}

TEST(SessionTest, WritesWhatTheTargetAloneWould) {
  for (uint64_t seed = 1; seed <= 500 && !HasFailure(); ++seed) RunWorld(World(seed));
}

TEST(SessionTest, LosesAndRepeatsNothingWhateverBreaks) {
  for (uint64_t seed = 1; seed <= 3000 && !HasFailure(); ++seed) {
    SessionWorld::Options options = World(seed);
    options.faults_percent = 1 + seed % 8;
    RunWorld(options);
  }
}

TEST(SessionTest, ADrafterThatFailsCostsNoToken) {
  for (uint64_t seed = 1; seed <= 100 && !HasFailure(); ++seed) {
    SessionWorld::Options options = World(seed);
    options.drafter_fails = true;
    RunWorld(options);
  }
}

// Turns follow one another, some replies are cut short, parts are forgotten, and all the while
// streams break: every reply is what the target alone writes after what then stands before it.
TEST(SessionTest, EveryTurnIsWhatTheTargetAloneWouldWrite) {
  for (uint64_t seed = 1; seed <= 1000 && !HasFailure(); ++seed) {
    SCOPED_TRACE(Concat("seed ", seed));
    SessionWorld::Options options = World(seed);
    options.session.stops.max_tokens = 12;
    options.faults_percent = seed % 3 == 0 ? 0 : seed % 6;
    const auto policy = PolicyOf(seed);
    SessionWorld world(options, TheOracle(), *policy);
    world.Start();
    for (int turn = 0; turn < 8 && !HasFailure(); ++turn) {
      for (uint64_t moves = seed % 40; moves > 0 && world.session().replying(); --moves)
        world.Move();
      if (turn % 3 == 0) world.Interrupt();
      world.RunReply();
      if (HasFailure()) return;
      ASSERT_FALSE(world.end()) << *world.end();
      if (turn % 3 != 2) world.Say();
      if (turn % 4 == 3) world.Interrupt();
    }
  }
}

// --- one by one ---

// Whatever is drafted joins, and goes up at once; then the newest node is grown.
class EagerPolicy final : public TreePolicy {
 public:
  std::string_view name() const override { return "eager"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override {
    for (uint32_t i = 0; i < draft.candidates.size(); ++i) candidates.push_back(i);
  }
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override {
    const auto newest = static_cast<uint32_t>(draft.nodes.size() - 1);
    if (draft.nodes[newest].children == DraftNode::Children::kUnknown) batch.push_back({newest, 1});
  }
  Sending Send(const DraftView&, bool) override { return Sending::kSend; }
};

// A session whose verifier is the test itself. Actions are kept by kind until they are asked for.
class ScriptTest : public ::testing::Test {
 protected:
  using Grow = v1::Grow;

  void Begin(SessionOptions options = {}) {
    if (options.prompt.empty()) options.prompt = {'a', 'b', 'c'};
    auto session =
        Session::Create(std::move(options), {TheOracle().tokenizer(), *policy_, costs_,
                                             [this] { return bits_ += 0x9e3779b97f4a7c15; }});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    Handle(Session::Start{});
  }

  // Attached, with an answer that grants everything.
  void BeginAttached(SessionOptions options = {}) {
    Begin(std::move(options));
    ASSERT_TRUE(TakeUp().has_open());
    Opened();
  }

  void Handle(const Session::Event& event) {
    std::vector<Session::Action> actions;
    session_->Handle(event, now_, actions);
    for (Session::Action& action : actions) {
      if (auto* const open = std::get_if<Session::OpenStream>(&action)) stream_ = open->stream;
      if (auto* const send = std::get_if<Session::Send>(&action)) up_.push_back(*send->message);
      if (std::get_if<Session::CloseStream>(&action)) ++closed_;
      if (auto* const draft = std::get_if<Session::Draft>(&action)) batch_ = draft->batch;
      if (auto* const commit = std::get_if<Session::Commit>(&action)) {
        text_ += commit->text;
        finish_ = commit->finish;
      }
      if (auto* const timer = std::get_if<Session::SetTimer>(&action)) timer_ = timer->at;
      if (auto* const report = std::get_if<Session::Report>(&action)) {
        reports_.push_back(std::string(Message(report->status)));
      }
      if (auto* const end = std::get_if<Session::End>(&action)) end_ = end->status;
    }
  }

  // The one message that was sent; the stream takes it, and whatever comes of that stays.
  v1::ClientMessage TakeUp() {
    EXPECT_EQ(up_.size(), 1u);
    if (up_.empty()) return {};
    const v1::ClientMessage message = up_.front();
    up_.clear();
    Handle(Session::Written{stream_});
    return message;
  }

  void Down(const v1::ServerMessage& message) { Handle(Session::Received{stream_, message}); }

  void Opened() {
    v1::ServerMessage message;
    v1::Opened& opened = *message.mutable_opened();
    opened.set_session("name");
    opened.set_token(Concat("token ", ++tokens_));
    opened.set_pass_nodes(16);
    opened.set_sketch_nodes_max(256);
    opened.set_numerics_id(numerics_id_);
    Down(message);
  }

  // The server has what the device has, and then `more`.
  v1::ServerMessage ResumedMessage(const std::vector<TokenId>& tokens, size_t known) {
    v1::ServerMessage message;
    v1::Resumed& resumed = *message.mutable_resumed();
    resumed.set_token(Concat("token ", ++tokens_));
    resumed.set_length(static_cast<uint32_t>(tokens.size()));
    resumed.set_hash(HashOf(tokens));
    for (size_t i = known; i < tokens.size(); ++i) {
      resumed.add_tokens(static_cast<uint32_t>(tokens[i]));
    }
    resumed.set_verdict(verdicts_);
    return message;
  }

  static uint64_t HashOf(std::span<const TokenId> tokens) {
    TokenHistory history(
        {.vocabulary_size = TheOracle().tokenizer().vocabulary_size(), .capacity = tokens.size()});
    OUTRIDER_CHECK_OK(history.Append(tokens));
    return history.hash();
  }

  // That commits `path` (down to node `leaf`) and `next`, as it would be now.
  v1::ServerMessage VerdictMessage(NodeId leaf, std::string_view path, char next) {
    std::vector<TokenId> tokens = Committed();
    tokens.insert(tokens.end(), path.begin(), path.end());
    tokens.push_back(next);
    v1::ServerMessage message;
    v1::Verdict& verdict = *message.mutable_verdict();
    verdict.set_number(++verdicts_);
    verdict.set_leaf(leaf);
    verdict.set_next(static_cast<uint32_t>(next));
    verdict.set_length(static_cast<uint32_t>(tokens.size()));
    verdict.set_hash(HashOf(tokens));
    return message;
  }

  void Fault(v1::Fault::Kind kind, const std::string& sentence, uint32_t retry_ms = 0) {
    v1::ServerMessage message;
    message.mutable_fault()->set_kind(kind);
    message.mutable_fault()->set_message(sentence);
    message.mutable_fault()->set_retry_ms(retry_ms);
    Down(message);
  }

  // The drafter proposes this letter below the tip of the chain it was asked about.
  void Drafted(char letter) {
    const Proposal proposal = {letter, 0.9};
    const std::span<const Proposal> children(&proposal, 1);
    Handle(Session::Drafted{batch_, {&children, 1}, absl::OkStatus()});
  }

  // The policy of these tests sends three in a row.
  Grow SendChain(std::string_view letters) {
    for (const char letter : letters) Drafted(letter);
    return TakeUp().grow();
  }

  void Lose() { Handle(Session::StreamDown{stream_, absl::UnavailableError("no route")}); }
  void Wait(Duration duration) {
    now_ += duration;
    Handle(Session::TimerFired{});
  }
  void AwaitRetry() {
    now_ = std::max(now_, timer_);
    Handle(Session::TimerFired{});
  }

  std::vector<TokenId> Committed() const {
    return {session_->committed().begin(), session_->committed().end()};
  }
  static std::vector<TokenId> Tokens(std::string_view text) { return {text.begin(), text.end()}; }

  ChainPolicy chain_{3};
  EagerPolicy eager_;
  TreePolicy* policy_ = &chain_;
  CostModel costs_;
  uint64_t bits_ = 0;
  std::unique_ptr<Session> session_;
  MonotonicTime now_ = {};
  MonotonicTime timer_ = {};
  uint64_t stream_ = 0;
  std::vector<v1::ClientMessage> up_;
  int closed_ = 0;
  uint64_t batch_ = 0;
  std::string text_;
  v1::Finish finish_ = v1::FINISH_NONE;
  std::vector<std::string> reports_;
  std::optional<absl::Status> end_;
  std::string numerics_id_ = "one";
  uint32_t tokens_ = 0;
  uint32_t verdicts_ = 0;
};

// So that a server may tell which of them counts, in whatever order they come.
TEST_F(ScriptTest, EveryStreamSaysWhichAttemptItIs) {
  Begin();
  EXPECT_EQ(TakeUp().open().attempt(), 1u);
  Lose();
  AwaitRetry();
  EXPECT_EQ(TakeUp().open().attempt(), 2u);
  Opened();
  for (const uint32_t attempt : {3, 4}) {
    Lose();
    AwaitRetry();
    EXPECT_EQ(TakeUp().resume().attempt(), attempt);
  }
  Fault(v1::Fault::UNKNOWN_SESSION, "who is that");
  EXPECT_EQ(TakeUp().open().attempt(), 5u);
}

TEST_F(ScriptTest, AnOpenThatWasNotAnsweredIsAskedAgainWithTheSameNonce) {
  SessionOptions options;
  options.sampling.temperature = 0.5;
  options.stops.strings = {"stop"};
  options.continues_text = true;
  options.tokenizer_fingerprint = "feed";
  Begin(options);
  const v1::Open first = TakeUp().open();
  EXPECT_EQ(first.prompt_size(), 3);
  EXPECT_EQ(first.reply_tokens(), 0u);
  EXPECT_EQ(first.sampling().temperature(), 0.5);
  EXPECT_EQ(first.stops().strings(0), "stop");
  EXPECT_TRUE(first.stops().continues_text());
  EXPECT_EQ(first.tokenizer_fingerprint(), "feed");
  Lose();
  AwaitRetry();
  v1::Open second = TakeUp().open();
  EXPECT_GT(second.attempt(), first.attempt());
  second.set_attempt(first.attempt());
  EXPECT_EQ(second.SerializeAsString(), first.SerializeAsString());
}

TEST_F(ScriptTest, WhatARepeatedOpenFindsWrittenIsCommitted) {
  Begin();
  TakeUp();
  Lose();
  AwaitRetry();
  TakeUp();
  v1::ServerMessage message;
  v1::Opened& opened = *message.mutable_opened();
  opened.set_session("name");
  opened.set_token("token");
  opened.set_sketch_nodes_max(256);
  opened.set_pass_nodes(16);
  for (const char letter : {'x', 'y'}) opened.add_tokens(static_cast<uint32_t>(letter));
  opened.set_verdict(2);
  Down(message);
  EXPECT_EQ(Committed(), Tokens("abcxy"));
  EXPECT_EQ(text_, "xy");
  verdicts_ = 2;
  Down(VerdictMessage(0, "", 'z'));
  EXPECT_EQ(text_, "xyz");
}

TEST_F(ScriptTest, GrowthNamesParentsAndDoubtsAsTheWireHasThem) {
  BeginAttached();
  const Grow grow = SendChain("xyz");
  EXPECT_EQ(grow.first_id(), 1u);
  EXPECT_EQ(grow.seen(), 0u);
  ASSERT_EQ(grow.tokens_size(), 3);
  EXPECT_EQ(grow.tokens(1), static_cast<uint32_t>('y'));
  EXPECT_EQ(grow.links(0) / 16, 0u);  // the root, as of the first
  EXPECT_EQ(grow.links(1) / 16, 1u);  // the node before
  EXPECT_EQ(grow.links(2) / 16, 1u);
  EXPECT_TRUE(grow.go());
}

TEST_F(ScriptTest, AVerdictCommitsThePathAndWhatComesNext) {
  BeginAttached();
  SendChain("xyz");
  Down(VerdictMessage(2, "xy", 'q'));
  EXPECT_EQ(Committed(), Tokens("abcxyq"));
  EXPECT_EQ(text_, "xyq");
  EXPECT_EQ(session_->stats().nodes_accepted, 2u);
  EXPECT_EQ(session_->stats().passes, 1u);
}

TEST_F(ScriptTest, ANodeThatTheServerDoesNotKnowYetLivesOn) {
  policy_ = &eager_;
  BeginAttached();
  for (const char letter : {'x', 'y', 'z'}) SendChain({&letter, 1});
  // The pass has taken x alone: next is y, and the server says it has no such node.
  Down(VerdictMessage(1, "x", 'y'));
  // z is a child of the root now, and what is drafted below it is sent as such.
  const Grow more = SendChain("p");
  EXPECT_EQ(more.seen(), 1u);
  EXPECT_EQ(more.first_id(), 4u);
  EXPECT_EQ(more.links(0) / 16, 1u);  // below node 3, which is z
}

TEST_F(ScriptTest, AVerdictIsTakenOnce) {
  BeginAttached();
  const v1::ServerMessage verdict = VerdictMessage(0, "", 'x');
  Down(verdict);
  Down(verdict);
  EXPECT_EQ(text_, "x");
  EXPECT_EQ(closed_, 0);
}

// What cannot be true is not shown; attaching anew says what is.
TEST_F(ScriptTest, AVerdictThatDoesNotAddUpIsRefused) {
  const auto refused = [&](const std::function<void(v1::Verdict&)>& spoil) {
    verdicts_ = 0;
    BeginAttached();
    SendChain("xyz");
    v1::ServerMessage message = VerdictMessage(1, "x", 'q');
    spoil(*message.mutable_verdict());
    const int closed = closed_;
    Down(message);
    EXPECT_EQ(closed_, closed + 1);
    EXPECT_EQ(Committed(), Tokens("abc"));
    AwaitRetry();
    const v1::Resume resume = TakeUp().resume();
    EXPECT_EQ(resume.length(), 3u);
    EXPECT_EQ(resume.hash(), HashOf(Tokens("abc")));
    Down(ResumedMessage(Tokens("abcxq"), 3));
    EXPECT_EQ(Committed(), Tokens("abcxq"));
    text_.clear();
  };
  refused([](v1::Verdict& verdict) { verdict.set_hash(verdict.hash() + 1); });
  refused([](v1::Verdict& verdict) { verdict.set_length(verdict.length() + 1); });
  refused([](v1::Verdict& verdict) { verdict.set_leaf(7); });
  refused([](v1::Verdict& verdict) { verdict.set_next(1000000); });
  refused([](v1::Verdict& verdict) { verdict.set_number(2); });
  refused([](v1::Verdict& verdict) { verdict.set_edits(1); });
}

TEST_F(ScriptTest, OneMessageIsWrittenAtATimeAndTheNextHasAllThatCameMeanwhile) {
  policy_ = &eager_;
  BeginAttached();
  Drafted('x');
  ASSERT_EQ(up_.size(), 1u);  // growth, being written
  Drafted('y');
  Drafted('z');
  EXPECT_EQ(up_.size(), 1u);
  up_.clear();
  Handle(Session::Written{stream_});
  ASSERT_EQ(up_.size(), 1u);
  EXPECT_EQ(up_[0].grow().tokens_size(), 2);
  EXPECT_EQ(up_[0].grow().first_id(), 2u);
}

TEST_F(ScriptTest, NothingIsShownPastAStop) {
  SessionOptions options;
  options.stops.strings = {"yz"};
  BeginAttached(options);
  SendChain("xyz");
  Down(VerdictMessage(3, "xyz", 'q'));  // a server that has not noticed
  EXPECT_EQ(text_, "x");
  EXPECT_EQ(Committed(), Tokens("abcxyz"));
  EXPECT_EQ(finish_, v1::FINISH_STOP_STRING);
  EXPECT_FALSE(session_->replying());
  EXPECT_EQ(TakeUp().truncate().length(), 6u);
  // It may have gone on meanwhile.
  Down(VerdictMessage(0, "", 'r'));
  EXPECT_EQ(Committed(), Tokens("abcxyz"));
  EXPECT_EQ(closed_, 0);
}

TEST_F(ScriptTest, WhichTokensEndAModelsTextIsTheServersToSay) {
  SessionOptions options;
  options.stops.strings = {"yq"};
  BeginAttached(options);
  const auto end = static_cast<char>('e');
  v1::ServerMessage verdict = VerdictMessage(0, "", end);
  verdict.mutable_verdict()->set_finish(v1::FINISH_END_TOKEN);
  Down(verdict);
  EXPECT_EQ(text_, "");  // an end token prints nothing
  EXPECT_EQ(finish_, v1::FINISH_END_TOKEN);
  EXPECT_EQ(Committed(), Tokens("abce"));
  EXPECT_FALSE(session_->replying());
}

TEST_F(ScriptTest, ANextTurnIsAppendedAndGrowthBeginsAnew) {
  BeginAttached();
  SendChain("xyz");
  v1::ServerMessage verdict = VerdictMessage(1, "x", 'q');
  verdict.mutable_verdict()->set_finish(v1::FINISH_LENGTH);
  Down(verdict);
  up_.clear();
  const auto turn = Tokens("hi");
  Handle(Session::UserAppend{turn});
  const v1::Append append = TakeUp().append();
  EXPECT_EQ(append.length(), 5u);
  EXPECT_EQ(append.tokens_size(), 2);
  EXPECT_FALSE(append.reply());
  EXPECT_TRUE(append.has_stops());
  const Grow grow = SendChain("uvw");
  EXPECT_EQ(grow.first_id(), 1u);
  EXPECT_EQ(grow.seen(), 1u);
  verdict = VerdictMessage(1, "u", 'p');
  verdict.mutable_verdict()->set_edits(1);
  Down(verdict);
  EXPECT_EQ(Committed(), Tokens("abcxqhiup"));
}

TEST_F(ScriptTest, VerdictsThatCrossedAnEditArePassedOver) {
  BeginAttached();
  SendChain("xyz");
  const v1::ServerMessage crossed = VerdictMessage(2, "xy", 'q');
  const auto turn = Tokens("hi");
  Handle(Session::UserAppend{turn});
  EXPECT_EQ(TakeUp().truncate().length(), 3u);
  EXPECT_EQ(TakeUp().append().length(), 3u);
  Down(crossed);
  EXPECT_EQ(Committed(), Tokens("abchi"));
  EXPECT_EQ(closed_, 0);
  v1::ServerMessage verdict = VerdictMessage(0, "", 'o');
  verdict.mutable_verdict()->set_edits(2);
  Down(verdict);
  EXPECT_EQ(Committed(), Tokens("abchio"));
}

TEST_F(ScriptTest, EditsThatWereLostAreToldWhenItAttaches) {
  BeginAttached();
  Down(VerdictMessage(0, "", 'x'));
  up_.clear();
  Handle(Session::Written{stream_});
  up_.clear();
  Handle(Session::UserTruncate{2});
  const auto turn = Tokens("uv");
  Handle(Session::UserAppend{turn});
  Lose();  // and with it what was being written
  up_.clear();
  AwaitRetry();
  const v1::Resume resume = TakeUp().resume();
  EXPECT_EQ(resume.length(), 2u);  // what no edit has touched
  EXPECT_EQ(resume.hash(), HashOf(Tokens("ab")));
  Down(ResumedMessage(Tokens("abcx"), 2));
  EXPECT_EQ(TakeUp().truncate().length(), 2u);
  const v1::Append append = TakeUp().append();
  EXPECT_EQ(append.length(), 2u);
  EXPECT_EQ(append.tokens_size(), 2);
  EXPECT_EQ(Committed(), Tokens("abuv"));
}

TEST_F(ScriptTest, WhatWasWrittenAloneIsAppended) {
  BeginAttached();
  Lose();
  up_.clear();
  const auto alone = Tokens("xy");
  Handle(Session::WroteAlone{alone, v1::FINISH_NONE});
  EXPECT_EQ(text_, "xy");
  AwaitRetry();
  EXPECT_EQ(TakeUp().resume().length(), 5u);
  Down(ResumedMessage(Tokens("abc"), 3));
  const v1::Append append = TakeUp().append();
  EXPECT_TRUE(append.reply());
  EXPECT_EQ(append.length(), 3u);
  EXPECT_EQ(append.tokens_size(), 2);
  EXPECT_FALSE(append.has_stops());
}

TEST_F(ScriptTest, WhatTheServerHasMoreOfIsCommitted) {
  BeginAttached();
  Down(VerdictMessage(0, "", 'x'));
  Lose();
  up_.clear();
  AwaitRetry();
  TakeUp();
  verdicts_ = 4;
  Down(ResumedMessage(Tokens("abcxpq"), 4));
  EXPECT_EQ(text_, "xpq");
  Down(VerdictMessage(0, "", 'r'));
  EXPECT_EQ(text_, "xpqr");
}

// Its last verdict was lost, or the context was full when nothing more came.
TEST_F(ScriptTest, AReplyThatEndedMeanwhileHasEnded) {
  for (const v1::Finish finish : {v1::FINISH_END_TOKEN, v1::FINISH_LENGTH}) {
    BeginAttached();
    Lose();
    up_.clear();
    AwaitRetry();
    TakeUp();
    v1::ServerMessage message = ResumedMessage(Tokens("abc"), 3);
    message.mutable_resumed()->set_finish(finish);
    Down(message);
    EXPECT_FALSE(session_->replying());
    EXPECT_EQ(finish_, finish);
    EXPECT_EQ(Committed(), Tokens("abc"));
    up_.clear();
  }
}

TEST_F(ScriptTest, ASessionThatTakesNoNodesIsNone) {
  Begin();
  TakeUp();
  v1::ServerMessage message;
  message.mutable_opened()->set_session("name");
  message.mutable_opened()->set_token("token");
  Down(message);
  EXPECT_EQ(closed_, 1);
  EXPECT_FALSE(end_);
}

TEST_F(ScriptTest, WhatWasDraftedMeanwhileIsSentInTheNewEpoch) {
  BeginAttached();
  SendChain("xyz");
  Lose();
  AwaitRetry();
  TakeUp();
  Down(ResumedMessage(Tokens("abc"), 3));
  const Grow grow = TakeUp().grow();
  EXPECT_EQ(grow.first_id(), 1u);
  EXPECT_EQ(grow.tokens_size(), 3);
}

TEST_F(ScriptTest, AVerifierThatHasForgottenItIsToldTheReplySoFar) {
  SessionOptions options;
  options.stops.max_tokens = 3;
  BeginAttached(options);
  Down(VerdictMessage(0, "", 'x'));
  up_.clear();
  Handle(Session::Written{stream_});
  up_.clear();
  Fault(v1::Fault::UNKNOWN_SESSION, "who?");
  const v1::Open open = TakeUp().open();
  EXPECT_EQ(open.prompt_size(), 4);
  EXPECT_EQ(open.reply_tokens(), 1u);
  EXPECT_EQ(open.stops().max_tokens(), 3u);
  EXPECT_EQ(session_->stats().reopenings, 1u);
  // Its target may be another one, and then that is said.
  numerics_id_ = "another";
  Opened();
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0], HasSubstr("from numerics id one to another"));
  verdicts_ = 0;
  Down(VerdictMessage(0, "", 'y'));
  EXPECT_EQ(text_, "xy");
}

TEST_F(ScriptTest, AnOverloadedVerifierIsAskedAgainWhenItSays) {
  SessionOptions options;
  options.link.first_patience = seconds(60);
  Begin(options);
  TakeUp();
  Fault(v1::Fault::OVERLOADED, "full", 5000);
  EXPECT_GE(timer_ - now_, milliseconds(5000));
  EXPECT_LE(timer_ - now_, milliseconds(5050));
  EXPECT_FALSE(end_);
  AwaitRetry();
  EXPECT_TRUE(TakeUp().has_open());
}

TEST_F(ScriptTest, FaultsThatNothingCanMendEndTheSessionInTheirWords) {
  const auto ends = [&](v1::Fault::Kind kind, absl::StatusCode code) {
    BeginAttached();
    end_.reset();
    Fault(kind, "so it is");
    ASSERT_TRUE(end_);
    EXPECT_EQ(end_->code(), code);
    EXPECT_THAT(std::string(Message(*end_)), HasSubstr("so it is"));
    EXPECT_TRUE(session_->ended());
    up_.clear();
  };
  ends(v1::Fault::MISMATCH, absl::StatusCode::kFailedPrecondition);
  ends(v1::Fault::MALFORMED, absl::StatusCode::kInvalidArgument);
  ends(v1::Fault::SUPERSEDED, absl::StatusCode::kAborted);
  ends(v1::Fault::TARGET, absl::StatusCode::kInternal);
  ends(static_cast<v1::Fault::Kind>(77), absl::StatusCode::kUnknown);
}

TEST_F(ScriptTest, BackOffGrowsAndPatienceEnds) {
  Begin();
  Duration least = milliseconds(25);
  for (int attempt = 0; !end_; ++attempt) {
    ASSERT_LT(attempt, 30);
    up_.clear();
    const MonotonicTime before = now_;
    Lose();
    if (end_) break;
    EXPECT_GE(timer_ - before, least) << attempt;
    EXPECT_LE(timer_ - before, 2 * least) << attempt;
    least = std::min<Duration>(2 * least, milliseconds(2500));
    AwaitRetry();
  }
  EXPECT_EQ(end_->code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(Message(*end_)), HasSubstr("no route"));
  EXPECT_LE(now_.time_since_epoch(), seconds(5));
}

TEST_F(ScriptTest, AVerifierThatDoesNotAnswerIsLeft) {
  Begin();
  TakeUp();
  Wait(seconds(19));
  EXPECT_EQ(closed_, 0);
  Wait(seconds(2));
  EXPECT_EQ(closed_, 1);
  EXPECT_TRUE(end_);  // patience was shorter

  SessionOptions options;
  options.link.first_patience = seconds(100);
  end_.reset();
  up_.clear();
  Begin(options);
  TakeUp();
  Wait(seconds(21));
  EXPECT_FALSE(end_);
  AwaitRetry();
  EXPECT_TRUE(TakeUp().has_open());
}

TEST_F(ScriptTest, AVerifierThatIsSilentIsAskedAgain) {
  BeginAttached();
  SendChain("xyz");
  Wait(seconds(59));
  EXPECT_EQ(closed_, 0);
  v1::ServerMessage progress;
  progress.mutable_progress()->set_total(7);
  Down(progress);
  Wait(seconds(59));
  EXPECT_EQ(closed_, 0);
  Wait(seconds(2));
  EXPECT_EQ(closed_, 1);
  AwaitRetry();
  EXPECT_TRUE(TakeUp().has_resume());
}

TEST_F(ScriptTest, StatusesThatNothingCanMendEndTheSession) {
  Begin();
  Handle(Session::StreamDown{stream_, absl::UnauthenticatedError("no key")});
  ASSERT_TRUE(end_);
  EXPECT_EQ(end_->code(), absl::StatusCode::kUnauthenticated);
}

TEST_F(ScriptTest, StreamsOfThePastAreNotHeard) {
  BeginAttached();
  const uint64_t old = stream_;
  Lose();
  up_.clear();
  AwaitRetry();
  ASSERT_NE(stream_, old);
  const v1::ServerMessage verdict = VerdictMessage(0, "", 'x');
  Handle(Session::Received{old, verdict});
  Handle(Session::Written{old});
  Handle(Session::StreamDown{old, absl::UnavailableError("late")});
  EXPECT_EQ(Committed(), Tokens("abc"));
  EXPECT_FALSE(end_);
}

TEST_F(ScriptTest, ADraftOfThePastIsPassedOver) {
  BeginAttached();
  const uint64_t batch = batch_;
  const Proposal proposal = {'x', 0.9};
  const std::span<const Proposal> children(&proposal, 1);
  const auto turn = Tokens("hi");
  Handle(Session::UserAppend{turn});
  Handle(Session::Drafted{batch + 1, {&children, 1}, absl::OkStatus()});  // never asked for
  Handle(Session::Drafted{batch, {&children, 1}, absl::OkStatus()});      // of the reply before
  EXPECT_NE(batch_, batch);  // the new one was asked for
  TakeUp();
  TakeUp();
  const Grow grow = SendChain("uvw");
  EXPECT_EQ(grow.tokens(0), static_cast<uint32_t>('u'));
}

TEST_F(ScriptTest, AFailingDrafterIsReportedOnceAndTheTargetWritesOn) {
  BeginAttached();
  Handle(Session::Drafted{batch_, {}, absl::ResourceExhaustedError("no room")});
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0], HasSubstr("no room"));
  const Grow grow = TakeUp().grow();
  EXPECT_TRUE(grow.go());
  EXPECT_EQ(grow.tokens_size(), 0);
  Down(VerdictMessage(0, "", 'x'));
  Handle(Session::Drafted{batch_, {}, absl::ResourceExhaustedError("no room")});
  EXPECT_EQ(reports_.size(), 1u);
  EXPECT_TRUE(TakeUp().grow().go());
}

TEST_F(ScriptTest, FarewellIsSaidAndAwaitedButNotForEver) {
  BeginAttached();
  Handle(Session::UserClose{});
  EXPECT_TRUE(TakeUp().has_close());
  EXPECT_FALSE(end_);
  Handle(Session::StreamDown{stream_, absl::OkStatus()});
  ASSERT_TRUE(end_);
  EXPECT_TRUE(end_->ok());

  end_.reset();
  BeginAttached();
  Handle(Session::UserClose{});
  Wait(seconds(3));
  ASSERT_TRUE(end_);
  EXPECT_TRUE(end_->ok());
}

TEST_F(ScriptTest, TheRoundTripIsWhatIsLeftOfTheTimeSinceTheNodeWasSent) {
  BeginAttached();
  SendChain("xyz");
  for (uint32_t i = 1; i <= 9; ++i) {
    now_ += milliseconds(100);
    v1::ServerMessage message = VerdictMessage(0, "", 'q');
    message.mutable_verdict()->set_seen(3 * i);
    message.mutable_verdict()->mutable_times()->set_pass_us(20000);
    message.mutable_verdict()->mutable_times()->set_since_seen_us(30000);
    Down(message);
    SendChain("xyz");
  }
  EXPECT_NEAR(costs_.round_trip_ms(), 70, 1e-6);
}

TEST_F(ScriptTest, TurnsThatDoNotFitAreRefusedAndTheSessionGoesOn) {
  SessionOptions options;
  options.length_max = 8;
  BeginAttached(options);
  const auto long_turn = Tokens("123456");
  Handle(Session::UserAppend{long_turn});
  ASSERT_EQ(reports_.size(), 1u);
  EXPECT_THAT(reports_[0], HasSubstr("does not fit"));
  Handle(Session::UserAppend{{}});
  EXPECT_EQ(reports_.size(), 2u);
  Handle(Session::UserTruncate{9});
  EXPECT_EQ(reports_.size(), 3u);
  EXPECT_TRUE(session_->replying());
}

TEST_F(ScriptTest, OptionsThatCannotBeAreRefused) {
  const auto error_of = [&](SessionOptions options) {
    const auto session = Session::Create(std::move(options), {TheOracle().tokenizer(), *policy_,
                                                              costs_, [] { return uint64_t{1}; }});
    EXPECT_EQ(session.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(Message(session.status()));
  };
  EXPECT_THAT(error_of({}), HasSubstr("the prompt is empty"));
  EXPECT_THAT(error_of({.prompt = {1, 2, 3}, .length_max = 2}), HasSubstr("does not fit"));
  EXPECT_THAT(error_of({.prompt = {-1}}), HasSubstr("outside the vocabulary"));
  EXPECT_THAT(error_of({.prompt = {1}, .sampling = {.temperature = -1}}), HasSubstr("temperature"));
  EXPECT_THAT(error_of({.prompt = {1}, .stops = {.strings = {""}}}), HasSubstr("empty"));
}

}  // namespace
}  // namespace outrider
