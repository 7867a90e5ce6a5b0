// A draft written down by hand, for policies to look at.
#pragma once

#include <cstdint>
#include <vector>

#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/outcome_posterior.h"
#include "common/speculation/policies/tree_policy.h"

namespace outrider {

class HandDraft {
 public:
  HandDraft() : nodes(1) {}
  explicit HandDraft(const CostModel::Assumed& assumed) : nodes(1), costs(assumed) {}

  // Returns its index. The children of the root and of every node are unknown until Expanded().
  uint32_t Node(uint32_t parent, TokenId token, double confidence) {
    DraftNode node;
    node.id = static_cast<NodeId>(nodes.size());
    node.parent = parent;
    node.token = token;
    node.depth = nodes[parent].depth + 1;
    node.confidence = confidence;
    node.sent = false;
    node.at_target = node.in_pass = false;
    nodes.push_back(node);
    nodes[parent].children = DraftNode::Children::kDrafted;
    return node.id;
  }

  void Candidate(uint32_t parent, TokenId token, uint32_t rank, double confidence) {
    candidates.push_back({parent, token, rank, confidence, 0});
    nodes[parent].children = DraftNode::Children::kDrafted;
  }

  void TakeAll() {
    for (DraftNode& node : nodes) node.sent = node.at_target = node.in_pass = true;
    pass_running = true;
  }

  DraftView View() {
    posterior.Spread(nodes);
    return {.nodes = nodes,
            .candidates = candidates,
            .costs = costs,
            .now = MonotonicTime(),
            .pass_running = pass_running,
            .pass_begin = MonotonicTime(),
            .target_waits = true,
            .takes_turns = takes_turns,
            .pass_node_count_max = pass_node_count_max,
            .batch_node_count_max = batch_node_count_max,
            .child_count_max = 5,
            .room = room};
  }

  std::vector<uint32_t> Joins(TreePolicy& policy) {
    std::vector<uint32_t> joins;
    policy.Join(View(), joins);
    return joins;
  }

  // The nodes of the batch.
  std::vector<uint32_t> Expands(TreePolicy& policy) {
    std::vector<Expansion> batch;
    policy.Expand(View(), batch);
    std::vector<uint32_t> indices;
    for (const Expansion& expansion : batch) indices.push_back(expansion.node);
    return indices;
  }

  std::vector<DraftNode> nodes;
  std::vector<DraftCandidate> candidates;
  CostModel costs;
  OutcomePosterior posterior;
  bool pass_running = false;
  bool takes_turns = false;
  uint32_t pass_node_count_max = 16;
  uint32_t batch_node_count_max = 8;
  uint32_t room = 100;
};

}  // namespace outrider
