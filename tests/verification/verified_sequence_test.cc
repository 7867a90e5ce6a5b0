#include "common/verification/verified_sequence.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/tokens/growth_bits.h"
#include "common/verification/verdict_message.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr VerifiedSequence::Limits kLimits = {
    .vocabulary_size = 270, .context_length = 64, .pass_nodes_max = 15, .sketch_nodes_max = 32};

const Tokenizer& Bytes() {
  static const std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::Create(SmallByteLevel());
  return *tokenizer;
}

v1::Open OpenOf(std::string_view prompt) {
  v1::Open open;
  SetPrompt(std::vector<TokenId>(prompt.begin(), prompt.end()), open);
  return open;
}

std::unique_ptr<VerifiedSequence> Make(const v1::Open& open) {
  auto sequence = VerifiedSequence::Create(open, Bytes(), kLimits);
  EXPECT_TRUE(sequence.ok()) << sequence.status();
  return *std::move(sequence);
}

std::unique_ptr<VerifiedSequence> Make(std::string_view prompt) {
  return Make(OpenOf(prompt));
}

// Nodes as "token", each with 16 * step + doubt.
v1::Grow GrowOf(uint32_t seen, uint32_t first_id, std::string_view tokens,
                const std::vector<uint32_t>& links) {
  v1::Grow grow;
  grow.set_seen(seen);
  grow.set_first_id(first_id);
  std::vector<GrownNode> nodes;
  for (size_t i = 0; i < tokens.size(); ++i) {
    nodes.push_back({links[i] / 16, links[i] % 16, static_cast<unsigned char>(tokens[i])});
  }
  WriteGrowthBits(nodes, *grow.mutable_nodes());
  return grow;
}

v1::Grow ChainOf(uint32_t seen, uint32_t first_id, std::string_view tokens) {
  std::vector<uint32_t> links(tokens.size(), 16 + 1);
  if (!links.empty()) links[0] = 1;
  return GrowOf(seen, first_id, tokens, links);
}

v1::Append AppendOf(uint32_t length, std::string_view tokens, bool reply) {
  v1::Append append;
  append.set_length(length);
  append.set_reply(reply);
  for (const char c : tokens) append.add_tokens(static_cast<unsigned char>(c));
  return append;
}

v1::Truncate TruncateOf(uint32_t length) {
  v1::Truncate truncate;
  truncate.set_length(length);
  return truncate;
}

std::string TextOf(const VerifiedSequence& sequence) {
  const auto tokens = sequence.history().tokens();
  return std::string(tokens.begin(), tokens.end());
}

// A pass whose target writes `text`; what is not drafted of it is not found.
v1::Verdict RunPass(VerifiedSequence& sequence, std::string_view text) {
  const std::vector<DraftedNode> nodes = [&] {
    const auto span = sequence.BeginPass(sequence.pass_nodes());
    return std::vector<DraftedNode>(span.begin(), span.end());
  }();
  std::vector<TokenId> path;
  const auto choose = [&](uint32_t, std::span<const TokenId> down) -> absl::StatusOr<TokenId> {
    return static_cast<unsigned char>(text[down.size()]);
  };
  v1::Verdict verdict;
  sequence.EndPass(*WalkDown(nodes, path, choose), verdict);
  return verdict;
}

std::string Error(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(Message(status));
}

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

// --- growth ---

std::vector<std::pair<NodeId, uint32_t>> NodesAndParents(VerifiedSequence& sequence) {
  std::vector<std::pair<NodeId, uint32_t>> nodes;
  const auto drafted = sequence.BeginPass(15);
  for (size_t i = 0; i < drafted.size(); ++i) {
    const uint32_t parent = drafted[i].parent;
    nodes.push_back(
        {static_cast<NodeId>(drafted[i].token),
         parent == DraftedNode::kRoot ? 0 : static_cast<uint32_t>(drafted[parent].token)});
  }
  sequence.DropPass();
  return nodes;
}

TEST(VerifiedSequence, AStepLeadsFromTheParentBeforeToTheNext) {
  const auto sequence = Make("once");
  //   first of a message, without a step: the root; then as the one before it; one above the node
  //   itself; one before that; two after that; further back than there are ids: the root
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 1, "abcdef", {0, 0, 16, 2 * 16, 3 * 16, 18 * 16})).ok());
  EXPECT_THAT(NodesAndParents(*sequence),
              ElementsAre(std::pair('a', 0), std::pair('b', 0), std::pair('c', 'b'),
                          std::pair('d', 'a'), std::pair('e', 'c'), std::pair('f', 0)));
  // A later message: without a step its first node is below the root too.
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 10, "gh", {0, 16 * 9})).ok());
  EXPECT_THAT(NodesAndParents(*sequence),
              ::testing::IsSupersetOf(
                  {std::pair<NodeId, uint32_t>('g', 0), std::pair<NodeId, uint32_t>('h', 'b')}));
}

TEST(VerifiedSequence, TheLeastDoubtfulNodesAreTaken) {
  const auto sequence = Make("once");
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 1, "abc", {7, 2, 16 + 3})).ok());  // c below b: 5
  const auto drafted = sequence->BeginPass(2);
  ASSERT_EQ(drafted.size(), 2u);
  EXPECT_EQ(drafted[0].token, 'b');
  EXPECT_EQ(drafted[1].token, 'c');
}

TEST(VerifiedSequence, BadGrowthIsRefusedInASentence) {
  const auto error_of = [](const v1::Grow& grow) {
    const auto sequence = Make("once");
    EXPECT_TRUE(sequence->Grow(ChainOf(0, 5, "ab")).ok());
    RunPass(*sequence, "abc");
    return Error(sequence->Grow(grow));
  };
  EXPECT_EQ(error_of(ChainOf(2, 7, "a")), "the device has seen verdict 2, and there have been 1");
  EXPECT_EQ(error_of(ChainOf(0, 7, std::string(33, 'a'))),
            "growth of 33 nodes is more than the 32 of a sketch");
  EXPECT_EQ(error_of(ChainOf(0, 6, "a")), "node 6 comes after node 6; ids rise strictly");
  EXPECT_EQ(error_of(ChainOf(0, 0xfffffffe, "ab")),
            "growth of 2 nodes from 4294967294 on goes past the last id; open a new session");
  const auto grow_of = [](const GrownNode& node) {
    v1::Grow grow;
    grow.set_first_id(7);
    WriteGrowthBits({&node, 1}, *grow.mutable_nodes());
    return grow;
  };
  EXPECT_EQ(error_of(grow_of({0, 1, 270})), "token 270 is outside the vocabulary of 0 to 269");
  EXPECT_EQ(error_of(grow_of({0, 16, 'a'})),
            "node 7 has a doubt of 16; that of an edge is at most 15");
  EXPECT_EQ(error_of(GrowOf(0, 7, "ab", {2 * 16, 9 * 16})),
            "node 8 has node 8 as its parent, which does not come before it");
  v1::Grow grow = ChainOf(0, 7, "ab");
  grow.mutable_nodes()->pop_back();
  EXPECT_EQ(error_of(grow), "growth of 2 nodes has 3 bytes, which end before its last node");
  grow = ChainOf(0, 7, "a");
  grow.mutable_nodes()->append("more");
  EXPECT_EQ(error_of(grow), "growth of 1 nodes ends after 3 of its 7 bytes");
}

TEST(VerifiedSequence, WhatADeviceHasSeenDoesNotBecomeUnseen) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  RunPass(*sequence, "b");
  ASSERT_TRUE(sequence->Grow(ChainOf(2, 1, "c")).ok());
  EXPECT_EQ(Error(sequence->Grow(ChainOf(1, 2, "c"))),
            "the device has seen verdict 1, and had seen 2 before");
}

TEST(VerifiedSequence, GrowthThatLeavesThemOutGoesOnWithIdsAndIsOfTheSameVerdict) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  RunPass(*sequence, "b");
  ASSERT_TRUE(sequence->Grow(ChainOf(1, 1, "bc")).ok());
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 0, "bd")).ok());  // it too is below b, which was committed
  EXPECT_THAT(NodesAndParents(*sequence), ElementsAre(std::pair('c', 0), std::pair('d', 0)));
  EXPECT_EQ(sequence->last_id(), 4u);
  EXPECT_EQ(sequence->seen(), 1u);
  // Ids begin anew with an epoch, and nothing is unseen in it.
  ASSERT_TRUE(sequence->Append(AppendOf(6, "x", /*reply=*/true)).ok());
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 0, "pq")).ok());
  EXPECT_EQ(sequence->last_id(), 2u);
  EXPECT_EQ(sequence->unseen_count(), 0u);
  EXPECT_EQ(sequence->node_count(), 2u);
}

TEST(VerifiedSequence, LateGrowthIsNoError) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  RunPass(*sequence, "b");
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 1, "axbc", {1, 1, 2 * 16, 3 * 16})).ok());  // a(b(c)) and x
  EXPECT_THAT(NodesAndParents(*sequence), ElementsAre(std::pair('c', 0)));
}

TEST(VerifiedSequence, WhatAFullSketchHasNoRoomForIsLetGo) {
  const auto sequence = Make("once");
  ASSERT_TRUE(
      sequence->Grow(GrowOf(0, 1, "abcdefghijklmnopqrstuvwxyzABCDEF", std::vector<uint32_t>(32, 1)))
          .ok());
  EXPECT_EQ(sequence->node_count(), 32u);
  ASSERT_TRUE(sequence->Grow(GrowOf(0, 33, "GHI", {1, 16, 16 + 1})).ok());
  EXPECT_EQ(sequence->node_count(), 32u);
}

TEST(VerifiedSequence, NodesAtPositionsBeyondTheContextAreLetGo) {
  v1::Open open = OpenOf("once");
  open.set_length_max(6);
  const auto sequence = Make(open);
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "abcd")).ok());
  EXPECT_EQ(sequence->node_count(), 2u);  // a is the fifth token, b the sixth
  const v1::Verdict verdict = RunPass(*sequence, "abc");
  EXPECT_EQ(TextOf(*sequence), "onceabc");
  EXPECT_EQ(verdict.finish(), v1::FINISH_LENGTH);
}

// --- go ---

TEST(VerifiedSequence, GoIsForTheRootItsSenderHadSeen) {
  const auto sequence = Make("once");
  v1::Grow go;
  go.set_go(true);
  ASSERT_TRUE(sequence->Grow(go).ok());
  EXPECT_TRUE(sequence->told_to_go());
  RunPass(*sequence, "a");
  EXPECT_FALSE(sequence->told_to_go());
  ASSERT_TRUE(sequence->Grow(go).ok());  // it was under way when the verdict fell
  EXPECT_FALSE(sequence->told_to_go());
  go.set_seen(1);
  sequence->BeginPass(0);
  ASSERT_TRUE(sequence->Grow(go).ok());  // as this one has been heard already
  EXPECT_FALSE(sequence->told_to_go());
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

// --- turns ---

TEST(VerifiedSequence, ATurnBeginsAReplyWithLimitsOfItsOwn) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(2);
  const auto sequence = Make(open);
  RunPass(*sequence, "a");
  EXPECT_EQ(RunPass(*sequence, "b").finish(), v1::FINISH_TOKEN_LIMIT);
  ASSERT_TRUE(sequence->Append(AppendOf(6, " upon", false)).ok());
  EXPECT_EQ(sequence->finish(), v1::FINISH_NONE);
  RunPass(*sequence, "c");
  EXPECT_EQ(RunPass(*sequence, "d").finish(), v1::FINISH_TOKEN_LIMIT);  // the stops stay
  v1::Append append = AppendOf(13, "!", false);
  append.mutable_stops()->set_max_tokens(1);
  ASSERT_TRUE(sequence->Append(append).ok());
  const v1::Verdict verdict = RunPass(*sequence, "e");
  EXPECT_EQ(verdict.finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(verdict.edits(), 1u);  // since the one before
  EXPECT_EQ(TextOf(*sequence), "onceab uponcd!e");
}

TEST(VerifiedSequence, TokensOfARunningReplyCountAsIfTheyHadBeenWrittenHere) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(3);
  const auto sequence = Make(open);
  ASSERT_TRUE(sequence->Append(AppendOf(4, "ab", true)).ok());
  EXPECT_EQ(RunPass(*sequence, "c").finish(), v1::FINISH_TOKEN_LIMIT);

  v1::Open reopened = OpenOf("onceab");
  reopened.mutable_stops()->set_max_tokens(3);
  reopened.set_reply_tokens(2);
  const auto again = Make(reopened);
  EXPECT_EQ(again->history().reply_begin(), 4u);
  EXPECT_EQ(RunPass(*again, "c").finish(), v1::FINISH_TOKEN_LIMIT);
}

TEST(VerifiedSequence, AReplyDoesNotGoOnPastItsEnd) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(2);
  EXPECT_EQ(Error(Make(open)->Append(AppendOf(4, "abc", true))),
            "the reply ends at its token 2, and 3 go on past it");
  const auto ended = Make(open);
  ASSERT_TRUE(ended->Append(AppendOf(4, "ab", true)).ok());
  EXPECT_EQ(ended->finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(Error(ended->Append(AppendOf(6, "c", true))),
            "the reply has ended, and 1 more tokens of it came");
  open.set_reply_tokens(4);
  EXPECT_EQ(Error(VerifiedSequence::Create(open, Bytes(), kLimits).status()),
            "the reply ends at its token 2, and 4 go on past it");
}

TEST(VerifiedSequence, WhatDoesNotFitIsNotAppended) {
  v1::Open open = OpenOf("once");
  open.set_length_max(8);
  EXPECT_EQ(Error(Make(open)->Append(AppendOf(4, "abcde", false))),
            "5 more tokens do not fit: the session has 4 of 8");
  EXPECT_EQ(Error(Make(open)->Append(AppendOf(4, "abcdef", true))),
            "6 tokens of the reply do not fit: the session has 4 of 8");
  const auto full = Make(open);
  ASSERT_TRUE(full->Append(AppendOf(4, "abcde", true)).ok());  // the last is never read
  EXPECT_EQ(full->finish(), v1::FINISH_LENGTH);
}

TEST(VerifiedSequence, BadEditsAreRefused) {
  v1::Append append = AppendOf(4, "a", true);
  append.mutable_stops();
  EXPECT_EQ(Error(Make("once")->Append(append)),
            "tokens of a running reply cannot change its stops");
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("once")->Append(AppendOf(5, "a", false))));
  EXPECT_TRUE(absl::IsFailedPrecondition(Make("once")->Truncate(TruncateOf(5))));
  for (const bool reply : {false, true}) {
    const auto empty = Make("once");
    ASSERT_TRUE(empty->Truncate(TruncateOf(0)).ok());
    EXPECT_FALSE(empty->writing());
    EXPECT_EQ(Error(empty->Append(AppendOf(0, "", reply))),
              "a reply cannot begin without a token before it");
  }
}

TEST(VerifiedSequence, ATruncatedReplyGoesOnAsIfTheRestHadNotBeen) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(4);
  open.mutable_stops()->add_strings("xyz");
  const auto sequence = Make(open);
  ASSERT_TRUE(sequence->Append(AppendOf(4, "axb", true)).ok());
  ASSERT_TRUE(sequence->Truncate(TruncateOf(6)).ok());
  EXPECT_FALSE(sequence->writing());  // until the Append
  ASSERT_TRUE(sequence->Append(AppendOf(6, "", true)).ok());
  EXPECT_TRUE(sequence->writing());
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "y")).ok());
  const v1::Verdict verdict = RunPass(*sequence, "yz");
  EXPECT_EQ(verdict.finish(), v1::FINISH_STOP_STRING);  // a, and across the cut x, y, z
  EXPECT_EQ(verdict.edits(), 3u);
}

TEST(VerifiedSequence, AnEditLeavesNothingOfTheDraft) {
  const auto sequence = Make("once");
  RunPass(*sequence, "a");
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "ab")).ok());
  ASSERT_TRUE(sequence->Append(AppendOf(5, "x", true)).ok());
  EXPECT_EQ(sequence->node_count(), 0u);
  // Ids begin anew, and `seen` of before is the edit's root.
  ASSERT_TRUE(sequence->Grow(ChainOf(0, 1, "c")).ok());
  const v1::Verdict verdict = RunPass(*sequence, "cd");
  EXPECT_EQ(LeafOf(verdict), 1u);
  EXPECT_EQ(TextOf(*sequence), "onceaxcd");
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

// --- attaching ---

v1::Resume ResumeOf(const VerifiedSequence& sequence, uint32_t length) {
  v1::Resume resume;
  resume.set_length(length);
  resume.set_hash(sequence.history().HashAt(length));
  return resume;
}

TEST(VerifiedSequence, ADeviceThatIsBehindGetsWhatItLacks) {
  const auto sequence = Make("once");
  for (const char* token : {"a", "b", "c"}) RunPass(*sequence, token);
  v1::Resumed resumed;
  ASSERT_TRUE(sequence->Resume(ResumeOf(*sequence, 5), resumed).ok());
  EXPECT_THAT(resumed.tokens(), ElementsAre('b', 'c'));
  EXPECT_EQ(resumed.length(), 7u);
  EXPECT_EQ(resumed.hash(), sequence->history().hash());
  EXPECT_EQ(resumed.verdict(), 3u);
  EXPECT_EQ(resumed.finish(), v1::FINISH_NONE);
  EXPECT_TRUE(sequence->writing());
  ASSERT_TRUE(sequence->Grow(ChainOf(3, 1, "d")).ok());  // ids begin anew
}

TEST(VerifiedSequence, ADeviceThatIsAheadIsWaitedFor) {
  const auto sequence = Make("once");
  v1::Resume resume;
  resume.set_length(6);
  resume.set_hash(1234);  // of tokens that are not known here
  v1::Resumed resumed;
  ASSERT_TRUE(sequence->Resume(resume, resumed).ok());
  EXPECT_THAT(resumed.tokens(), IsEmpty());
  EXPECT_EQ(resumed.length(), 4u);
  EXPECT_FALSE(sequence->writing());
  ASSERT_TRUE(sequence->Append(AppendOf(4, "ab", true)).ok());
  EXPECT_TRUE(sequence->writing());
  // Whoever comes next need not be ahead.
  resume.set_length(7);
  ASSERT_TRUE(sequence->Resume(resume, resumed).ok());
  EXPECT_FALSE(sequence->writing());
  ASSERT_TRUE(sequence->Resume(ResumeOf(*sequence, 6), resumed).ok());
  EXPECT_TRUE(sequence->writing());
}

TEST(VerifiedSequence, ATruncatedSequenceWaitsForItsAppendThroughALostLink) {
  const auto sequence = Make("once");
  ASSERT_TRUE(sequence->Truncate(TruncateOf(3)).ok());
  v1::Resumed resumed;
  ASSERT_TRUE(sequence->Resume(ResumeOf(*sequence, 3), resumed).ok());
  EXPECT_EQ(resumed.edits(), 1u);
  EXPECT_FALSE(sequence->writing());
}

TEST(VerifiedSequence, OtherTokensAreDrift) {
  const auto sequence = Make("once");
  v1::Resume resume = ResumeOf(*sequence, 3);
  resume.set_hash(resume.hash() ^ 1);
  v1::Resumed resumed;
  EXPECT_TRUE(absl::IsFailedPrecondition(sequence->Resume(resume, resumed)));
}

TEST(VerifiedSequence, ARepeatedOpenIsToldWhatWasWrittenSinceTheFirst) {
  v1::Open open = OpenOf("once");
  open.mutable_stops()->set_max_tokens(2);
  const auto sequence = Make(open);
  v1::Opened first;
  ASSERT_TRUE(sequence->Attach(first).ok());
  EXPECT_THAT(first.tokens(), IsEmpty());
  for (const char* token : {"a", "b"}) RunPass(*sequence, token);
  v1::Opened second;
  ASSERT_TRUE(sequence->Attach(second).ok());
  EXPECT_THAT(second.tokens(), ElementsAre('a', 'b'));
  EXPECT_EQ(second.finish(), v1::FINISH_TOKEN_LIMIT);
  EXPECT_EQ(second.verdict(), 2u);
  ASSERT_TRUE(sequence->Append(AppendOf(6, "x", false)).ok());
  EXPECT_THAT(Error(sequence->Attach(second)), HasSubstr("needs a new nonce"));
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
}  // namespace outrider
