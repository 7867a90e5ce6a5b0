// The law of sequence memory, for layers of every kind at once: in any script of runs, commits,
// forks, evictions and cuts, with so few pages that some of it is refused, every row sees what the
// tokens on its own way left behind, and nothing else; and no page is lost.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/memory/marked_memory.h"

namespace outrider {
namespace {

constexpr SequenceLimits kLimits = {.length_max = 200, .node_count_max = 40, .row_count_max = 70};
constexpr uint32_t kDepthMax = 8;

struct Text : NaiveSequence {
  explicit Text(MarkedMemory& marked) : memory(marked.New()) {}

  std::unique_ptr<SequenceMemory> memory;
};

class Script {
 public:
  explicit Script(uint32_t seed)
      : random_(seed),
        marked_(MarkedMemory::EveryKind(), kLimits, std::array{14u, 12u, 11u, 12u, 3u}) {
    for (int i = 0; i < 4; ++i) texts_.emplace_back(marked_);
  }

  void Step() {
    Text& text = texts_[Below(texts_.size())];
    switch (Below(12)) {
      case 0:
        return Clear(text);
      case 1:
        return Fork(text, texts_[Below(texts_.size())]);
      case 2:
        return TakeBack(text);
      case 3:
        text.memory->DropNodes();
        text.nodes.clear();
        return;
      default:
        return Run();
    }
  }

  void ExpectNothingIsLost() {
    for (Text& text : texts_) text.memory->Clear();
    const Ledger& ledger = marked_.memory->ledger();
    for (uint32_t group = 0; group < ledger.group_count(); ++group) {
      EXPECT_EQ(ledger.free_count(group), ledger.group(group).page_count);
    }
  }

  // How much of it has come to pass.
  struct Counts {
    uint32_t rows = 0, refusals = 0, forks = 0, losses = 0, paths = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  uint32_t Below(size_t end) { return static_cast<uint32_t>(random_() % end); }
  TokenId AnyToken() { return static_cast<TokenId>(Below(20)); }

  static void Clear(Text& text) {
    text.memory->Clear();
    text.Forget(0);
  }

  void Fork(Text& from, Text& to) {
    if (&from == &to) return;
    Clear(to);
    const auto length = static_cast<uint32_t>(from.committed.size());
    const bool is_part = length > 0 && Below(4) == 0;
    if (!to.memory->ForkFrom(*from.memory, is_part ? Below(length) : length).ok()) {
      ++counts_.refusals;
      return;
    }
    if (!is_part) to.committed = to.chain = from.committed;
    marked_.ExpectBase(*to.memory, to.committed);
    ++counts_.forks;
  }

  void TakeBack(Text& text) {
    const uint32_t length = Below(3) == 0 ? Below(text.committed.size() + 1)
                                          : static_cast<uint32_t>(text.committed.size());
    const bool is_lost = length < text.committed.size();  // its state has gone on
    const uint32_t left = text.memory->Truncate(length);
    ASSERT_EQ(left, is_lost ? 0 : length);
    if (is_lost) ++counts_.losses;
    text.Forget(left);
    marked_.ExpectBase(*text.memory, text.committed);
  }

  void Run() {
    marked_.batch.Clear();
    ways_.clear();
    std::vector<Text*> running;
    for (Text& text : texts_) {
      const uint32_t before = marked_.batch.row_count();
      if (Below(2) == 0) AddPart(text);
      if (marked_.batch.row_count() > before) running.push_back(&text);
    }
    counts_.rows += marked_.batch.row_count();
    marked_.Pass(ways_);
    for (Text* text : running) {
      if (Below(4) > 0) Commit(*text);
    }
  }

  // A chain, or more of the tree below the last one.
  void AddPart(Text& text) {
    if (text.committed.size() > 150) return Clear(text);
    const size_t longest = std::min<size_t>(Below(3) == 0 ? 45 : 3, 150 - text.committed.size());
    const uint32_t chain = std::min(Below(longest + 1), marked_.batch.free_row_count());
    const uint32_t cells = std::max(chain, text.chain_count()) + kDepthMax;
    if (!text.memory->Reserve(cells, kLimits.node_count_max).ok()) {
      ++counts_.refusals;
      return;
    }
    if (chain > 0) AddChain(text, chain);
    if (text.chain.empty()) return;
    std::vector<uint32_t> written;  // slots that rows of this run need
    for (uint32_t i = std::min(marked_.batch.free_row_count(), Below(14)); i > 0; --i) {
      AddNode(text, written);
    }
  }

  void AddChain(Text& text, uint32_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = AnyToken();
    text.PlaceChain(tokens);
    for (size_t end = text.committed.size(); end < text.chain.size(); ++end) {
      ways_.emplace_back(text.chain.begin(), text.chain.begin() + static_cast<ptrdiff_t>(end) + 1);
    }
    marked_.batch.AddChain(*text.memory, tokens);
  }

  // Below any node or the chain, into any slot that this run can do without.
  void AddNode(Text& text, std::vector<uint32_t>& written) {
    const uint32_t slot = Below(kLimits.node_count_max);
    const uint32_t parent = text.AnySlot(random_);
    NaiveNode node = text.At(parent);
    if (node.passes(slot) || node.slots.size() == kDepthMax) return;
    if (std::ranges::count(written, slot) > 0) return;
    if (text.nodes.contains(slot) && Below(3) > 0) return;
    node.way.push_back(AnyToken());
    node.slots.push_back(slot);
    marked_.batch.AddNode(*text.memory, node.way.back(), parent, slot);
    ways_.push_back(node.way);
    written.insert(written.end(), node.slots.begin(), node.slots.end());
    text.PlaceNode(slot, std::move(node));
  }

  void Commit(Text& text) {
    uint32_t end = text.AnySlot(random_);
    if (text.At(end).chain_length != text.chain.size()) end = NaiveSequence::kChain;
    const bool by_itself = end == NaiveSequence::kChain;
    const uint32_t chain_count =
        by_itself && Below(3) == 0 ? Below(text.chain_count() + 1) : text.chain_count();
    text.memory->Commit(chain_count, text.At(end).slots);
    text.Commit(chain_count, end);
    if (!by_itself) ++counts_.paths;
    ExpectSame(text);
  }

  void ExpectSame(const Text& text) {
    marked_.ExpectBase(*text.memory, text.committed);
    ASSERT_EQ(text.memory->length(), text.committed.size());
    for (uint32_t slot = 0; slot < kLimits.node_count_max; ++slot) {
      ASSERT_EQ(text.memory->nodes().Has(slot), text.nodes.contains(slot)) << slot;
    }
  }

  std::mt19937 random_;
  MarkedMemory marked_;
  std::vector<Text> texts_;
  std::vector<Tokens> ways_;  // by row
  Counts counts_;
};

TEST(SequenceMemory, EveryRowSeesItsOwnWayInAnyScript) {
  Script::Counts all;
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Script script(seed);
    for (int step = 0; step < 300; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      script.Step();
      if (testing::Test::HasFailure()) return;
    }
    script.ExpectNothingIsLost();
    const Script::Counts& counts = script.counts();
    all.rows += counts.rows;
    all.refusals += counts.refusals;
    all.forks += counts.forks;
    all.losses += counts.losses;
    all.paths += counts.paths;
  }
  EXPECT_GT(all.rows, 10000u);
  EXPECT_GT(all.refusals, 100u);
  EXPECT_GT(all.forks, 150u);
  EXPECT_GT(all.losses, 40u);
  EXPECT_GT(all.paths, 400u);
}

}  // namespace
}  // namespace outrider
