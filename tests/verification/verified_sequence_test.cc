// What an Open may say, what a prompt may hold, and what verdicts say.
#include "common/verification/verified_sequence.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/verification/verdict_message.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/text/small_specs.h"
#include "tests/verification/sequence_messages.h"

namespace outrider::verified {
namespace {

using ::testing::HasSubstr;

// --- what an Open may say ---

TEST(VerifiedSequence, AnOpenGetsWhatItAsksForWithinTheLimits) {
  v1::Open open = OpenOf("once");
  EXPECT_EQ(Make(open)->pass_nodes(), 15u);
  EXPECT_EQ(Make(open)->length_max(), 64u);
  open.set_pass_nodes(5);
  open.set_length_max(20);
  EXPECT_EQ(Make(open)->pass_nodes(), 5u);
  EXPECT_EQ(Make(open)->length_max(), 20u);
  open.set_pass_nodes(500);
  open.set_length_max(500);
  EXPECT_EQ(Make(open)->pass_nodes(), 15u);
  EXPECT_EQ(Make(open)->length_max(), 64u);
}

TEST(VerifiedSequence, SaysWhatItKeepsBecauseItWasAskedTo) {
  v1::Open open = OpenOf("once");
  EXPECT_EQ(Make(open)->bytes(), 65u * 12);
  open.set_length_max(20);
  EXPECT_EQ(Make(open)->bytes(), 21u * 12);
  open.mutable_sampling()->set_repetition_penalty(1.5);
  EXPECT_EQ(Make(open)->bytes(), 21u * (12 + 4) + 270 * 8);
  open.mutable_sampling()->clear_repetition_penalty();
  open.mutable_stops()->add_strings(std::string(1000, 'x'));
  const auto sequence = Make(open);
  EXPECT_EQ(sequence->bytes(), 21u * 12 + 1000 * 16);
  v1::Append append = AppendOf(4, "s", false);
  append.mutable_stops()->add_strings("x");
  ASSERT_TRUE(sequence->Append(append).ok());
  EXPECT_EQ(sequence->bytes(), 21u * 12 + 16);
}

TEST(VerifiedSequence, ABadOpenIsRefusedInASentence) {
  const auto error_of = [](const std::function<void(v1::Open&)>& spoil) {
    v1::Open open = OpenOf("once");
    spoil(open);
    return Error(VerifiedSequence::Create(open, Bytes(), kLimits).status());
  };
  EXPECT_EQ(error_of([](v1::Open& open) { open.clear_prompt(); }),
            "the prompt is empty; send at least one token");
  EXPECT_EQ(error_of([](v1::Open& open) { open.set_length_max(3); }),
            "a prompt of 4 tokens does not fit into the 3 of this session");
  EXPECT_EQ(
      error_of([](v1::Open& open) { open.mutable_prompt(0)->mutable_tokens()->set_ids(2, 270); }),
      "token 270 is outside the vocabulary of 0 to 269");
  EXPECT_EQ(error_of([](v1::Open& open) {
              open.mutable_prompt(0)->mutable_tokens()->set_ids(2, 0xffffffff);
            }),
            "token 4294967295 is outside the vocabulary of 0 to 269");
  EXPECT_EQ(error_of([](v1::Open& open) { open.set_reply_tokens(5); }),
            "a prompt of 4 tokens cannot end with 5 of the reply");
  EXPECT_THAT(error_of([](v1::Open& open) { open.mutable_sampling()->set_temperature(-1); }),
              HasSubstr("temperature is -1"));
  EXPECT_THAT(error_of([](v1::Open& open) { open.mutable_stops()->add_end_tokens(300); }),
              HasSubstr("token 300"));
  EXPECT_THAT(error_of([](v1::Open& open) { open.mutable_stops()->add_strings(""); }),
              HasSubstr("stop"));
}

// --- verdicts ---

TEST(VerifiedSequence, AVerdictSaysWhatThePassFoundAndHadSeen) {
  const auto sequence = Make("once");
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "abcd")).ok());
  sequence->BeginPass(2);
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 5, "e", {1 * 16})).ok());  // below d, during the pass
  v1::Verdict verdict;
  const Outcome kept = sequence->EndPass({1, 'c'}, verdict);
  EXPECT_EQ(kept.node, 1u);
  EXPECT_EQ(LeafOf(verdict), 2u);
  EXPECT_EQ(verdict.seen(), 4u);
  EXPECT_EQ(sequence->node_count(), 2u);  // d, e
  EXPECT_EQ(verdict.nodes(), 2u);
  EXPECT_EQ(verdict.hash(), VerdictHash(sequence->history().hash()));
}

// What is kept of a pass is what the target is asked to commit.
TEST(VerifiedSequence, APassIsCutWhereTheReplyEnds) {
  for (uint32_t limit = 1; limit <= 5; ++limit) {
    v1::Open open = OpenOf("once");
    open.mutable_stops()->set_max_tokens(limit);
    const auto sequence = Make(open);
    ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "abc")).ok());
    sequence->BeginPass(15);
    v1::Verdict verdict;
    const Outcome kept = sequence->EndPass({2, 'd'}, verdict);
    const uint32_t taken = std::min(limit, 4u);
    EXPECT_EQ(TextOf(*sequence), std::string("onceabcd").substr(0, 4 + taken));
    EXPECT_EQ(kept.node, taken == 1 ? DraftedNode::kRoot : taken - 2);
    EXPECT_EQ(kept.next, "abcd"[taken - 1]);
    EXPECT_EQ(LeafOf(verdict), taken - 1);
    EXPECT_EQ(verdict.finish(), limit <= 4 ? v1::FINISH_TOKEN_LIMIT : v1::FINISH_NONE);
    EXPECT_EQ(sequence->writing(), limit > 4);
  }
}

TEST(VerifiedSequence, ADroppedPassHasChangedNothing) {
  const auto sequence = Make("once");
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "ab")).ok());
  sequence->BeginPass(15);
  EXPECT_FALSE(sequence->writing());
  sequence->DropPass();
  EXPECT_TRUE(sequence->writing());
  EXPECT_EQ(sequence->verdict_count(), 0u);
  RunPass(*sequence, "abc");
  EXPECT_EQ(sequence->verdict_count(), 1u);
  EXPECT_EQ(TextOf(*sequence), "onceabc");
}

// --- parts of a prompt ---

TEST(VerifiedSequence, PartsOfTextAreOneText) {
  v1::Open open = OpenOf("on");
  open.add_prompt()->mutable_tokens()->add_ids('c');
  open.mutable_prompt(1)->mutable_tokens()->add_ids('e');
  EXPECT_EQ(TextOf(*Make(open)), "once");
}

TEST(VerifiedSequence, PartsThatATargetOfTextCannotTakeAreRefused) {
  const auto error_of = [](const std::function<void(v1::PromptPart&)>& fill) {
    v1::Open open = OpenOf("once");
    fill(*open.add_prompt());
    return VerifiedSequence::Create(open, Bytes(), kLimits).status();
  };
  EXPECT_THAT(error_of([](v1::PromptPart& part) { part.mutable_image()->set_width(3); }).message(),
              HasSubstr("takes no images"));
  EXPECT_THAT(
      error_of([](v1::PromptPart& part) { part.mutable_encoder_tokens()->add_ids('a'); }).message(),
      HasSubstr("has no encoder"));
  EXPECT_THAT(error_of([](v1::PromptPart&) {}).message(), HasSubstr("does not know"));
  EXPECT_THAT(error_of([](v1::PromptPart& part) {
                part.mutable_tokens()->add_ids('a');
                part.add_positions(1);
              }).message(),
              HasSubstr("leave out the 1 positions"));
}

// SentencePiece drops the space that a text begins with, but not the one a text goes on with.
TEST(VerifiedSequence, AContinuationsTextIsNotATextOfItsOwn) {
  static const std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::Create(SmallSentencePiece());
  const TokenId word = IdOf(tokenizer->spec(), "▁a");
  VerifiedSequence::Limits limits = kLimits;
  limits.vocabulary_size = tokenizer->vocabulary_size();
  for (const bool continues : {false, true}) {
    v1::Open open;
    SetPrompt(std::vector{word, word}, open);
    open.set_reply_tokens(1);
    open.mutable_stops()->add_strings(" a");
    open.mutable_stops()->set_continues_text(continues);
    const auto sequence = VerifiedSequence::Create(open, *tokenizer, limits);
    ASSERT_TRUE(sequence.ok()) << sequence.status();
    EXPECT_EQ((*sequence)->finish(), continues ? v1::FINISH_STOP_STRING : v1::FINISH_NONE);
  }
}

// --- cost ---

TEST(VerifiedSequence, SteadyStateDoesNotAllocate) {
  VerifiedSequence::Limits limits = kLimits;
  limits.context_length = 4000;
  v1::Open open = OpenOf("once");
  open.mutable_sampling()->set_temperature(0.5);
  open.mutable_sampling()->set_repetition_penalty(1.1);
  const auto sequence = *VerifiedSequence::Create(open, Bytes(), limits);
  v1::Grow grow = ChainOf(0, 1, "abcdef");
  v1::Verdict verdict;
  const auto round = [&](uint32_t number) {
    grow.set_seen(number);
    grow.set_first_id(1 + 6 * number);
    OUTRIDER_CHECK_OK(sequence->Grow(grow));
    sequence->BeginPass(15);
    sequence->EndPass({2, '.'}, verdict);
  };
  for (uint32_t number = 0; number < 10; ++number) round(number);
  const uint64_t before = AllocationCount();
  for (uint32_t number = 10; number < 110; ++number) round(number);
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace outrider::verified
