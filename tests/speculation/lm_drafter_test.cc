#include "common/speculation/drafting/lm_drafter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"
#include "common/engine/cpu_target.h"
#include "common/kernels/isa.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"
#include "tests/model/engine.h"
#include "tests/model/stories.h"
#include "tests/model/wrapped_store.h"

namespace outrider {
namespace {

using Context = Drafter::Context;
using Tokens = std::vector<TokenId>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int32_t kVocabulary = 512;
constexpr uint32_t kRoot = DraftedNode::kRoot;
constexpr TokenId kBos = 1;

SamplingOptions Sampled(double temperature, uint64_t seed = 3) {
  SamplingOptions options;
  options.temperature = temperature;
  options.seed = seed;
  return options;
}

SamplingOptions Everything() {
  SamplingOptions options = Sampled(0.9, 4);
  options.top_k = 40;
  options.top_p = 0.95;
  options.min_p = 0.01;
  options.repetition_penalty = 1.1;
  options.frequency_penalty = 0.2;
  options.logit_bias = {{300, 2}};
  return options;
}

// A model, on an engine that its drafters share.
struct Model {
  explicit Model(const std::string& model_path) : path(model_path), engine(NewEngine({})) {}

  static ThreadPool* Pool() {
    static ThreadPool* const pool = OrDie(ThreadPool::Create(2)).release();
    return pool;
  }

  std::unique_ptr<Engine> NewEngine(EngineOptions options) const {
    options.sequence_count_max = 8;
    if (options.node_count_max == EngineOptions().node_count_max) options.node_count_max = 256;
    if (options.row_count_max == EngineOptions().row_count_max) options.row_count_max = 64;
    return OrDie(LoadCpuEngine(*OrDie(ModelFile::Open(path)), path, options, KernelsFor(BestIsa()),
                               *Pool(), nullptr));
  }

  std::unique_ptr<LmDrafter> Drafter(const SamplingOptions& sampling) const {
    return OrDie(LmDrafter::Create(*engine, OrDie(Chooser::Create(sampling, kVocabulary))));
  }
  // On an engine of its own.
  std::unique_ptr<LmDrafter> Drafter(const SamplingOptions& sampling,
                                     const EngineOptions& options) const {
    others.push_back(NewEngine(options));
    return OrDie(LmDrafter::Create(*others.back(), OrDie(Chooser::Create(sampling, kVocabulary))));
  }

  const std::string path;
  const std::unique_ptr<Engine> engine;
  mutable std::vector<std::unique_ptr<Engine>> others;
};

const Model& Good() {
  static const Model* const model = new Model(Stories());
  return *model;
}
const Model& Damaged() {
  static const Model* const model = new Model(DamagedStories());
  return *model;
}

TokenHistory HistoryOf(const Tokens& tokens) {
  TokenHistory history({.vocabulary_size = kVocabulary, .capacity = 600, .counts_tokens = true});
  OUTRIDER_CHECK_OK(history.Append(tokens));
  history.StartReply();
  return history;
}

Tokens TokensOf(std::span<const Proposal> list) {
  Tokens tokens;
  for (const Proposal& proposal : list) tokens.push_back(proposal.token);
  return tokens;
}

// The text of the model itself, with passes over what is drafted.
class Author {
 public:
  Author(const std::string& path, const SamplingOptions& sampling, const Tokens& prompt)
      : chooser_(OrDie(Chooser::Create(sampling, kVocabulary))),
        history_(HistoryOf(prompt)),
        target_(OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(path)), path, {.node_count_max = 200},
                                    KernelsFor(BestIsa()), *Model::Pool(), nullptr))),
        id_(OrDie(target_->CreateSequence())) {
    OUTRIDER_CHECK_OK(target_->Prefill(id_, prompt, nullptr));
  }

  // What it accepts is committed.
  Outcome Run(std::span<const DraftedNode> nodes) {
    const Pass pass = {id_, nodes, &chooser_, &history_};
    PassResult result;
    target_->Run({}, {&pass, 1}, {&result, 1});
    OUTRIDER_CHECK_OK(result.status);
    OUTRIDER_CHECK_OK(target_->Commit(id_, result.outcome));
    committed_.clear();
    for (uint32_t n = result.outcome.node; n != kRoot; n = nodes[n].parent) {
      committed_.insert(committed_.begin(), nodes[n].token);
    }
    committed_.push_back(result.outcome.next);
    OUTRIDER_CHECK_OK(history_.Append(committed_));
    return result.outcome;
  }

  const TokenHistory& history() const { return history_; }

 private:
  const Chooser chooser_;
  TokenHistory history_;
  std::unique_ptr<EngineTarget> target_;
  SequenceId id_;
  Tokens committed_;
};

// Grows a tree: every round the children of `width` nodes that have none join it.
class Tree {
 public:
  void Clear() {
    nodes_.clear();
    open_ = {kRoot};
  }
  std::span<const DraftedNode> nodes() const { return nodes_; }

  void Grow(LmDrafter& drafter, const TokenHistory& history, uint32_t width, uint32_t children) {
    contexts_.clear();
    for (; contexts_.size() < width && !open_.empty(); open_.erase(open_.begin())) {
      contexts_.push_back({open_.front(), children});
    }
    OUTRIDER_CHECK_OK(drafter.Propose(history, nodes_, contexts_, proposals_));
    for (size_t i = 0; i < contexts_.size(); ++i) {
      for (const Proposal& proposal : proposals_.children()[i]) {
        open_.push_back(static_cast<uint32_t>(nodes_.size()));
        nodes_.push_back({proposal.token, contexts_[i].node});
      }
    }
  }
  std::span<const Context> asked() const { return contexts_; }

  Tokens PathTo(uint32_t node) const {
    Tokens path;
    for (; node != kRoot; node = nodes_[node].parent) path.insert(path.begin(), nodes_[node].token);
    return path;
  }

 private:
  std::vector<DraftedNode> nodes_;
  std::vector<uint32_t> open_ = {kRoot};
  std::vector<Context> contexts_;
  Proposals proposals_;
};

// --- what it proposes ---

TEST(LmDrafter, WhatTheModelDraftsForItselfIsAllAccepted) {
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled(1), Everything()}) {
    const auto drafter = Good().Drafter(sampling);
    Author author(Stories(), sampling, {kBos, 403, 407, 261});
    Tree chain;
    for (uint32_t round = 0; author.history().size() < 150; ++round) {
      const uint32_t length = round % 8;
      chain.Clear();
      for (uint32_t i = 0; i < length; ++i) chain.Grow(*drafter, author.history(), 1, 1);
      const Outcome outcome = author.Run(chain.nodes());
      ASSERT_EQ(outcome.node, length == 0 ? kRoot : length - 1);
    }
  }
}

// Trees over committed text that was itself drafted and accepted, below roots that were nodes: all
// candidates, in order, are those of a drafter that reads this text for the first time. So are the
// confidences, to the bit, where neither has learnt anything.
TEST(LmDrafter, ItsTrieIsAFreshReading) {
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled(0.9), Everything()}) {
    const auto drafter = Damaged().Drafter(sampling);
    Author author(Stories(), sampling, Tokens(40, 300));
    std::mt19937 random(1);
    Tree tree;
    Proposals ours, theirs;
    for (int round = 0; round < 30; ++round) {
      tree.Clear();
      const std::span<const TokenId> text = author.history().tokens();
      const TokenHistory history =
          sampling.penalizes() ? author.history() : HistoryOf({text.begin(), text.end()});
      for (int batch = 0; batch < 5; ++batch) {
        tree.Grow(*drafter, history, 1 + random() % 4, 1 + random() % 3);
      }
      for (const uint32_t node : {kRoot, static_cast<uint32_t>(random() % tree.nodes().size())}) {
        const std::vector<Context> context = {{node, 32}};
        OUTRIDER_CHECK_OK(drafter->Propose(history, tree.nodes(), context, ours));
        TokenHistory longer = history;
        OUTRIDER_CHECK_OK(longer.Append(tree.PathTo(node)));
        const auto fresh = Damaged().Drafter(sampling);
        OUTRIDER_CHECK_OK(fresh->Propose(longer, {}, std::vector<Context>{{kRoot, 32}}, theirs));
        const auto candidates = ours.children()[0];
        const auto expected = theirs.children()[0];
        ASSERT_EQ(TokensOf(candidates), TokensOf(expected)) << round;
        ASSERT_GE(candidates.size(), 1);
        for (size_t i = 0; i < candidates.size() && !sampling.penalizes(); ++i) {
          ASSERT_EQ(candidates[i].confidence, expected[i].confidence);
        }
      }
      author.Run(tree.nodes().first(random() % tree.nodes().size()));
    }
    EXPECT_GT(author.history().size(), 85) << "or the trie was never walked";
  }
}

// Also those below a root that was a node: a pass takes a part of the sketch, and what is below the
// next token outlives the commit.
TEST(LmDrafter, ComputesEveryPrefixOnce) {
  for (const SamplingOptions& sampling : {SamplingOptions(), Sampled(0.8)}) {
    const auto drafter = Damaged().Drafter(sampling, {.row_count_max = 16});
    Author author(Stories(), sampling, Tokens(50, 301));
    std::set<Tokens> prefixes;
    size_t known_roots = 0;
    std::mt19937 random(2);
    Tree tree;
    for (int round = 0; round < 40; ++round) {
      tree.Clear();
      const Tokens text(author.history().tokens().begin(), author.history().tokens().end());
      known_roots += prefixes.contains(text);
      for (size_t length = 1; length <= text.size(); ++length) {
        prefixes.emplace(text.begin(), text.begin() + static_cast<ptrdiff_t>(length));
      }
      for (uint32_t batch = random() % 4; batch <= 5; ++batch) {
        tree.Grow(*drafter, author.history(), 1 + random() % 8, 1 + random() % 3);
        for (const Context& context : tree.asked()) {
          Tokens path = text;
          const Tokens below = tree.PathTo(context.node);
          path.insert(path.end(), below.begin(), below.end());
          prefixes.insert(path);
        }
        ASSERT_EQ(drafter->row_count(), prefixes.size());
      }
      author.Run(tree.nodes().first(random() % tree.nodes().size()));
    }
    EXPECT_GT(known_roots, 5);
  }
}

// A real pair: a text of the model, four children of every root drafted by its damaged copy. Over
// what is proposed, confidences are off by 0.03 in the mean.
TEST(LmDrafter, ItsConfidencesAreCalibrated) {
  constexpr size_t kBins = 10;
  for (const SamplingOptions& sampling : {Sampled(0.8), Sampled(1.2)}) {
    const auto drafter = Damaged().Drafter(sampling);
    std::array<double, kBins> predicted = {}, came = {};
    double count = 0;
    double agreed = 0;
    Proposals proposals;
    for (TokenId first = 300; first < 304; ++first) {
      Author author(Stories(), sampling, {kBos, first});
      for (int i = 0; i < 300; ++i) {
        OUTRIDER_CHECK_OK(
            drafter->Propose(author.history(), {}, std::vector<Context>{{kRoot, 4}}, proposals));
        const std::span<const Proposal> list = proposals.children()[0];
        const TokenId chosen = author.Run({}).next;
        agreed += list[0].token == chosen;
        for (const Proposal& proposal : list) {
          const auto bin = std::min(static_cast<size_t>(proposal.confidence * kBins), kBins - 1);
          predicted[bin] += proposal.confidence;
          came[bin] += proposal.token == chosen;
          ++count;
        }
      }
    }
    double error = 0;
    for (size_t bin = 0; bin < kBins; ++bin) error += std::abs(predicted[bin] - came[bin]) / count;
    EXPECT_LE(error, 0.03);
    EXPECT_GT(agreed, 0.4 * count / 4);
    EXPECT_LT(agreed, 0.95 * count / 4) << "or there was nothing to be unsure of";
  }
}

// --- what changes under it ---

Tokens AskAtRoot(LmDrafter& drafter, const TokenHistory& history, uint32_t count = 32) {
  Proposals proposals;
  OUTRIDER_CHECK_OK(drafter.Propose(history, {}, std::vector<Context>{{kRoot, count}}, proposals));
  return TokensOf(proposals.children()[0]);
}

// Turns of a chat, an edit of what was said, another text altogether.
TEST(LmDrafter, FollowsWhateverBecomesOfTheText) {
  for (const SamplingOptions& sampling : {Sampled(0.8), Everything()}) {
    const auto drafter = Damaged().Drafter(sampling);
    std::mt19937 random(4);
    Tokens text = {kBos};
    for (int round = 0; round < 60; ++round) {
      if (round % 20 == 19) text = {kBos, 300};
      text.resize(1 + random() % text.size());
      for (uint32_t i = random() % 12; i > 0; --i) {
        text.push_back(static_cast<TokenId>(260 + random() % 200));
      }
      TokenHistory history = HistoryOf(text);
      const Tokens expected = AskAtRoot(*Damaged().Drafter(sampling), history);
      ASSERT_EQ(AskAtRoot(*drafter, history), expected) << round;
      ASSERT_EQ(AskAtRoot(*drafter, history), expected) << "and a second time";
    }
  }
}

// A token counts as said once the reply begins before it.
TEST(LmDrafter, FollowsWhereTheReplyBegins) {
  SamplingOptions sampling;
  sampling.presence_penalty = 2;
  const auto drafter = Good().Drafter(sampling);
  TokenHistory reply({.vocabulary_size = kVocabulary, .capacity = 600, .counts_tokens = true});
  OUTRIDER_CHECK_OK(reply.Append(Tokens{kBos, 403, 407, 261, 378}));
  TokenHistory prompt = reply;
  prompt.StartReply();
  const Tokens of_reply = AskAtRoot(*Good().Drafter(sampling), reply);
  const Tokens of_prompt = AskAtRoot(*Good().Drafter(sampling), prompt);
  ASSERT_NE(of_reply, of_prompt);
  EXPECT_EQ(AskAtRoot(*drafter, reply), of_reply);
  EXPECT_EQ(AskAtRoot(*drafter, prompt), of_prompt);
  EXPECT_EQ(AskAtRoot(*drafter, reply), of_reply);
}

TEST(LmDrafter, LearnsFromTheReplyAndFromNothingElse) {
  const auto drafter = Damaged().Drafter({});
  TokenHistory history = HistoryOf({kBos, 403, 407, 261});
  const Tokens best = AskAtRoot(*drafter, history);
  const double before = drafter->confidence().kappa();
  // The next turn begins with what was proposed: that says nothing about the target.
  OUTRIDER_CHECK_OK(history.Append(Tokens{best[0]}));
  history.StartReply();
  const Tokens next = AskAtRoot(*drafter, history);
  EXPECT_EQ(drafter->confidence().kappa(), before);
  OUTRIDER_CHECK_OK(history.Append(Tokens{next[0]}));
  AskAtRoot(*drafter, history);
  const double agreed = drafter->confidence().kappa();
  EXPECT_LT(agreed, before);
  AskAtRoot(*drafter, history);
  EXPECT_EQ(drafter->confidence().kappa(), agreed) << "once for each token";
}

// --- bounds ---

TEST(LmDrafter, BeyondItsContextItProposesNothing) {
  const auto drafter = Good().Drafter({}, {.context_length = 20});
  const std::vector<DraftedNode> nodes = {{300, kRoot}, {301, 0}, {302, 1}};
  const std::vector<Context> contexts = {{kRoot, 2}, {0, 2}, {1, 2}, {2, 2}};
  Proposals proposals;
  const std::vector<std::vector<size_t>> expected = {{2, 2, 2, 2}, {2, 2, 2, 0}, {2, 2, 0, 0},
                                                     {2, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}};
  for (size_t i = 0; i < expected.size(); ++i) {
    const TokenHistory history = HistoryOf(Tokens(17 + i, 300));
    OUTRIDER_CHECK_OK(drafter->Propose(history, nodes, contexts, proposals));
    std::vector<size_t> sizes;
    for (const auto& list : proposals.children()) sizes.push_back(list.size());
    EXPECT_EQ(sizes, expected[i]) << 17 + i << " tokens";
  }
  EXPECT_EQ(AskAtRoot(*drafter, HistoryOf({kBos})),
            AskAtRoot(*Good().Drafter({}), HistoryOf({kBos})));
}

TEST(LmDrafter, WhatIsInNoSketchAnyMoreMakesRoom) {
  const auto drafter = Good().Drafter({}, {.node_count_max = 4, .row_count_max = 2});
  const TokenHistory history = HistoryOf({kBos, 403});
  Proposals proposals;
  const std::vector<Context> all = {{0, 5}, {1, 5}, {2, 5}};
  for (TokenId token = 301; token < 320; ++token) {
    const std::vector<DraftedNode> nodes = {{300, kRoot}, {token, 0}, {token + 1, 1}};
    OUTRIDER_CHECK_OK(drafter->Propose(history, nodes, all, proposals));
    TokenHistory text = history;
    OUTRIDER_CHECK_OK(text.Append(Tokens{300, token, token + 1}));
    ASSERT_EQ(TokensOf(proposals.children()[2]), AskAtRoot(*Good().Drafter({}), text, 5));
  }
  EXPECT_EQ(drafter->row_count(), 2 + 1 + 19 * 2) << "what stays in the sketch is kept";
  std::vector<DraftedNode> five;
  std::vector<Context> contexts;
  for (uint32_t i = 0; i < 5; ++i) {
    five.push_back({static_cast<TokenId>(400 + i), kRoot});
    contexts.push_back({i, 1});
  }
  const absl::Status status = drafter->Propose(history, five, contexts, proposals);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Message(status), "stories260k as a drafter keeps 4 nodes, and has no room for 5 more");
  EXPECT_THAT(proposals.children(), IsEmpty());
  contexts.pop_back();
  EXPECT_TRUE(drafter->Propose(history, five, contexts, proposals).ok());
}

// The target's vocabulary may end with padding that the draft does not have, or the other way.
TEST(LmDrafter, ADifferenceInPaddingDoesNotMatter) {
  const Tokens expected = AskAtRoot(*Good().Drafter({}), HistoryOf({kBos, 403}), 5);
  for (const int32_t size : {500, 512, 520}) {
    const auto drafter = OrDie(LmDrafter::Create(*Good().engine, OrDie(Chooser::Create({}, size))));
    TokenHistory history({.vocabulary_size = size, .capacity = 10});
    OUTRIDER_CHECK_OK(history.Append(Tokens{kBos, 403}));
    EXPECT_EQ(AskAtRoot(*drafter, history, 5), expected);
    if (size < 520) continue;
    const std::vector<DraftedNode> nodes = {{515, kRoot}, {300, 0}, {300, kRoot}};
    Proposals proposals;
    OUTRIDER_CHECK_OK(
        drafter->Propose(history, nodes, std::vector<Context>{{0, 5}, {1, 5}, {2, 5}}, proposals));
    EXPECT_THAT(proposals.children(), ElementsAre(IsEmpty(), IsEmpty(), SizeIs(5)));
    OUTRIDER_CHECK_OK(history.Append(Tokens{515}));
    EXPECT_THAT(AskAtRoot(*drafter, history), IsEmpty());
    OUTRIDER_CHECK_OK(history.Truncate(2));
    EXPECT_EQ(AskAtRoot(*drafter, history, 5), expected);
  }
}

TEST(LmDrafter, AllocatesNothingInTheLoop) {
  const auto drafter = Damaged().Drafter(Everything());
  Author author(Stories(), Everything(), Tokens(30, 302));
  std::vector<DraftedNode> nodes;
  nodes.reserve(64);
  std::vector<Context> contexts;
  contexts.reserve(64);
  Proposals proposals;
  uint64_t allocations = 0;
  for (int round = 0; round < 40; ++round) {
    nodes.clear();
    contexts.assign(1, {kRoot, 3});
    for (int depth = 0; depth < 4; ++depth) {
      const uint64_t before = AllocationCount();
      const bool ok = drafter->Propose(author.history(), nodes, contexts, proposals).ok();
      if (round >= 8) allocations += AllocationCount() - before;
      ASSERT_TRUE(ok);
      const std::vector<Context> asked = contexts;
      contexts.clear();
      for (size_t i = 0; i < asked.size(); ++i) {
        for (const Proposal& proposal : proposals.children()[i].first(2)) {
          contexts.push_back({static_cast<uint32_t>(nodes.size()), 3});
          nodes.push_back({proposal.token, asked[i].node});
        }
      }
    }
    author.Run(nodes);
  }
  EXPECT_EQ(allocations, 0);
}

// --- what goes wrong ---

TEST(LmDrafter, WhatCannotBeIsRefusedInASentence) {
  const auto drafter = Good().Drafter({});
  Proposals proposals;
  const auto refusal = [&](const TokenHistory& history, const std::vector<DraftedNode>& nodes,
                           const std::vector<Context>& contexts) {
    const absl::Status status = drafter->Propose(history, nodes, contexts, proposals);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(proposals.children(), IsEmpty());
    return std::string(Message(status));
  };
  const TokenHistory history = HistoryOf({kBos});
  EXPECT_EQ(refusal(HistoryOf({}), {}, {}),
            "nothing is committed, so there is no root to draft below");
  EXPECT_EQ(refusal(history, {{1, 0}}, {}),
            "node 0 has node 0 as its parent, which does not come before it");
  EXPECT_EQ(refusal(history, {{512, kRoot}}, {}),
            "node 0 is token 512, and the vocabulary has 512 tokens");
  EXPECT_EQ(refusal(history, {{5, kRoot}}, {{1, 1}}),
            "children are asked for of node 1, which is none of 1");
  const TokenHistory other({.vocabulary_size = 9, .capacity = 9});
  EXPECT_EQ(refusal(other, {}, {}),
            "the history is of a vocabulary of 9 tokens, and the chooser of 512");
  EXPECT_FALSE(AskAtRoot(*drafter, history).empty());
}

// A store whose reads fail when told to.
class FailingStore final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;

  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override {
    OUTRIDER_RETURN_IF_ERROR(CountDown());
    return store_.LookUp(table, rows);
  }
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override {
    OUTRIDER_RETURN_IF_ERROR(CountDown());
    return store_.Acquire(key);
  }
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override {
    OUTRIDER_RETURN_IF_ERROR(CountDown());
    return store_.Acquire(key);
  }

  int countdown = 0;  // 0: no failure

 private:
  absl::Status CountDown() {
    if (countdown > 0 && --countdown == 0) return absl::DataLossError("the flash is gone");
    return absl::OkStatus();
  }
};

TEST(LmDrafter, AFailureLeavesItAsGoodAsNew) {
  const auto file = OrDie(ModelFile::Open(DamagedStories()));
  const ModelSpec spec = OrDie(ModelSpec::From(*file, "damaged"));
  const auto weights =
      OrDie(ResidentWeights::Load(*file, spec, "damaged", *Model::Pool(), nullptr));
  const auto failing = std::make_shared<FailingStore>(*weights);
  FailingStore& store = *failing;
  const auto engine = OrDie(CpuEngine::Create(spec, failing, 0, {.row_count_max = 8},
                                              KernelsFor(BestIsa()), *Model::Pool()));
  const auto drafter = OrDie(LmDrafter::Create(*engine, OrDie(Chooser::Create({}, kVocabulary))));
  const std::vector<DraftedNode> nodes = {{300, kRoot}, {301, 0}, {302, kRoot}, {303, 2}};
  const std::vector<Context> contexts = {{kRoot, 9}, {1, 9}, {3, 9}};
  Proposals ours, theirs;
  for (int fails_at = 1; fails_at < 26; ++fails_at) {
    const TokenHistory history = HistoryOf(Tokens(static_cast<size_t>(20 + fails_at), 310));
    store.countdown = fails_at;
    const absl::Status status = drafter->Propose(history, nodes, contexts, ours);
    if (store.countdown == 0) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(ours.children(), IsEmpty());
    }
    store.countdown = 0;
    OUTRIDER_CHECK_OK(drafter->Propose(history, nodes, contexts, ours));
    OUTRIDER_CHECK_OK(Damaged().Drafter({})->Propose(history, nodes, contexts, theirs));
    for (size_t i = 0; i < contexts.size(); ++i) {
      ASSERT_EQ(TokensOf(ours.children()[i]), TokensOf(theirs.children()[i])) << fails_at;
    }
  }
}

TEST(LmDrafter, ALongPromptIsReadAheadAndCanBeCancelled) {
  const auto drafter = Good().Drafter({}, {.row_count_max = 16});
  const TokenHistory history = HistoryOf(Tokens(100, 303));
  std::vector<uint32_t> seen;
  const auto until = [&](uint32_t last) {
    return [&seen, last](uint32_t processed, uint32_t total) {
      EXPECT_LE(processed, total);
      seen.push_back(processed);
      return processed < last;
    };
  };
  EXPECT_EQ(drafter->Read(history, until(32)).code(), absl::StatusCode::kCancelled);
  EXPECT_THAT(seen, ElementsAre(16, 32));
  EXPECT_TRUE(drafter->Read(history, until(1000)).ok());
  EXPECT_THAT(seen, ElementsAre(16, 32, 16, 32, 48, 64, 67));
  EXPECT_EQ(drafter->row_count(), 99);
  AskAtRoot(*drafter, history);
  EXPECT_EQ(drafter->row_count(), 100);
}

}  // namespace
}  // namespace outrider
