// The verifier machine, event by event: sessions whose device leaves drafting to this side.
#include <map>
#include <string>
#include <utility>

#include "common/verification/machine/draft_here.h"
#include "common/verification/machine/verifier_machine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using StreamNumber = VerifierMachine::StreamNumber;

VerifierConfig WithDraft() {
  VerifierConfig config = SmallConfig();
  config.drafts = true;
  return config;
}

v1::ClientMessage LeavesDrafting(bool leaves) {
  v1::ClientMessage message;
  message.mutable_tune()->set_dry_policy(v1::DRY_POLICY_WAIT);
  message.mutable_tune()->set_draft(leaves);
  return message;
}

class DraftingHere : public ::testing::Test {
 protected:
  // Its prompt is read, and its first job has been asked for.
  StreamNumber OpenDrafted(std::string_view prompt) {
    auto open = OpenOf(1, prompt);
    open.mutable_open()->set_draft(true);
    const StreamNumber stream = world_.Connect();
    world_.Send(stream, open);
    world_.Runs();
    world_.News(stream);
    return stream;
  }

  DraftJob TakeJob() {
    EXPECT_THAT(world_.drafts, SizeIs(1));
    DraftJob job = std::move(world_.drafts.front());
    world_.drafts.clear();
    return job;
  }

  void Answer(const DraftJob& job, std::span<const TokenId> chain) {
    world_.Tell(VerifierMachine::Drafted{job.session, chain, {}});
  }

  std::vector<v1::Verdict> RunAndHear(StreamNumber stream) {
    world_.Runs();
    return VerdictsOf(world_.News(stream));
  }

  VerifierWorld world_{WithDraft()};
};

TEST_F(DraftingHere, APassWaitsForTheDraftAndTheVerdictHasThePath) {
  const StreamNumber stream = OpenDrafted("once");
  const DraftJob job = TakeJob();
  EXPECT_EQ(job.known_count, 0u);
  EXPECT_THAT(job.tokens, ElementsAreArray(Tokens("once")));
  EXPECT_EQ(job.reply_begin, 4u);
  EXPECT_TRUE(job.chooser.has_value());
  EXPECT_EQ(job.token_count_max, DraftHere::kChain);
  EXPECT_EQ(world_.Runs(), 0u);

  std::vector<TokenId> chain = ScriptedText(Tokens("once"), 4);
  const TokenId fourth = std::exchange(chain[3], '!');
  Answer(job, chain);
  const auto verdicts = RunAndHear(stream);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_THAT(verdicts[0].path(), ElementsAre(chain[0], chain[1], chain[2]));
  EXPECT_EQ(verdicts[0].leaf_back(), 0u);
  EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(fourth));
  EXPECT_EQ(verdicts[0].nodes(), 4u);
  EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter("once", 4)));

  const DraftJob next = TakeJob();
  EXPECT_EQ(next.known_count, 4u);
  EXPECT_THAT(next.tokens, ElementsAreArray(ScriptedText(Tokens("once"), 4)));
  EXPECT_FALSE(next.chooser.has_value());
}

TEST_F(DraftingHere, ADraftThatKnowsNothingLetsTheTargetWriteAlone) {
  const StreamNumber stream = OpenDrafted("once");
  for (size_t i = 0; i < 3; ++i) {
    Answer(TakeJob(), {});
    const auto verdicts = RunAndHear(stream);
    ASSERT_THAT(verdicts, SizeIs(1));
    EXPECT_THAT(verdicts[0].path(), IsEmpty());
    EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter("once", i + 1)));
  }
}

TEST_F(DraftingHere, WhatTheDeviceHadGrownIsNotLost) {
  const StreamNumber stream = OpenSession(world_, 1, "once");
  auto text = ScriptedText(Tokens("once"), 8);
  world_.Send(stream, ChainOf(0, 1, std::span(text).first(2)));  // a pass begins over both
  world_.Send(stream, ChainOf(0, 3, Tokens("!")));
  world_.Send(stream, LeavesDrafting(true));
  const auto before = RunAndHear(stream);
  ASSERT_THAT(before, SizeIs(1));
  EXPECT_EQ(LeafOf(before[0]), 2u);
  Answer(TakeJob(), std::span(text).subspan(3, 2));
  auto verdicts = RunAndHear(stream);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_THAT(verdicts[0].path(), ElementsAre(text[3], text[4]));
  Answer(TakeJob(), std::span(text).subspan(6, 1));
  EXPECT_THAT(RunAndHear(stream), SizeIs(1));
}

// Growth that was sent before its device had heard of all that was written meanwhile.
TEST_F(DraftingHere, ADeviceDraftsAgainFromWhereItHasSeen) {
  const StreamNumber stream = OpenSession(world_, 1, "once");
  const auto text = ScriptedText(Tokens("once"), 9);
  world_.Send(stream, ChainOf(0, 1, std::span(text).first(1)));
  ASSERT_THAT(RunAndHear(stream), SizeIs(1));
  world_.Send(stream, LeavesDrafting(true));
  Answer(TakeJob(), std::span(text).subspan(2, 2));
  ASSERT_THAT(RunAndHear(stream), SizeIs(1));  // verdict 2, which the device has not seen yet
  const DraftJob job = TakeJob();
  world_.Send(stream, LeavesDrafting(false));
  world_.Send(stream, ChainOf(1, 2, std::span(text).subspan(2, 6)));
  const auto verdicts = RunAndHear(stream);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(LeafOf(verdicts[0]), 7u);
  EXPECT_EQ(verdicts[0].next(), static_cast<uint32_t>(text[8]));
  Answer(job, std::span(text).subspan(5, 1));  // too late, and nobody's
  EXPECT_EQ(world_.Runs(), 0u);
}

TEST_F(DraftingHere, ATuneWaitsForThePassThatIsUnderWay) {
  const StreamNumber stream = OpenDrafted("once");
  const auto text = ScriptedText(Tokens("once"), 4);
  Answer(TakeJob(), std::span(text).first(2));
  world_.Send(stream, LeavesDrafting(false));
  EXPECT_FALSE(world_.line(stream).can_send);
  const auto verdicts = RunAndHear(stream);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_THAT(verdicts[0].path(), ElementsAre(text[0], text[1]));
  EXPECT_TRUE(world_.line(stream).can_send);
}

TEST_F(DraftingHere, GrowthMeanwhileIsRefused) {
  const StreamNumber stream = OpenDrafted("once");
  world_.Send(stream, ChainOf(0, 1, Tokens("x")));
  EXPECT_EQ(FaultOf(world_, stream).kind(), v1::Fault::MALFORMED);
  EXPECT_THAT(FaultOf(world_, stream).message(), HasSubstr("while the server drafts"));
}

// Words without nodes, which crossed the Tune, are no harm, and start nothing.
TEST_F(DraftingHere, AGoMeanwhileIsPassedOver) {
  const StreamNumber stream = OpenDrafted("once");
  world_.Send(stream, GoOf(0));
  EXPECT_EQ(world_.Runs(), 0u);
  EXPECT_FALSE(world_.line(stream).ended.has_value());
}

TEST_F(DraftingHere, AnEditMakesAJobsAnswerUseless) {
  const StreamNumber stream = OpenDrafted("once upon");
  const DraftJob old = TakeJob();
  world_.Send(stream, TruncateOf(4));
  world_.Send(stream, AppendOf(4, " more"));
  world_.Runs();
  EXPECT_THAT(world_.drafts, IsEmpty());  // one at a time
  Answer(old, ScriptedText(Tokens("once upon"), 3));
  const DraftJob job = TakeJob();
  EXPECT_EQ(job.known_count, 4u);
  EXPECT_THAT(job.tokens, ElementsAreArray(Tokens(" more")));
  EXPECT_EQ(job.reply_begin, 9u);
  const auto text = ScriptedText(Tokens("once more"), 3);
  Answer(job, std::span(text).first(2));
  const auto verdicts = RunAndHear(stream);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_THAT(verdicts[0].path(), ElementsAre(text[0], text[1]));
}

TEST_F(DraftingHere, WhoeverResumesIsDraftedForAnew) {
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_draft(true);
  const StreamNumber first = world_.Connect();
  world_.Send(first, open);
  const v1::Opened opened = world_.News(first).at(0).opened();
  EXPECT_TRUE(opened.drafts());
  world_.Runs();
  const DraftJob job = TakeJob();
  world_.Close(first);
  const StreamNumber second = world_.Connect();
  v1::ClientMessage message;
  v1::Resume& resume = *message.mutable_resume();
  resume.set_session(opened.session());
  resume.set_token(opened.token());
  resume.set_attempt(2);
  world_.Send(second, message);
  // The text is the same, so what is being drafted for it is as good.
  const auto text = ScriptedText(Tokens("once"), 3);
  Answer(job, text);
  const auto verdicts = RunAndHear(second);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_THAT(verdicts[0].path(), SizeIs(3));
}

// Drafts that take longer than two runs and keep nothing, beside others: in the end nobody waits for them.
TEST_F(DraftingHere, WhoIsNotWorthItsTimeIsNotDraftedFor) {
  OpenDrafted("once");
  OpenDrafted("twice");
  uint64_t jobs = 0;
  for (int i = 0; i < 100; ++i) {
    for (const DraftJob& job : std::exchange(world_.drafts, {})) {
      ++jobs;
      world_.Tell(
          VerifierMachine::Drafted{job.session, Tokens("!?"), std::chrono::milliseconds(50)});
    }
    world_.Runs(1);
  }
  EXPECT_LT(jobs, 40u);
  EXPECT_EQ(world_.machine().stats().writing.passes, 100u);
}

// Two chains of 3 ms each, and runs of 20: the second is worth the wait.
TEST(DraftingHereBesideOthers, ARunBeginsWithTheChainsThatAreDueSoon) {
  VerifierWorld world(WithDraft());
  for (uint64_t nonce : {1, 2}) {
    auto open = OpenOf(nonce, nonce == 1 ? "once" : "there was a king who had a daughter");
    open.mutable_open()->set_draft(true);
    world.Send(world.Connect(), open);
    world.Runs();
  }
  std::map<uint64_t, std::vector<TokenId>> texts;
  const auto answer = [&](const DraftJob& job) {
    std::vector<TokenId>& text = texts[job.session];
    text.insert(text.end(), job.tokens.begin(), job.tokens.end());
    const std::vector<TokenId> chain = ScriptedText(text, 2);
    world.Tell(VerifierMachine::Drafted{job.session, chain, std::chrono::milliseconds(3)});
  };
  // Until it is known how long jobs and runs take, and both are worth drafting for.
  for (int i = 0; i < 40 && (i < 20 || world.drafts.size() < 2); ++i) {
    for (const DraftJob& job : std::exchange(world.drafts, {})) answer(job);
    world.Pass(std::chrono::milliseconds(10));
    world.Runs();
  }
  const auto jobs = std::exchange(world.drafts, {});
  ASSERT_THAT(jobs, SizeIs(2));
  world.Pass(std::chrono::milliseconds(3));
  answer(jobs[0]);
  EXPECT_EQ(world.run(), nullptr);
  EXPECT_LE(*world.timer() - world.clock().Now(), std::chrono::milliseconds(6));
  world.Pass(std::chrono::milliseconds(2));
  answer(jobs[1]);
  ASSERT_NE(world.run(), nullptr);
  EXPECT_THAT(world.run()->works, SizeIs(2));
}

// Chains of a moment's work that are right, but come two runs late each time: two tokens for one.
TEST_F(DraftingHere, WhoseChainsMissTheRunsOfOthersIsDraftedForSeldom) {
  OpenDrafted("once");
  const StreamNumber other = world_.Connect();
  world_.Send(other, OpenOf(2, "twice"));
  world_.Runs();
  std::vector<TokenId> text;
  uint32_t seen = 0;
  uint32_t jobs = 0;
  for (uint32_t run = 0; run < 150; ++run) {
    seen += static_cast<uint32_t>(VerdictsOf(world_.News(other)).size());
    world_.Send(other, GoOf(seen));
    if (run % 3 == 2) {
      for (const DraftJob& job : std::exchange(world_.drafts, {})) {
        ++jobs;
        text.insert(text.end(), job.tokens.begin(), job.tokens.end());
        const std::vector<TokenId> chain = ScriptedText(text, 1);
        world_.Tell(VerifierMachine::Drafted{job.session, chain, std::chrono::microseconds(100)});
      }
    }
    world_.Pass(std::chrono::milliseconds(1));  // longer than anybody is waited for
    ASSERT_EQ(world_.Runs(1), 1u);
  }
  EXPECT_GT(jobs, 5u);
  EXPECT_LT(jobs, 30u);
}

TEST_F(DraftingHere, ASessionThatEndsIsForgotten) {
  const StreamNumber stream = OpenDrafted("once");
  const DraftJob job = TakeJob();
  world_.Send(stream, CloseOf());
  EXPECT_THAT(world_.forgotten, ElementsAre(job.session));
  Answer(job, Tokens("x"));
  world_.Runs();
  EXPECT_EQ(world_.machine().stats().writing.passes, 0u);
}

TEST_F(DraftingHere, NothingIsAskedPastTheEndOfAReply) {
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_draft(true);
  open.mutable_open()->mutable_stops()->set_max_tokens(3);
  const StreamNumber stream = world_.Connect();
  world_.Send(stream, open);
  world_.Runs();
  Answer(TakeJob(), ScriptedText(Tokens("once"), 4));
  const auto verdicts = RunAndHear(stream);
  ASSERT_THAT(verdicts, SizeIs(1));
  EXPECT_EQ(verdicts[0].finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_THAT(verdicts[0].path(), SizeIs(2));
  EXPECT_THAT(world_.drafts, IsEmpty());
}

TEST_F(DraftingHere, AChainEndsWithTheContext) {
  std::string prompt(250, 'p');
  const StreamNumber stream = OpenDrafted(prompt);
  size_t length = prompt.size();
  while (length <= 256) {
    std::vector<TokenId> before = Tokens(TextAfter(prompt, length - prompt.size()));
    if (!world_.drafts.empty()) Answer(TakeJob(), ScriptedText(before, 4));
    const auto verdicts = RunAndHear(stream);
    ASSERT_THAT(verdicts, SizeIs(1));
    length += 1 + static_cast<size_t>(verdicts[0].path_size());
    EXPECT_EQ(verdicts[0].hash(), HashOf(TextAfter(prompt, length - prompt.size())));
  }
  EXPECT_EQ(length, 257u);
}

TEST(DraftingHereWithoutADraft, IsRefusedInASentence) {
  VerifierWorld world;
  auto open = OpenOf(1, "once");
  open.mutable_open()->set_draft(true);
  const StreamNumber stream = world.Connect();
  world.Send(stream, open);
  EXPECT_EQ(FaultOf(world, stream).kind(), v1::Fault::MALFORMED);
  EXPECT_THAT(FaultOf(world, stream).message(), HasSubstr("has no draft"));

  const StreamNumber other = OpenSession(world, 2, "once");
  world.Send(other, LeavesDrafting(true));
  EXPECT_THAT(FaultOf(world, other).message(), HasSubstr("has no draft"));
}

}  // namespace
}  // namespace outrider
