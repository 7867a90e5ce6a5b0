// What the engine on libtorch keeps of one sequence: committed cells, a chain behind them that is not
// committed yet, and nodes.
#pragma once

#include <cstdint>
#include <vector>

#include "common/engine/engine.h"
#include "common/model/memory/ledger.h"
#include "common/model/memory/node_tree.h"
#include "common/torch/layer_cache.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

struct TorchSequence {
  explicit TorchSequence(const EngineInfo& info) : nodes(info.node_count_max) {}

  int64_t chain_end() const { return int64_t{length} + chain_count; }
  void Forget() {
    chain_count = 0;
    nodes.Clear();
  }

  uint64_t id = 0;  // 0: nobody's
  PageOwner pages{};
  std::vector<LayerCache> layers;
  std::vector<TorchTransformer::Heard> heard;  // by layer; empty: nothing yet
  std::vector<uint32_t> encoder_pages;
  uint32_t length = 0;
  uint32_t chain_count = 0;
  NodeTree nodes;
  uint64_t last_run = 0;
};

}  // namespace outrider
