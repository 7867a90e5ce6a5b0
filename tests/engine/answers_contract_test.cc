// The laws of every engine (engine.h) on what is asked of rows: hidden states, walks, rankings, and
// what exits guess on the way.
#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/engine_contract.h"
#include "tests/engine/guesses.h"
#include "tests/model/exits.h"

namespace outrider {
namespace {

class EngineAnswers : public EngineContract {};

INSTANTIATE_TEST_SUITE_P(Families, EngineAnswers, testing::Values("llama", "mistral", "gpt2"),
                         [](const auto& family) { return std::string(family.param); });

TEST_P(EngineAnswers, HiddenStatesDoNotDependOnCompany) {
  const uint32_t embedding = engine_->spec().embedding_length;
  const Tokens text = RandomTokens(40, 15), other = RandomTokens(20, 16);
  const auto states = [&](bool beside) {
    const SequenceId a = OrDie(engine_->Open()), b = OrDie(engine_->Open());
    OUTRIDER_CHECK_OK(engine_->Reserve(a, 40, 0));
    OUTRIDER_CHECK_OK(engine_->Reserve(b, 20, 0));
    std::vector<RunPart> parts = {{.sequence = a, .chain = text}};
    if (beside) parts.push_back({.sequence = b, .chain = other});
    EngineRun run = {.parts = parts};
    std::vector<float> first(run.row_count() * embedding), last(first.size());
    const HiddenAfterLayer asked[] = {{0, first}, {engine_->spec().layer_count() - 1, last}};
    run.hidden = asked;
    OUTRIDER_CHECK_OK(engine_->Run(run));
    engine_->Close(a);
    engine_->Close(b);
    first.resize(text.size() * embedding);
    last.resize(text.size() * embedding);
    return std::pair(first, last);
  };
  const auto alone = states(false), together = states(true);
  ExpectSame(together.first, alone.first, "after the first layer");
  ExpectSame(together.second, alone.second, "after the last");
  EXPECT_NE(alone.first, alone.second);
}

// Choices are those of the logits, in whatever vocabulary, and however many rows are asked about.
TEST_P(EngineAnswers, WalksAndRankingsAreTheChoosersOnTheLogits) {
  const Tokens prompt = RandomTokens(30, 17);
  constexpr uint32_t kWalks = 4;
  for (const int32_t vocabulary_size : {190, 200, 210}) {
    const Chooser chooser = OrDie(Chooser::Create(Sampled(3), vocabulary_size));
    TokenHistory history(
        {.vocabulary_size = vocabulary_size, .capacity = 64, .counts_tokens = true});
    Tokens known = prompt;
    for (TokenId& token : known) token %= 190;
    OUTRIDER_CHECK_OK(history.Append(known));
    std::vector<SequenceId> sequences;
    std::vector<RunPart> parts;
    std::vector<std::vector<DraftedNode>> drafts;
    std::vector<std::vector<EngineNode>> nodes(kWalks);
    const Tokens root = {known.back()};
    for (uint32_t i = 0; i < kWalks; ++i) {
      const SequenceId sequence = sequences.emplace_back(OrDie(engine_->Open()));
      Read(*engine_, sequence, Tokens(known.begin(), known.end() - 1));
      OUTRIDER_CHECK_OK(engine_->Reserve(sequence, 1, 25));
      std::vector<DraftedNode>& draft = drafts.emplace_back();
      for (uint32_t n = 0; n < 25; ++n) {
        draft.push_back(
            {static_cast<TokenId>(n * 7 % 190), n < 9 ? DraftedNode::kRoot : n / 9 - 1});
        nodes[i].push_back({draft[n].token, n < 9 ? kChain : n / 9 - 1, n});
      }
      parts.push_back({.sequence = sequence, .chain = root, .nodes = nodes[i]});
    }
    const std::vector<Logits> logits = Run(*engine_, parts);  // 104 rows
    std::vector<TreeWalk> walks;
    std::vector<Ranking> rankings;
    std::vector<std::vector<Ranked>> ranked(kWalks);
    for (uint32_t i = 0; i < kWalks; ++i) {
      walks.push_back(
          {.root_row = 26 * i, .nodes = drafts[i], .chooser = &chooser, .history = &history});
      rankings.push_back({.row = 26 * i,
                          .chooser = &chooser,
                          .history = &history,
                          .ancestors = {},
                          .count = 5,
                          .ranked = &ranked[i]});
    }
    EngineRun run = {.parts = parts, .walks = walks, .rankings = rankings};
    OUTRIDER_CHECK_OK(engine_->Run(run));
    for (uint32_t i = 0; i < kWalks; ++i) {
      ASSERT_TRUE(walks[i].status.ok() && rankings[i].status.ok()) << walks[i].status;
      Logits known_logits = logits[26 * i];
      known_logits.resize(static_cast<size_t>(vocabulary_size),
                          -std::numeric_limits<float>::infinity());
      ChooserScratch scratch(vocabulary_size);
      const TokenId first = OrDie(chooser.Choose(known_logits, 30, {history, {}}, scratch));
      EXPECT_EQ(ranked[i].front().token, first);
      EXPECT_EQ(ranked[i].size(), 5u);
      const bool drafted = std::ranges::any_of(drafts[i], [&](const DraftedNode& node) {
        return node.parent == DraftedNode::kRoot && node.token == first;
      });
      EXPECT_EQ(walks[i].outcome.node != DraftedNode::kRoot, drafted);
      if (!drafted) {
        EXPECT_EQ(walks[i].outcome.next, first);
      }
      engine_->Close(sequences[i]);
    }
  }
}

TEST_P(EngineAnswers, ExitsGuessOfWalksAndChangeNothing) {
  const TrainedExits exits =
      RandomExits(engine_->spec(), engine_->info().content_hash, {0}, 16, 0.2f);
  const Tokens prompt = RandomTokens(50, 18), other = RandomTokens(20, 19);
  const std::vector<DraftedNode> draft = {{4, DraftedNode::kRoot}, {5, 0}, {6, DraftedNode::kRoot}};
  const std::vector<EngineNode> nodes = {{4, kChain, 0}, {5, 0, 1}, {6, kChain, 2}};
  const Chooser chooser = OrDie(Chooser::Create({}, kVocabulary));
  TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 64});
  OUTRIDER_CHECK_OK(history.Append(other));
  // A prompt before the walk and one after it.
  const auto run = [&] {
    const SequenceId a = OrDie(engine_->Open()), b = OrDie(engine_->Open()),
                     c = OrDie(engine_->Open());
    for (const SequenceId prompted : {a, c}) OUTRIDER_CHECK_OK(engine_->Reserve(prompted, 50, 0));
    OUTRIDER_CHECK_OK(engine_->Reserve(b, 22, 3));
    const RunPart parts[] = {{.sequence = a, .chain = prompt},
                             {.sequence = b, .chain = other, .nodes = nodes},
                             {.sequence = c, .chain = prompt}};
    TreeWalk walk = {.root_row = 69, .nodes = draft, .chooser = &chooser, .history = &history};
    std::vector<Logits> logits(2, Logits(kVocabulary));
    const LogitsOfRow asked[] = {{10, logits[0]}, {70, logits[1]}};
    EngineRun engine_run = {.parts = parts, .walks = {&walk, 1}, .logits = asked};
    OUTRIDER_CHECK_OK(engine_->Run(engine_run));
    OUTRIDER_CHECK_OK(walk.status);
    for (const SequenceId sequence : {a, b, c}) engine_->Close(sequence);
    logits.push_back(
        {static_cast<float>(walk.outcome.node), static_cast<float>(walk.outcome.next)});
    return logits;
  };
  const std::vector<Logits> without = run();
  GuessKeeper keeper;
  OUTRIDER_CHECK_OK(engine_->AttachExits(exits, "exits", {}, keeper));
  const std::vector<Logits> with = run();
  ASSERT_EQ(keeper.guesses().size(), 1u);
  EXPECT_EQ(keeper.guesses()[0].walk, 0u);
  for (size_t i = 0; i < with.size(); ++i) EXPECT_EQ(with[i], without[i]);
  Read(*engine_, OrDie(engine_->Open()), prompt);  // a run without walks
  EXPECT_EQ(keeper.guesses().size(), 1u);
  engine_->SwitchExit(0, false);
  run();
  EXPECT_EQ(keeper.guesses().size(), 1u);
  engine_->SwitchExit(0, true);
  engine_->DetachExits();
  run();
  EXPECT_EQ(keeper.guesses().size(), 1u);
}

}  // namespace
}  // namespace outrider
