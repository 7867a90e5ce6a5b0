// A device's copy of a sketch and a verifier's, whatever time their messages take.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "common/tokens/sketch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {
namespace {

using Fate = Sketch::Fate;
using Path = std::vector<TokenId>;

constexpr NodeId kRoot = Sketch::kRoot;

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

}  // namespace
}  // namespace outrider
