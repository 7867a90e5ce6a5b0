// The law of sequence memory, for layers of every kind at once: in any script of runs, commits,
// forks, evictions and cuts, with so few pages that some of it is refused, every row sees what the
// tokens on its own way left behind, and nothing else; and no page is lost.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/memory/marked_memory.h"
#include "tests/model/memory/script.h"

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
      : choices_(seed,
                 {.token_count = 20, .slot_count = kLimits.node_count_max, .depth_max = kDepthMax}),
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

  // Nothing is lost.
  void End() {
    for (Text& text : texts_) text.memory->Clear();
    const Ledger& ledger = marked_.memory->ledger();
    for (uint32_t group = 0; group < ledger.group_count(); ++group) {
      EXPECT_EQ(ledger.free_count(group), ledger.group(group).page_count);
    }
  }

  const ScriptCounts& counts() const { return counts_; }

 private:
  uint32_t Below(size_t end) { return choices_.Below(end); }

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
      const std::optional<ScriptChoices::Node> node = choices_.PlaceNode(text, written);
      if (!node) continue;
      marked_.batch.AddNode(*text.memory, node->way.back(), node->parent, node->slot);
      ways_.push_back(node->way);
    }
  }

  void AddChain(Text& text, uint32_t count) {
    const Tokens tokens = choices_.SomeTokens(count);
    text.PlaceChain(tokens);
    for (Tokens& way : text.ChainWays()) ways_.push_back(std::move(way));
    marked_.batch.AddChain(*text.memory, tokens);
  }

  void Commit(Text& text) {
    const auto [chain_count, end] = choices_.AnyCommit(text);
    text.memory->Commit(chain_count, text.At(end).slots);
    text.Commit(chain_count, end);
    if (end != NaiveSequence::kChain) ++counts_.paths;
    ExpectSame(text);
  }

  void ExpectSame(const Text& text) {
    marked_.ExpectBase(*text.memory, text.committed);
    ASSERT_EQ(text.memory->length(), text.committed.size());
    for (uint32_t slot = 0; slot < kLimits.node_count_max; ++slot) {
      ASSERT_EQ(text.memory->nodes().Has(slot), text.nodes.contains(slot)) << slot;
    }
  }

  ScriptChoices choices_;
  MarkedMemory marked_;
  std::vector<Text> texts_;
  std::vector<Tokens> ways_;  // by row
  ScriptCounts counts_;
};

TEST(SequenceMemory, EveryRowSeesItsOwnWayInAnyScript) {
  const ScriptCounts all = RunScripts(12, 300, [](uint32_t seed) { return Script(seed); });
  EXPECT_GT(all.rows, 10000u);
  EXPECT_GT(all.refusals, 100u);
  EXPECT_GT(all.forks, 150u);
  EXPECT_GT(all.losses, 40u);
  EXPECT_GT(all.paths, 400u);
}

}  // namespace
}  // namespace outrider
