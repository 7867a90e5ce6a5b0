// What a sequence is, said the plain way, for scripts to hold sequence memory against: the tokens
// that are committed, those of the present chain, and for every node the way of tokens and slots
// down to it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/model/memory/node_tree.h"

namespace outrider {

using Tokens = std::vector<TokenId>;

struct NaiveNode {
  Tokens way;                   // from the sequence's beginning
  std::vector<uint32_t> slots;  // from below the chain, with its own
  size_t chain_length;          // where it leaves the chain

  bool passes(uint32_t slot) const { return std::ranges::count(slots, slot) > 0; }
};

struct NaiveSequence {
  static constexpr uint32_t kChain = NodeTree::kChain;

  Tokens committed;
  Tokens chain;  // with those of the present chain
  std::map<uint32_t, NaiveNode> nodes;

  uint32_t chain_count() const { return static_cast<uint32_t>(chain.size() - committed.size()); }

  // Below the chain there is a node without a slot: the chain itself.
  NaiveNode At(uint32_t slot) const {
    return slot == kChain ? NaiveNode{chain, {}, chain.size()} : nodes.at(slot);
  }

  // Any node, or the chain.
  uint32_t AnySlot(std::mt19937& random) const {
    if (nodes.empty() || random() % 4 == 0) return kChain;
    return std::next(nodes.begin(), static_cast<ptrdiff_t>(random() % nodes.size()))->first;
  }

  void PlaceChain(std::span<const TokenId> tokens) {
    std::erase_if(nodes, [&](const auto& node) {
      return chain_count() > 0 && node.second.chain_length != committed.size();
    });
    chain = committed;
    chain.insert(chain.end(), tokens.begin(), tokens.end());
  }

  // Down to each row of the present chain.
  std::vector<Tokens> ChainWays() const {
    std::vector<Tokens> ways;
    for (size_t end = committed.size(); end < chain.size(); ++end) {
      ways.emplace_back(chain.begin(), chain.begin() + static_cast<ptrdiff_t>(end) + 1);
    }
    return ways;
  }

  void PlaceNode(uint32_t slot, NaiveNode node) {
    std::erase_if(nodes, [&](const auto& other) { return other.second.passes(slot); });
    nodes[slot] = std::move(node);
  }

  // So many of the chain, or all of it and the way down to the slot `end`.
  void Commit(uint32_t chain_count, uint32_t end) {
    const NaiveNode taken = At(end);
    const size_t length = committed.size() + chain_count;
    committed = taken.way;
    if (end == kChain) committed.resize(length);
    chain = committed;
    std::erase_if(nodes, [&](const auto& entry) {
      const auto& [slot, node] = entry;
      return end == kChain ? node.chain_length != length : slot == end || !node.passes(end);
    });
    for (auto& [slot, node] : nodes) {
      node.slots.erase(node.slots.begin(),
                       node.slots.begin() + static_cast<ptrdiff_t>(taken.slots.size()));
      node.chain_length = committed.size();
    }
  }

  // All but so many tokens.
  void Forget(size_t length) {
    committed.resize(length);
    chain = committed;
    nodes.clear();
  }
};

}  // namespace outrider
