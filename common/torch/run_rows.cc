#include "common/torch/run_rows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "common/model/memory/node_tree.h"

namespace outrider {
namespace {

void BeginChain(TorchSequence& sequence, size_t count) {
  if (sequence.chain_count > 0) sequence.nodes.MoveEnd(NodeTree::kChain, sequence.length);
  sequence.chain_count = static_cast<uint32_t>(count);
}

void PlaceNode(TorchSequence& sequence, const EngineNode& node) {
  const int64_t index = node.parent == EngineNode::kChain ? sequence.chain_end()
                                                          : sequence.nodes.index(node.parent) + 1;
  sequence.nodes.Place(node.slot, node.parent, static_cast<uint32_t>(index));
}

void ShowCells(int64_t first, int64_t end, bool* cells) {
  std::fill(cells + std::min(first, end), cells + end, false);
}

}  // namespace

void RunRows::Add(TorchSequence& sequence, const RunPart& part) {
  if (!part.chain.empty()) BeginChain(sequence, part.chain.size());
  const auto first_row = static_cast<int64_t>(tokens_.size());
  const int64_t first_place = part.nodes.empty() ? node_count_max_ : 0;
  const int64_t end_place = node_count_max_ + sequence.chain_end();
  std::vector<int64_t> places;
  const auto add_row = [&](TokenId token, int64_t index, int64_t place) {
    tokens_.push_back(token);
    positions_.push_back(index);
    places.push_back(place);
  };
  for (const TokenId token : part.chain) {
    const int64_t index = sequence.length + static_cast<int64_t>(places.size());
    add_row(token, index, node_count_max_ + index);
  }
  for (const EngineNode& node : part.nodes) {
    PlaceNode(sequence, node);
    add_row(node.token, sequence.nodes.index(node.slot), node.slot);
  }
  std::vector<at::Tensor> hidden;
  for (const std::optional<uint32_t> window : windows_.windows()) {
    hidden.push_back(HiddenFrom(sequence, part, first_place, end_place, window).to(device_));
  }
  segments_.push_back({&sequence, first_row, int64_t{part.row_count()}, TensorOf(places, device_),
                       first_place, end_place, std::move(hidden)});
  for (size_t i = 0; i < part.positions.size(); ++i) {
    positions_[static_cast<size_t>(first_row) + i] = part.positions[i].at[0];
  }
  for (size_t i = 0; i < part.embeddings.size(); ++i) {
    if (part.embeddings[i] == nullptr) continue;
    Give(first_row + static_cast<int64_t>(i), part.embeddings[i]);
  }
}

at::Tensor RunRows::Embedded(const TorchTransformer& model) const {
  at::Tensor embedded = model.Embed(TensorOf(tokens_, device_));
  if (given_rows_.empty()) return embedded;
  const int64_t length = embedded.size(1);
  at::Tensor given = at::empty({static_cast<int64_t>(given_.size()), length}, at::kFloat);
  for (size_t i = 0; i < given_.size(); ++i) {
    std::copy_n(given_[i], length, given.data_ptr<float>() + static_cast<int64_t>(i) * length);
  }
  return embedded.index_copy_(0, TensorOf(given_rows_, device_), given.to(device_));
}

// The token it replaces may be none of the vocabulary.
void RunRows::Give(int64_t row, const float* embedding) {
  tokens_[static_cast<size_t>(row)] = 0;
  given_rows_.push_back(row);
  given_.push_back(embedding);
}

// Which of the places [first_place, end_place) rows that have been placed do not see.
at::Tensor RunRows::HiddenFrom(TorchSequence& sequence, const RunPart& part, int64_t first_place,
                               int64_t end_place, std::optional<uint32_t> window) const {
  const int64_t length = end_place - first_place;
  at::Tensor hidden = at::full({1, int64_t{part.row_count()}, length}, true, at::kBool);
  const auto first_seen = [&](int64_t index) {
    return window ? std::max<int64_t>(0, index + 1 - *window) : 0;
  };
  bool* row = hidden.data_ptr<bool>();
  for (size_t i = 0; i < part.chain.size(); ++i, row += length) {
    const int64_t index = sequence.length + static_cast<int64_t>(i);
    ShowCells(first_seen(index), index + 1, row + node_count_max_ - first_place);
  }
  for (const EngineNode& node : part.nodes) {
    const int64_t first = first_seen(sequence.nodes.index(node.slot));
    const std::span<const uint32_t> path = sequence.nodes.PathTo(node.slot);
    ShowCells(first, sequence.nodes.index(path.front()), row + node_count_max_);
    for (const uint32_t slot : path) {
      if (sequence.nodes.index(slot) >= first) row[slot] = false;
    }
    row += length;
  }
  return hidden;
}

}  // namespace outrider
