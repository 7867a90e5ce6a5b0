// Scripts of runs over sequences: what they choose at random, whatever they drive (sequence memory,
// an engine), and how much of everything has come to pass.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/model/memory/naive_sequence.h"

namespace outrider {

struct ScriptCounts {
  uint32_t rows = 0, refusals = 0, forks = 0, losses = 0, rereads = 0, paths = 0;

  void Add(const ScriptCounts& other) {
    rows += other.rows;
    refusals += other.refusals;
    forks += other.forks;
    losses += other.losses;
    rereads += other.rereads;
    paths += other.paths;
  }
};

// How large what is chosen may be.
struct ScriptLimits {
  uint32_t token_count;  // few, where ways are to be shared
  uint32_t slot_count;
  uint32_t depth_max;
};

class ScriptChoices {
 public:
  ScriptChoices(uint32_t seed, const ScriptLimits& limits) : limits_(limits), random_(seed) {}

  uint32_t Below(size_t end) { return static_cast<uint32_t>(random_() % end); }
  Tokens SomeTokens(uint32_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = AnyToken();
    return tokens;
  }

  struct Node {
    uint32_t slot;
    uint32_t parent;
    Tokens way;  // its own token is the last
  };
  // Goes below any node of `text` or its chain, into any slot that this run can do without:
  // `written` are those it needs. None: the dice fell badly.
  std::optional<Node> PlaceNode(NaiveSequence& text, std::vector<uint32_t>& written) {
    const uint32_t slot = Below(limits_.slot_count);
    const uint32_t parent = text.AnySlot(random_);
    NaiveNode node = text.At(parent);
    if (node.passes(slot) || node.slots.size() == limits_.depth_max) return std::nullopt;
    if (std::ranges::count(written, slot) > 0) return std::nullopt;
    if (text.nodes.contains(slot) && Below(3) > 0) return std::nullopt;
    node.way.push_back(AnyToken());
    node.slots.push_back(slot);
    written.insert(written.end(), node.slots.begin(), node.slots.end());
    Node placed = {slot, parent, node.way};
    text.PlaceNode(slot, std::move(node));
    return placed;
  }

  // Some of the chain, or all of it and a way down to the slot `end`.
  struct Commit {
    uint32_t chain_count;
    uint32_t end;
  };
  Commit AnyCommit(const NaiveSequence& text) {
    uint32_t end = text.AnySlot(random_);
    if (text.At(end).chain_length != text.chain.size()) end = NaiveSequence::kChain;
    const bool is_part = end == NaiveSequence::kChain && Below(3) == 0;
    return {is_part ? Below(text.chain_count() + 1) : text.chain_count(), end};
  }

 private:
  TokenId AnyToken() { return static_cast<TokenId>(Below(limits_.token_count)); }

  const ScriptLimits limits_;
  std::mt19937 random_;
};

// Every seed makes a script, which takes so many steps and ends, unless something fails. A script
// has Step(), End() and counts().
template <typename MakeScript>
ScriptCounts RunScripts(uint32_t seed_count, int step_count, const MakeScript& make) {
  ScriptCounts all;
  for (uint32_t seed = 0; seed < seed_count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto script = make(seed);
    for (int step = 0; step < step_count; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      script.Step();
      if (testing::Test::HasFailure()) return all;
    }
    script.End();
    all.Add(script.counts());
  }
  return all;
}

}  // namespace outrider
