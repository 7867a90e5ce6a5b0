// Exit heads of random weights for a test's model.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "common/formats/models/exits_file.h"
#include "common/model/exits/exit_scorer.h"
#include "common/model/model_spec.h"

namespace outrider {

// `strength` scales `up`: 0 makes identities. Weights are halves.
inline TrainedExits RandomExits(const ModelSpec& spec, uint64_t content_hash,
                                const std::vector<uint32_t>& layers, uint32_t rank,
                                float strength) {
  std::mt19937 random(11);
  const auto weight = [&](float scale) {
    return scale * static_cast<float>(static_cast<int>(random() % 2049) - 1024) / 1024;
  };
  TrainedExits exits;
  exits.target = DescribeForExits(spec, content_hash);
  for (const uint32_t layer : layers) {
    TrainedExit exit;
    exit.layer = layer;
    exit.rank = rank;
    const size_t count = size_t{rank} * spec.embedding_length;
    for (size_t i = 0; i < count; ++i) exit.down.push_back(weight(0.125f));
    for (size_t i = 0; i < count; ++i) exit.up.push_back(weight(strength));
    exits.exits.push_back(std::move(exit));
  }
  for (uint32_t token = 3; token < spec.vocabulary_size; token += 7) {
    exits.frequent_tokens.push_back(static_cast<TokenId>(token));
  }
  return exits;
}

}  // namespace outrider
