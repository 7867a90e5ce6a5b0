// What a session writes to the wire, and takes from it: one by one, against a server whose every
// message is written out here.
#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/session/session.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/client/session_script.h"
#include "tests/tokens/grown_nodes.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

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

TEST_F(ScriptTest, WhatWasSeenIsSaidEvenWhenThereIsNothingElseToSay) {
  // Nothing is drafted: the verifier goes on alone.
  BeginAttached();
  uint32_t seen = 0;
  for (uint32_t verdict = 1; verdict <= 12; ++verdict) {
    Down(VerdictMessage(0, "", 'd'));
    while (!up_.empty()) {
      const v1::ClientMessage message = TakeUp();
      if (message.has_grow()) seen = message.grow().seen();
    }
    EXPECT_LE(verdict - seen, 3u);
  }
  EXPECT_GE(seen, 10u);
}

TEST_F(ScriptTest, AnOpenThatWasNotAnsweredIsAskedAgainWithTheSameNonce) {
  SessionOptions options;
  options.sampling.temperature = 0.5;
  options.stops.strings = {"stop"};
  options.continues_text = true;
  options.tokenizer_fingerprint = "feed";
  Begin(options);
  const v1::Open first = TakeUp().open();
  EXPECT_EQ(first.prompt(0).tokens().ids_size(), 3);
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
  const std::vector<GrownNode> nodes = NodesOf(grow.nodes());
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[1].token, static_cast<uint32_t>('y'));
  EXPECT_EQ(nodes[0].step, 0u);  // the root, as of the first
  EXPECT_EQ(nodes[1].step, 1u);  // the node before
  EXPECT_EQ(nodes[2].step, 1u);
  EXPECT_TRUE(grow.go());
}

TEST_F(ScriptTest, GrowthLeavesOutWhatItsServerKnowsByItself) {
  policy_ = &eager_;
  growth_follows_ = true;
  BeginAttached();
  const Grow first = SendChain("x");
  EXPECT_EQ(first.first_id(), 0u);
  EXPECT_EQ(first.seen(), 0u);
  Down(VerdictMessage(1, "x", 'q'));
  const Grow answer = SendChain("p");
  EXPECT_EQ(answer.first_id(), 0u);
  EXPECT_EQ(answer.seen(), 1u);
  const Grow more = SendChain("r");
  EXPECT_EQ(more.first_id(), 0u);
  EXPECT_EQ(more.seen(), 0u) << "it has been said";
  EXPECT_EQ(NodesOf(more.nodes())[0].step, 1u);
}

TEST_F(ScriptTest, GrowthNamesTokensByTheirPlaceAmongThoseToldInItsEpoch) {
  policy_ = &eager_;
  BeginAttached();
  ToldTokens told;
  EXPECT_EQ(NodesOf(SendChain("x").nodes(), told)[0].token, static_cast<uint32_t>('x'));
  Down(VerdictMessage(0, "", 'q'));
  const Grow again = SendChain("x");
  ToldTokens nothing;
  GrowthReader stranger(again.nodes());
  EXPECT_FALSE(stranger.Next(nothing).ok()) << "it is told by its place";
  EXPECT_EQ(NodesOf(again.nodes(), told)[0].token, static_cast<uint32_t>('x'));
  Lose();
  AwaitRetry();
  ASSERT_TRUE(TakeUp().has_resume());
  Down(ResumedMessage(Committed(), Committed().size()));
  EXPECT_EQ(NodesOf(TakeUp().grow().nodes())[0].token, static_cast<uint32_t>('x')) << "an epoch";
}

// Else all but one of a device's workers would wait for an event to come.
TEST_F(ScriptTest, AsManyBatchesAreAskedForAtOnceAsMayBeInFlight) {
  policy_ = &node_by_node_;
  SessionOptions options;
  options.sketch.batch_count_max = 3;
  BeginAttached(std::move(options));
  ASSERT_EQ(asked_.size(), 1u) << "there is nothing but the root yet";
  const std::vector<Proposal> proposals = {{'x', 0.5}, {'y', 0.2}, {'z', 0.1}};
  const std::span<const Proposal> children(proposals);
  const auto answer = [&](uint64_t batch) {
    Handle(Session::Drafted{batch, {&children, 1}, absl::OkStatus()});
  };
  answer(batch_);
  ASSERT_EQ(asked_.size(), 4u);
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_EQ(asked_[1 + i].size(), 1u);
    EXPECT_EQ(asked_[1 + i][0].node, i) << "each batch has its own words";
  }
  answer(batch_ - 1);
  EXPECT_EQ(asked_.size(), 5u) << "two are in flight still";
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
  EXPECT_EQ(NodesOf(more.nodes())[0].step, 1u);  // below node 3, which is z
}

// A stream repeats nothing; if one did all the same, the hash would tell.
TEST_F(ScriptTest, AVerdictIsTakenOnce) {
  BeginAttached();
  const v1::ServerMessage verdict = VerdictMessage(0, "", 'x');
  Down(verdict);
  Down(verdict);
  EXPECT_EQ(text_, "x");
  EXPECT_EQ(closed_, 1);
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
  refused([](v1::Verdict& verdict) { verdict.set_seen(7); });       // its leaf is node 7
  refused([](v1::Verdict& verdict) { verdict.set_seen(0); });       // there is none
  refused([](v1::Verdict& verdict) { verdict.set_leaf_back(0); });  // the root
  refused([](v1::Verdict& verdict) { verdict.set_next(1000000); });
  refused([](v1::Verdict& verdict) { verdict.set_edits(1); });
  refused([](v1::Verdict& verdict) { verdict.add_path('x'); });  // below the leaf, which has one
  refused([](v1::Verdict& verdict) {
    verdict.set_leaf_back(0);
    verdict.add_path(1000000);
  });
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
  EXPECT_EQ(NodesOf(up_[0].grow().nodes()).size(), 2u);
  EXPECT_EQ(up_[0].grow().first_id(), 2u);
}

// The batch that is asked for last.
uint64_t BatchOf(std::span<const Session::Action> actions) {
  uint64_t batch = 0;
  for (const Session::Action& action : actions) {
    if (const auto* const draft = std::get_if<Session::Draft>(&action)) batch = draft->batch;
  }
  return batch;
}

bool SendsGrowth(std::span<const Session::Action> actions) {
  return std::ranges::any_of(actions, [](const Session::Action& action) {
    const auto* const send = std::get_if<Session::Send>(&action);
    return send != nullptr && !send->message->grow().nodes().empty();
  });
}

TEST_F(ScriptTest, WhileMoreIsAtHandNothingIsDraftedOrGrown) {
  BeginAttached();
  SendChain("xyz");
  asked_.clear();
  const v1::ServerMessage first = VerdictMessage(1, "x", 'q');
  Handle(Session::Received{stream_, first}, /*more_follow=*/true);
  EXPECT_EQ(Committed(), Tokens("abcxq"));
  EXPECT_TRUE(asked_.empty());
  EXPECT_TRUE(up_.empty());
  Down(VerdictMessage(0, "", 'r'));
  EXPECT_EQ(Committed(), Tokens("abcxqr"));
  EXPECT_EQ(asked_.size(), 1u);
  Drafted('s');
  Drafted('t');
  Drafted('u');
  EXPECT_EQ(TakeUp().grow().seen(), 2u);
}

// Nothing of it is copied, looked for or taken anew as the text gets longer.
TEST_F(ScriptTest, AVerdictIsAnsweredWithTheSameFewAllocationsHoweverLongTheText) {
  constexpr int kRounds = 40;  // until every message of the queue has been sent before
  policy_ = &eager_;
  const Proposal proposal = {'x', 0.9};
  const std::span<const Proposal> children(&proposal, 1);
  std::vector<Session::Action> actions;
  actions.reserve(16);
  const auto allocations_after = [&](size_t prompt_length) {
    verdicts_ = 0;
    SessionOptions options;
    options.prompt.assign(prompt_length, 'a');
    options.length_max = 5000;
    BeginAttached(std::move(options));
    uint64_t allocations = 0;
    for (int round = 0; round < kRounds; ++round) {
      const v1::ServerMessage verdict = VerdictMessage(0, "", 'd');
      actions.clear();
      const uint64_t before = AllocationCount();
      session_->Handle(Session::Received{stream_, verdict}, now_, actions);
      const uint64_t batch = BatchOf(actions);
      session_->Handle(Session::Drafted{batch, {&children, 1}, absl::OkStatus()}, now_, actions);
      allocations = AllocationCount() - before;
      EXPECT_TRUE(SendsGrowth(actions)) << round;
      session_->Handle(Session::Written{stream_}, now_, actions);
    }
    return allocations;
  };
  const uint64_t of_short_text = allocations_after(100);
  EXPECT_LE(of_short_text, 8u);
  EXPECT_EQ(allocations_after(4000), of_short_text);
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

TEST_F(ScriptTest, TheRoundTripIsWhatIsLeftOfTheTimeSinceTheNodeWasSent) {
  BeginAttached();
  SendChain("xyz");
  for (uint32_t i = 1; i <= 9; ++i) {
    now_ += milliseconds(100);
    v1::ServerMessage message = VerdictMessage(0, "", 'q');
    message.mutable_verdict()->set_seen(3 * i);
    message.mutable_verdict()->set_pass_us(20000);
    message.mutable_verdict()->set_since_seen_us(30000);
    Down(message);
    SendChain("xyz");
  }
  EXPECT_NEAR(costs_.round_trip_ms(), 70, 1e-6);
  // A pass of 20 ms within the 30 since the growth came: 10 it waited.
  EXPECT_NEAR(costs_.queue_ms(), 10, 1e-6);
}

// A draft that computes in the waits of its target is slow beside a pass, and is no dearer for that.
TEST_F(ScriptTest, WhatADraftTakesIsNotToldByBatchesThatWaitForAPass) {
  for (const bool in_waits : {true, false}) {
    costs_ = CostModel();
    SessionOptions options;
    options.sketch.drafts_in_waits = in_waits;
    policy_ = &eager_;
    BeginAttached(options);
    now_ += std::chrono::milliseconds(2);
    Drafted('d');  // goes up, and begins a pass
    for (const char letter : {'e', 'f', 'g'}) {
      now_ += std::chrono::milliseconds(50);
      Drafted(letter);
    }
    EXPECT_NEAR(costs_.DraftMs(1), in_waits ? 2 : 50, 1e-9);
    up_.clear();
  }
}

TEST_F(ScriptTest, OptionsThatCannotBeAreRefused) {
  FixedController controller(chain_);
  const auto error_of = [&](SessionOptions options) {
    const auto session = Session::Create(std::move(options), {TheOracle().tokenizer(), controller,
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
