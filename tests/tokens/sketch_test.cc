#include "common/tokens/sketch.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/base/allocation_count.h"

namespace outrider {
namespace {

using Fate = Sketch::Fate;
using Path = std::vector<TokenId>;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr NodeId kRoot = Sketch::kRoot;

Fate Grow(Sketch& sketch, NodeId id, NodeId parent, TokenId token, uint32_t seen = 0,
          uint32_t doubt = 1) {
  const absl::StatusOr<Fate> fate =
      sketch.Grow({.id = id, .parent = parent, .token = token, .doubt = doubt}, seen);
  EXPECT_TRUE(fate.ok()) << fate.status();
  return fate.value_or(Fate::kEvaporated);
}

Path Commit(Sketch& sketch, NodeId leaf, TokenId next) {
  Path committed;
  sketch.Commit(leaf, next, committed);
  return committed;
}

std::vector<NodeId> Ids(const Sketch& sketch) {
  std::vector<NodeId> ids;
  for (const Sketch::Node& node : sketch.nodes()) ids.push_back(node.id);
  return ids;
}

std::vector<NodeId> Best(const Sketch& sketch, uint32_t count) {
  Sketch::Taken taken;
  sketch.Take(count, taken);
  return taken.ids;
}

// The picture in sketch.h: "the" 1, "cat" 2, "sat" 3 below it, "on" below each.
constexpr TokenId kThe = 10, kCat = 11, kSat = 12, kOn = 13;

Sketch Picture() {
  Sketch sketch(16);
  Grow(sketch, 1, kRoot, kThe);
  Grow(sketch, 2, 1, kCat);
  return sketch;
}

TEST(Sketch, BesideAPassStandsWhatItsOutcomesMayComeToNext) {
  Sketch sketch(16);
  Grow(sketch, 1, kRoot, 20, 0, 1);
  Grow(sketch, 2, 1, 21, 0, 1);
  Grow(sketch, 3, 1, 22, 0, 9);      // a sibling that is left out
  Grow(sketch, 4, 2, 23, 0, 4);      // a child that is left out
  Grow(sketch, 5, 4, 24, 0, 1);      // below one that is left out: of no outcome
  Grow(sketch, 6, kRoot, 25, 0, 7);  // and a child of the root
  Grow(sketch, 7, kRoot, 22, 0, 8);  // a token that stands there twice
  Sketch::Taken taken;
  std::vector<TokenId> tokens = {99};
  sketch.Take(2, taken);
  sketch.TokensBeside(taken, tokens);
  EXPECT_THAT(tokens, ElementsAre(23, 25, 22));  // of doubts 6, 7, 8
  sketch.Take(0, taken);
  sketch.TokensBeside(taken, tokens);
  EXPECT_THAT(tokens, ElementsAre(20, 25, 22));
  sketch.Take(7, taken);
  sketch.TokensBeside(taken, tokens);
  EXPECT_THAT(tokens, IsEmpty());
}

TEST(Sketch, KeepsTheWayDownToEveryNode) {
  Sketch sketch = Picture();
  EXPECT_EQ(Grow(sketch, 5, 2, kOn, 0, 4), Fate::kGrown);
  EXPECT_THAT(sketch.nodes(),
              ElementsAre(Sketch::Node{1, kRoot, kThe, 1, 1}, Sketch::Node{2, 1, kCat, 2, 2},
                          Sketch::Node{5, 2, kOn, 3, 6}));
  Path path = {99};
  sketch.PathTo(5, path);
  EXPECT_THAT(path, ElementsAre(kThe, kCat, kOn));
  sketch.PathTo(kRoot, path);
  EXPECT_THAT(path, IsEmpty());
  EXPECT_EQ(sketch.Child(1, kCat), sketch.Find(2));
  EXPECT_EQ(sketch.Child(1, kOn), nullptr);
  EXPECT_EQ(sketch.Find(3), nullptr);
  EXPECT_EQ(sketch.last_id(), 5);
}

TEST(Sketch, ATokenBelowTheSameParentIsTheSameNodeUnderASecondId) {
  Sketch sketch = Picture();
  EXPECT_EQ(Grow(sketch, 3, 1, kCat, 0, 9), Fate::kKnown);
  EXPECT_THAT(Ids(sketch), ElementsAre(1, 2));
  EXPECT_EQ(sketch.Find(3), sketch.Find(2));
  EXPECT_EQ(Grow(sketch, 4, 3, kSat), Fate::kGrown);
  EXPECT_EQ(sketch.Find(4)->parent, 2);
  EXPECT_EQ(sketch.Find(4)->doubt, 3);  // the doubt that came first
  EXPECT_EQ(sketch.Child(3, kSat), sketch.Find(4));
  EXPECT_THAT(Commit(sketch, 3, kSat), ElementsAre(kThe, kCat, kSat));
  EXPECT_EQ(Grow(sketch, 5, 4, kOn), Fate::kGrown);  // 4 is the root
  EXPECT_EQ(sketch.Find(5)->parent, kRoot);
}

TEST(Sketch, ACommitKeepsWhatIsBelowNext) {
  Sketch sketch = Picture();
  Grow(sketch, 3, 2, kOn, 0, 3);
  Grow(sketch, 4, 1, kSat);
  Grow(sketch, 5, 4, kOn);
  Grow(sketch, 6, 3, kThe, 0, 7);
  Path committed = {7};
  sketch.Commit(1, kCat, committed);
  EXPECT_THAT(committed, ElementsAre(7, kThe, kCat));
  EXPECT_THAT(sketch.nodes(),
              ElementsAre(Sketch::Node{3, kRoot, kOn, 1, 3}, Sketch::Node{6, 3, kThe, 2, 10}));
  EXPECT_EQ(sketch.commit_count(), 1);
  EXPECT_EQ(sketch.way_length(), 2);
}

TEST(Sketch, ACommitOfANextNobodyDraftedLeavesNothing) {
  Sketch sketch = Picture();
  EXPECT_THAT(Commit(sketch, 2, kSat), ElementsAre(kThe, kCat, kSat));
  EXPECT_THAT(sketch.nodes(), IsEmpty());
  EXPECT_THAT(Commit(sketch, kRoot, kOn), ElementsAre(kOn));
  EXPECT_EQ(sketch.commit_count(), 2);
}

TEST(Sketch, LateGrowthIsWalkedDownTheWay) {
  Sketch sketch = Picture();
  Commit(sketch, 2, kSat);
  EXPECT_EQ(Grow(sketch, 3, 2, kOn), Fate::kEvaporated);
  EXPECT_FALSE(sketch.Grow({3, kRoot, kOn, 1}, 0).ok());   // that id is gone
  EXPECT_EQ(Grow(sketch, 4, 3, kThe), Fate::kEvaporated);  // below what is gone
  EXPECT_EQ(Grow(sketch, 5, 2, kSat), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 6, 5, kOn), Fate::kGrown);
  EXPECT_EQ(sketch.Find(6)->parent, kRoot);
  EXPECT_EQ(sketch.Child(5, kOn), sketch.Find(6));
  EXPECT_EQ(sketch.Child(2, kOn), nullptr);               // its only child is the root
  EXPECT_EQ(Grow(sketch, 7, kRoot, kThe), Fate::kKnown);  // the root as it was
  EXPECT_EQ(Grow(sketch, 8, 7, kCat), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 9, 8, kSat), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 10, 9, kOn), Fate::kKnown);
  EXPECT_EQ(sketch.Find(10), sketch.Find(6));
  EXPECT_EQ(Grow(sketch, 11, kRoot, kThe, 1), Fate::kGrown);  // the root as it is
}

TEST(Sketch, WhatItsSenderHasSeenIsForgotten) {
  Sketch sketch = Picture();
  Commit(sketch, 1, kCat);
  Commit(sketch, kRoot, kSat);
  Commit(sketch, kRoot, kOn);
  EXPECT_EQ(sketch.way_length(), 4);
  EXPECT_EQ(Grow(sketch, 3, 2, kSat, 1), Fate::kKnown);  // 2 is the root that the sender knows
  EXPECT_EQ(sketch.way_length(), 2);
  EXPECT_EQ(Grow(sketch, 4, 1, kCat, 1), Fate::kEvaporated);  // above it
  EXPECT_EQ(Grow(sketch, 5, kRoot, kOn, 2), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 6, 5, kThe, 3), Fate::kGrown);
  EXPECT_EQ(sketch.way_length(), 0);
}

TEST(Sketch, PruningDropsANodeAndAllBelowIt) {
  Sketch sketch = Picture();
  Grow(sketch, 3, 2, kOn);
  Grow(sketch, 4, 1, kSat);
  Grow(sketch, 5, 1, kCat);
  sketch.Prune(5);  // a second id of 2
  EXPECT_THAT(Ids(sketch), ElementsAre(1, 4));
  EXPECT_EQ(Grow(sketch, 6, 2, kThe), Fate::kEvaporated);
  EXPECT_EQ(Grow(sketch, 7, 5, kThe), Fate::kEvaporated);
  EXPECT_EQ(Grow(sketch, 8, 1, kCat), Fate::kGrown);  // another node now
  sketch.Prune(2);
  sketch.Prune(77);
  sketch.Prune(kRoot);
  EXPECT_THAT(Ids(sketch), ElementsAre(1, 4, 8));
  Commit(sketch, 1, kCat);
  sketch.Prune(1);
  sketch.Prune(8);
  EXPECT_EQ(Grow(sketch, 9, 8, kOn), Fate::kGrown);  // the way and the root stay
}

TEST(Sketch, AResetBeginsAnew) {
  Sketch sketch = Picture();
  Commit(sketch, 1, kSat);
  sketch.Reset(7);
  EXPECT_THAT(sketch.nodes(), IsEmpty());
  EXPECT_EQ(sketch.commit_count(), 7);
  EXPECT_EQ(sketch.way_length(), 0);
  EXPECT_EQ(sketch.Grow({1, kRoot, kThe, 1}, 6).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Grow(sketch, 1, kRoot, kThe, 7), Fate::kGrown);
}

std::string Refusal(Sketch& sketch, const Sketch::Growth& growth, uint32_t seen) {
  const std::vector<Sketch::Node> before(sketch.nodes().begin(), sketch.nodes().end());
  const NodeId last_id = sketch.last_id();
  const absl::StatusOr<Fate> fate = sketch.Grow(growth, seen);
  EXPECT_FALSE(fate.ok());
  EXPECT_EQ(std::vector(sketch.nodes().begin(), sketch.nodes().end()), before);
  EXPECT_EQ(sketch.last_id(), last_id);
  return std::string(Message(fate.status()));
}

TEST(Sketch, GrowthThatCannotBeIsRefusedInASentence) {
  Sketch sketch = Picture();
  Commit(sketch, kRoot, kThe);
  Commit(sketch, kRoot, kCat);
  EXPECT_EQ(Refusal(sketch, {2, 1, kOn, 0}, 0), "node 2 comes after node 2; ids rise strictly");
  EXPECT_EQ(Refusal(sketch, {0, 0, kOn, 0}, 0), "node 0 comes after node 2; ids rise strictly");
  EXPECT_EQ(Refusal(sketch, {5, 5, kOn, 0}, 0),
            "node 5 has node 5 as its parent, which does not come before it");
  EXPECT_EQ(Refusal(sketch, {5, 1, kOn, 16}, 0),
            "node 5 has a doubt of 16; that of an edge is at most 15");
  EXPECT_EQ(Refusal(sketch, {5, 1, kOn, 0}, 3),
            "node 5 was sent after 3 commits were seen, and there have been 2");
  Grow(sketch, 3, kRoot, kOn, 2);
  EXPECT_EQ(Refusal(sketch, {5, 3, kOn, 0}, 1),
            "node 5 was sent after 1 commits were seen, and one before it after 2");
}

TEST(Sketch, IsBoundedInNodesAndSecondIds) {
  Sketch sketch(2);
  Grow(sketch, 1, kRoot, kThe);
  Grow(sketch, 2, 1, kCat);
  EXPECT_EQ(Refusal(sketch, {3, 1, kSat, 0}, 0), "node 3 does not fit into a sketch of 2 nodes");
  EXPECT_EQ(Grow(sketch, 3, 1, kCat), Fate::kKnown);
  NodeId id = 4;
  for (; id < 100 && sketch.Grow({id, kRoot, kThe, 0}, 0).ok();) ++id;
  EXPECT_GE(id, 5);
  EXPECT_LE(id, 10);
  EXPECT_EQ(Refusal(sketch, {id, kRoot, kThe, 0}, 0),
            "node " + std::to_string(id) +
                " is known already, and a sketch of 2 nodes has no room for more second ids");
  Commit(sketch, 1, kSat);
  EXPECT_EQ(Grow(sketch, id, kRoot, kOn, 1), Fate::kGrown);  // and what it has seen is forgotten
}

TEST(Sketch, AWayTooLongForgetsItsBeginning) {
  Sketch sketch(3);
  for (TokenId token = 0; token < 6; ++token) Commit(sketch, kRoot, token);
  EXPECT_EQ(sketch.way_length(), 4);
  EXPECT_EQ(Grow(sketch, 1, kRoot, 0, 0), Fate::kEvaporated);
  EXPECT_EQ(Grow(sketch, 2, kRoot, 2, 1), Fate::kEvaporated);  // it is not what came next
  EXPECT_EQ(Grow(sketch, 3, kRoot, 2, 2), Fate::kKnown);
}

// A commit may be longer than all of the way there is room for besides.
TEST(Sketch, TheLongestCommitIsRemembered) {
  Sketch sketch(3);
  Commit(sketch, kRoot, kThe);
  for (NodeId id = 1; id <= 3; ++id) Grow(sketch, id, id - 1, kOn, 1);
  EXPECT_THAT(Commit(sketch, 3, kCat), ElementsAre(kOn, kOn, kOn, kCat));
  EXPECT_EQ(Grow(sketch, 4, kRoot, kOn, 1), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 5, 3, kCat, 1), Fate::kKnown);
  EXPECT_EQ(Grow(sketch, 6, 5, kSat, 1), Fate::kGrown);
}

// --- taking ---

Sketch RandomSketch(std::mt19937& random, uint32_t node_count) {
  Sketch sketch(node_count);
  for (NodeId id = 1; id <= node_count; ++id) {
    const auto token = static_cast<TokenId>(id);
    Grow(sketch, id, static_cast<NodeId>(random() % id), token, 0, random() % 4);
  }
  return sketch;
}

TEST(Sketch, TakesTheLeastDoubtfulNodes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Sketch sketch = RandomSketch(random, 1 + random() % 40);
    std::vector<std::pair<uint32_t, NodeId>> order;
    for (const Sketch::Node& node : sketch.nodes()) order.emplace_back(node.doubt, node.id);
    std::sort(order.begin(), order.end());
    for (uint32_t count = 0; count <= order.size() + 1; ++count) {
      std::vector<NodeId> expected;
      for (size_t i = 0; i < std::min<size_t>(count, order.size()); ++i) {
        expected.push_back(order[i].second);
      }
      std::sort(expected.begin(), expected.end());
      ASSERT_EQ(Best(sketch, count), expected);
    }
  }
}

TEST(Sketch, WhatIsTakenIncludesItsAncestors) {
  std::mt19937 random(2);
  Sketch::Taken taken;
  for (int round = 0; round < 200; ++round) {
    const Sketch sketch = RandomSketch(random, 30);
    sketch.Take(random() % 31, taken);
    ASSERT_EQ(taken.nodes.size(), taken.ids.size());
    for (size_t i = 0; i < taken.ids.size(); ++i) {
      const Sketch::Node& node = *sketch.Find(taken.ids[i]);
      const DraftedNode& drafted = taken.nodes[i];
      ASSERT_EQ(drafted.token, node.token);
      ASSERT_EQ(taken.IdOf(drafted.parent), node.parent);
      ASSERT_TRUE(drafted.parent == DraftedNode::kRoot || drafted.parent < i);
    }
  }
}

// --- two copies ---

// What a sketch is, written down plainly: everything it was ever told, each id with all the tokens
// from the epoch's beginning down to it.
class PlainSketch {
 public:
  void Grow(const Sketch::Growth& growth, uint32_t seen) {
    std::optional<Path> path;
    if (growth.parent == kRoot) {
      path = CommittedAt(seen);
    } else if (const auto parent = told_.find(growth.parent); parent != told_.end()) {
      path = parent->second.path;
    }
    if (path) path->push_back(growth.token);
    told_[growth.id] = {std::move(path), growth.doubt};
  }

  void Commit(const Path& tokens) { commits_.push_back(tokens); }

  void Prune(NodeId id) {
    const auto pruned = told_.find(id);
    if (pruned == told_.end() || !pruned->second.path) return;
    const Path gone = *pruned->second.path;
    if (!IsBelow(gone, CommittedAt(commits_.size()))) return;
    for (auto& [_, told] : told_) {
      if (told.path && (*told.path == gone || IsBelow(*told.path, gone))) told.path.reset();
    }
  }

  std::vector<Sketch::Node> nodes() const {
    const Path root = CommittedAt(commits_.size());
    std::map<Path, Sketch::Node> live = {{root, {kRoot, kRoot, 0, 0, 0}}};
    std::vector<Sketch::Node> nodes;
    for (const auto& [id, told] : told_) {
      if (!told.path || !IsBelow(*told.path, root)) continue;
      const Path above(told.path->begin(), told.path->end() - 1);
      const auto parent = live.find(above);
      if (parent == live.end()) continue;
      const auto& [parent_id, _, token, depth, doubt] = parent->second;
      const Sketch::Node node = {id, parent_id, told.path->back(), depth + 1, doubt + told.doubt};
      if (live.try_emplace(*told.path, node).second) nodes.push_back(node);
    }
    return nodes;
  }

 private:
  struct Told {
    std::optional<Path> path;  // none: pruned, or below what was
    uint32_t doubt;
  };

  static bool IsBelow(const Path& path, const Path& above) {
    return path.size() > above.size() && std::equal(above.begin(), above.end(), path.begin());
  }

  Path CommittedAt(size_t commit_count) const {
    Path path;
    for (size_t i = 0; i < commit_count; ++i) {
      path.insert(path.end(), commits_[i].begin(), commits_[i].end());
    }
    return path;
  }

  std::map<NodeId, Told> told_;
  std::vector<Path> commits_;
};

// A sketch beside the plain one, held against it after every event.
class Copy {
 public:
  explicit Copy(uint32_t node_count_max) : sketch_(node_count_max) {}

  absl::StatusOr<Fate> Grow(const Sketch::Growth& growth, uint32_t seen) {
    absl::StatusOr<Fate> fate = sketch_.Grow(growth, seen);
    if (fate.ok()) plain_.Grow(growth, seen);
    Compare();
    return fate;
  }
  Path Commit(NodeId leaf, TokenId next) {
    Path committed;
    sketch_.Commit(leaf, next, committed);
    plain_.Commit(committed);
    Compare();
    return committed;
  }
  void Prune(NodeId id) {
    sketch_.Prune(id);
    plain_.Prune(id);
    Compare();
  }
  const Sketch& sketch() const { return sketch_; }

 private:
  void Compare() const {
    const std::vector<Sketch::Node> nodes(sketch_.nodes().begin(), sketch_.nodes().end());
    ASSERT_EQ(nodes, plain_.nodes());
  }

  Sketch sketch_;
  PlainSketch plain_;
};

// A device that grows and a verifier that commits, and whatever time their messages take.
class Pair {
 public:
  Pair(uint32_t node_count_max, bool prunes, uint32_t seed)
      : node_count_max_(node_count_max),
        prunes_(prunes),
        random_(seed),
        device_(node_count_max),
        verifier_(node_count_max) {}

  void Step() {
    switch (random_() % 8) {
      case 0:
      case 1:
      case 2:
        return Draft();
      case 3:
        return Verify();
      case 4:
        if (prunes_) PruneOne();
        return;
      case 5:
        return DeliverUp();
      default:
        return random_() % 2 == 0 ? DeliverUp() : DeliverDown();
    }
  }

  void Settle() {
    while (!up_.empty()) DeliverUp();
    while (!down_.empty()) DeliverDown();
  }

  const Sketch& device() const { return device_.sketch(); }
  const Sketch& verifier() const { return verifier_.sketch(); }
  const std::set<Fate>& fates_seen() const { return fates_seen_; }

 private:
  struct Up {
    Sketch::Growth growth;
    uint32_t seen;
    NodeId pruned;  // or kRoot: it is growth
  };
  struct Down {
    NodeId leaf;
    TokenId next;
    Path committed;
  };

  TokenId AnyToken() { return static_cast<TokenId>(random_() % 3); }
  uint32_t AnyDoubt() { return static_cast<uint32_t>(random_() % 16); }

  // Any node or the root, the root also under the id it had as a node.
  NodeId AnyParent() {
    const std::span<const Sketch::Node> nodes = device().nodes();
    const size_t i = random_() % (nodes.size() + 2);
    if (i < nodes.size()) return nodes[i].id;
    return i == nodes.size() ? kRoot : root_id_;
  }

  void Draft() {
    const NodeId id = device().last_id() + 1 + (random_() % 4 == 0 ? random_() % 3 : 0);
    const Sketch::Growth growth = {id, AnyParent(), AnyToken(), AnyDoubt()};
    if (device().Child(growth.parent, growth.token) != nullptr) {
      // There is room for as many second ids as nodes, wherever they lead.
      if (second_id_count_ == node_count_max_) return;
      ++second_id_count_;
    }
    const uint32_t seen = device().commit_count();
    const absl::StatusOr<Fate> fate = device_.Grow(growth, seen);
    if (fate.ok()) {
      EXPECT_NE(*fate, Fate::kEvaporated);
      up_.push_back({growth, seen, kRoot});
    } else {
      EXPECT_EQ(device().nodes().size(), node_count_max_) << fate.status();
    }
  }

  // Not in its own copy: a verdict may name what it would have dropped.
  void PruneOne() {
    const NodeId node = AnyParent();
    if (node != kRoot) up_.push_back({{}, 0, node});
  }

  void Verify() {
    Sketch::Taken taken;
    verifier().Take(random_() % 8, taken);
    const NodeId leaf =
        taken.ids.empty() || random_() % 4 == 0 ? kRoot : taken.ids[random_() % taken.ids.size()];
    const uint32_t depth = leaf == kRoot ? 0 : verifier().Find(leaf)->depth;
    if (verifier().way_length() + depth + 1 > node_count_max_ + 1) return;
    const TokenId next = AnyToken();
    Path committed = verifier_.Commit(leaf, next);
    down_.push_back({leaf, next, std::move(committed)});
  }

  void DeliverUp() {
    if (up_.empty()) return;
    const Up up = up_.front();
    up_.pop_front();
    if (up.pruned != kRoot) return verifier_.Prune(up.pruned);
    const absl::StatusOr<Fate> fate = verifier_.Grow(up.growth, up.seen);
    ASSERT_TRUE(fate.ok()) << fate.status();  // what fits there fits here
    fates_seen_.insert(*fate);
  }

  void DeliverDown() {
    if (down_.empty()) return;
    const Down down = down_.front();
    down_.pop_front();
    ASSERT_TRUE(down.leaf == kRoot || device().Find(down.leaf) != nullptr);
    const Sketch::Node* const next = device().Child(down.leaf, down.next);
    root_id_ = next != nullptr ? next->id : kRoot;
    ASSERT_EQ(device_.Commit(down.leaf, down.next), down.committed);
  }

  const uint32_t node_count_max_;
  const bool prunes_;
  std::mt19937 random_;
  Copy device_;
  Copy verifier_;
  NodeId root_id_ = kRoot;
  uint32_t second_id_count_ = 0;
  std::deque<Up> up_;
  std::deque<Down> down_;
  std::set<Fate> fates_seen_;
};

// Each holds what a plain one would after every event, so what the order of events was does not
// matter.
TEST(SketchCopies, AgreeOnceAllIsDeliveredWhateverTookHowLong) {
  for (const uint32_t node_count_max : {1, 4, 12, 40}) {
    std::set<Fate> fates_seen;
    for (uint32_t seed = 0; seed < 150; ++seed) {
      Pair pair(node_count_max, false, seed);
      for (int phase = 0; phase < 4; ++phase) {
        for (int step = 0; step < 60; ++step) pair.Step();
        pair.Settle();
        ASSERT_THAT(pair.verifier().nodes(), ::testing::ElementsAreArray(pair.device().nodes()))
            << node_count_max << " nodes, seed " << seed;
      }
      fates_seen.insert(pair.fates_seen().begin(), pair.fates_seen().end());
    }
    EXPECT_EQ(fates_seen.size(), 3) << "growth of every fate was seen";
  }
}

TEST(SketchCopies, AVerifierToldToPruneHoldsLessAndNothingElse) {
  size_t less = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Pair pair(12, true, seed);
    for (int step = 0; step < 200; ++step) pair.Step();
    pair.Settle();
    Path here, there;
    for (const Sketch::Node& node : pair.verifier().nodes()) {
      ASSERT_NE(pair.device().Find(node.id), nullptr);
      pair.verifier().PathTo(node.id, here);
      pair.device().PathTo(node.id, there);
      ASSERT_EQ(here, there);
    }
    less += pair.verifier().nodes().size() < pair.device().nodes().size() ? 1 : 0;
  }
  EXPECT_GT(less, 30);
}

TEST(Sketch, AllocatesNothingOnceMade) {
  constexpr uint32_t kNodes = 24;
  Sketch sketch(kNodes);
  Sketch::Taken taken;
  Path path, committed;
  taken.ids.reserve(kNodes);
  taken.nodes.reserve(kNodes);
  path.reserve(kNodes);
  committed.reserve(kNodes + 1);
  std::mt19937 random(3);
  const uint64_t before = AllocationCount();
  uint32_t seen = 0;
  for (int round = 0; round < 2000; ++round) {
    for (uint32_t i = random() % 8; i > 0 && sketch.nodes().size() < kNodes; --i) {
      const std::span<const Sketch::Node> nodes = sketch.nodes();
      const size_t at = random() % (nodes.size() + 1);
      const NodeId parent = at < nodes.size() ? nodes[at].id : kRoot;
      const auto token = static_cast<TokenId>(random() % 3);
      if (sketch.Child(parent, token) == nullptr)
        Grow(sketch, sketch.last_id() + 1, parent, token, seen);
    }
    sketch.Take(12, taken);
    const uint32_t leaf = taken.ids.empty() ? DraftedNode::kRoot : random() % taken.ids.size();
    sketch.PathTo(taken.IdOf(leaf), path);
    if (random() % 8 == 0 && !taken.ids.empty()) sketch.Prune(taken.ids.back());
    committed.clear();
    sketch.Commit(sketch.Find(taken.IdOf(leaf)) != nullptr ? taken.IdOf(leaf) : kRoot,
                  static_cast<TokenId>(random() % 3), committed);
    if (round % 3 != 0) seen = sketch.commit_count();
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(sketch.commit_count(), 2000);
}

// The longest commit, and every token of it under three ids.
TEST(Sketch, AllocatesNothingForSecondIds) {
  constexpr uint32_t kNodes = 20;
  Sketch sketch(kNodes);
  Path committed;
  committed.reserve(kNodes + 1);
  const uint64_t before = AllocationCount();
  for (uint32_t round = 0; round < 3; ++round) {
    for (NodeId id = 1; id <= 3 * kNodes; id += 3) {
      const NodeId parent = id == 1 ? kRoot : 3 * kNodes * round + id - 1;
      for (uint32_t i = 0; i < 3; ++i) Grow(sketch, sketch.last_id() + 1, parent, kOn, round);
    }
    committed.clear();
    sketch.Commit(sketch.last_id(), kOn, committed);
    EXPECT_EQ(sketch.way_length(), kNodes + 1);
  }
  EXPECT_EQ(AllocationCount(), before);
}

}  // namespace
}  // namespace outrider
