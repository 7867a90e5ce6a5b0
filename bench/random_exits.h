// Exits of random weights, which cost what trained ones do: rank 64, F16, after layers at 50 to 90 %
// of the depth, and 256 frequent tokens from all over the vocabulary.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>

#include "common/engine/engine.h"
#include "common/formats/models/exits_file.h"

namespace outrider {

inline TrainedExits FiveRandomExits(const Engine& engine) {
  constexpr uint32_t kRank = 64, kFrequentCount = 256;
  const ModelSpec& spec = engine.spec();
  std::mt19937 random(1);
  const auto weight = [&] {
    return static_cast<float>(static_cast<int>(random() % 201) - 100) / 4096;
  };
  TrainedExits exits;
  exits.target = DescribeForExits(spec, engine.info().content_hash);
  exits.type = TensorType::kF16;
  for (const uint32_t percent : {50, 60, 70, 80, 90}) {
    TrainedExit exit;
    exit.layer = spec.layer_count() * percent / 100 - 1;
    exit.rank = kRank;
    exit.down.resize(size_t{kRank} * spec.embedding_length);
    exit.up.resize(exit.down.size());
    std::ranges::generate(exit.down, weight);
    std::ranges::generate(exit.up, weight);
    exits.exits.push_back(std::move(exit));
  }
  for (uint32_t i = 0; i < kFrequentCount; ++i) {
    exits.frequent_tokens.push_back(
        static_cast<TokenId>(uint64_t{i} * spec.vocabulary_size / kFrequentCount));
  }
  return exits;
}

}  // namespace outrider
