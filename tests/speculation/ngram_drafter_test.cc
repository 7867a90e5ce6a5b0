#include "common/speculation/drafting/ngram_drafter.h"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using Context = Drafter::Context;
using Tokens = std::vector<TokenId>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int32_t kVocabulary = 100;
constexpr uint32_t kRoot = DraftedNode::kRoot;

TokenHistory HistoryOf(const Tokens& tokens) {
  TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 5000});
  OUTRIDER_CHECK_OK(history.Append(tokens));
  history.StartReply();
  return history;
}

Tokens Ask(NgramDrafter& drafter, const TokenHistory& history, const Tokens& path = {},
           uint32_t count = 4) {
  std::vector<DraftedNode> nodes;
  for (const TokenId token : path) {
    const auto above = static_cast<uint32_t>(nodes.size()) - 1;
    nodes.push_back({token, nodes.empty() ? kRoot : above});
  }
  const uint32_t leaf = nodes.empty() ? kRoot : static_cast<uint32_t>(nodes.size()) - 1;
  Proposals proposals;
  OUTRIDER_CHECK_OK(
      drafter.Propose(history, nodes, std::vector<Context>{{leaf, count}}, proposals));
  Tokens tokens;
  for (const Proposal& proposal : proposals.children()[0]) tokens.push_back(proposal.token);
  return tokens;
}

// The definition: every place of the text, by length and then the later one, each token once.
Tokens Plainly(const Tokens& text, size_t count) {
  struct Found {
    size_t length, place;
  };
  std::vector<Found> found;
  for (size_t place = 0; place < text.size(); ++place) {
    size_t length = 0;
    while (length < NgramDrafter::kMatchMax && length < place &&
           text[place - 1 - length] == text[text.size() - 1 - length]) {
      ++length;
    }
    if (length >= NgramDrafter::kMatchMin) found.push_back({length, place});
  }
  std::ranges::sort(found, [](const Found& a, const Found& b) {
    return a.length > b.length || (a.length == b.length && a.place > b.place);
  });
  Tokens tokens;
  for (const Found& f : found) {
    if (tokens.size() == count) break;
    if (std::ranges::find(tokens, text[f.place]) == tokens.end()) tokens.push_back(text[f.place]);
  }
  return tokens;
}

TEST(NgramDrafter, ProposesWhatFollowedBefore) {
  NgramDrafter drafter(100);
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 4, 1, 2})), ElementsAre(3));
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 9, 1, 2, 4, 1, 2})), ElementsAre(4, 3))
      << "the later place first";
  EXPECT_THAT(Ask(drafter, HistoryOf({7, 1, 2, 3, 9, 1, 2, 4, 7, 1, 2})), ElementsAre(3, 4))
      << "the longer match first";
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 4, 5, 2})), IsEmpty()) << "one token is no match";
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 4, 1}), {2}), ElementsAre(3)) << "down the path";
  EXPECT_THAT(Ask(drafter, HistoryOf({1}), {5, 6, 7, 5, 6}), ElementsAre(7)) << "within the path";
  EXPECT_THAT(Ask(drafter, HistoryOf({})), IsEmpty());
}

// However the text came about: appended to, cut back, replaced; for any path below it.
TEST(NgramDrafter, FindsWhatItsDefinitionSays) {
  std::mt19937 random(1);
  NgramDrafter drafter(300);
  Tokens text;
  size_t found = 0;
  for (int round = 0; round < 3000; ++round) {
    if (random() % 30 == 0) text.resize(random() % (text.size() + 1));
    // So few places that all of them are looked at.
    if (text.size() > 200) text.resize(5);
    const uint32_t variety = 4 + random() % 8;
    for (uint32_t i = random() % 4; i > 0; --i) {
      text.push_back(static_cast<TokenId>(random() % variety));
    }
    Tokens path(random() % 5);
    for (TokenId& token : path) token = static_cast<TokenId>(random() % variety);
    Tokens whole = text;
    whole.insert(whole.end(), path.begin(), path.end());
    const Tokens expected = Plainly(whole, 4);
    ASSERT_EQ(Ask(drafter, HistoryOf(text), path), expected) << round;
    found += expected.size();
  }
  EXPECT_GT(found, 2000);
}

TEST(NgramDrafter, ItsConfidenceIsHowOftenItWasRight) {
  // "1 2" is followed by 3 four times in five, and by 4 otherwise.
  std::mt19937 random(2);
  NgramDrafter drafter(5000);
  TokenHistory history = HistoryOf({});
  double predicted = 0;
  double came = 0;
  int asked = 0;
  Proposals proposals;
  const std::vector<Context> root = {{kRoot, 4}};
  for (int round = 0; round < 1000; ++round) {
    OUTRIDER_CHECK_OK(history.Append(Tokens{static_cast<TokenId>(10 + random() % 80), 1, 2}));
    OUTRIDER_CHECK_OK(drafter.Propose(history, {}, root, proposals));
    const TokenId next = random() % 5 == 0 ? 4 : 3;
    if (round > 200) {
      double total = 0;
      double before = 1;
      for (const Proposal& proposal : proposals.children()[0]) {
        EXPECT_LE(proposal.confidence, before);
        before = proposal.confidence;
        total += proposal.confidence;
      }
      EXPECT_LE(total, 1 + 1e-9);
      ++asked;
      predicted += proposals.children()[0][0].confidence;
      came += proposals.children()[0][0].token == next;
    }
    OUTRIDER_CHECK_OK(history.Append(Tokens{next}));
  }
  EXPECT_NEAR(predicted / asked, came / asked, 0.06);
}

TEST(NgramDrafter, APromptTeachesNothing) {
  Tokens tokens;
  for (int i = 0; i < 50; ++i) tokens.insert(tokens.end(), {1, 2, 3});
  NgramDrafter of_prompt(500);
  NgramDrafter of_reply(500);
  TokenHistory prompt = HistoryOf(tokens);
  TokenHistory reply({.vocabulary_size = kVocabulary, .capacity = 500});
  OUTRIDER_CHECK_OK(reply.Append(tokens));
  Proposals proposals;
  const std::vector<Context> root = {{kRoot, 1}};
  OUTRIDER_CHECK_OK(of_prompt.Propose(prompt, {}, root, proposals));
  const double unlearned = proposals.children()[0][0].confidence;
  OUTRIDER_CHECK_OK(of_reply.Propose(reply, {}, root, proposals));
  EXPECT_GT(proposals.children()[0][0].confidence, unlearned);
}

TEST(NgramDrafter, IsBoundedByItsCapacity) {
  NgramDrafter drafter(10);
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 4, 5, 6, 7, 8, 1, 2})), ElementsAre(3));
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3})), IsEmpty());
  EXPECT_THAT(Ask(drafter, HistoryOf({1, 2, 3, 1, 2})), ElementsAre(3));
}

TEST(NgramDrafter, WhatCannotBeIsRefused) {
  NgramDrafter drafter(10);
  Proposals proposals;
  const TokenHistory history = HistoryOf({1});
  const std::vector<DraftedNode> nodes = {{1, 0}};
  EXPECT_EQ(Message(drafter.Propose(history, nodes, {}, proposals)),
            "node 0 has node 0 as its parent, which does not come before it");
  EXPECT_EQ(Message(drafter.Propose(history, {}, std::vector<Context>{{0, 1}}, proposals)),
            "children are asked for of node 0, which is none of 0");
}

TEST(NgramDrafter, AllocatesNothingInTheLoop) {
  std::mt19937 random(3);
  NgramDrafter drafter(3000);
  TokenHistory history = HistoryOf({});
  const std::vector<DraftedNode> nodes = {{1, kRoot}, {2, 0}, {3, 1}, {1, kRoot}};
  const std::vector<Context> contexts = {{kRoot, 4}, {0, 4}, {1, 4}, {2, 4}, {3, 4}};
  Proposals proposals;
  OUTRIDER_CHECK_OK(history.Append(Tokens{1}));
  OUTRIDER_CHECK_OK(drafter.Propose(history, nodes, contexts, proposals));
  const uint64_t before = AllocationCount();
  bool ok = true;
  for (int round = 0; round < 1000; ++round) {
    const TokenId token = static_cast<TokenId>(random() % 6);
    ok &= history.Append({&token, 1}).ok();
    ok &= drafter.Propose(history, nodes, contexts, proposals).ok();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace outrider
