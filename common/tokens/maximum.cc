#include "common/tokens/maximum.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace outrider {
namespace {

// Independent running maxima, which the compiler keeps in vector registers.
constexpr size_t kLanes = 16;

// Small enough that looking a block through again costs nothing beside the pass.
constexpr size_t kBlockLength = 2048;

struct BlockMaximum {
  float value;
  bool sound;
};

BlockMaximum MaximumOfBlock(const float* x) {
  std::array<float, kLanes> best;
  std::array<int32_t, kLanes> sound;
  best.fill(-kInfinity);
  sound.fill(-1);
  for (size_t i = 0; i < kBlockLength; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const float value = x[i + lane];
      best[lane] = value > best[lane] ? value : best[lane];
      sound[lane] &= value < kInfinity ? -1 : 0;  // NaN is below nothing
    }
  }
  BlockMaximum result = {best[0], sound[0] != 0};
  for (size_t lane = 1; lane < kLanes; ++lane) {
    result.value = std::max(result.value, best[lane]);
    result.sound &= sound[lane] != 0;
  }
  return result;
}

BlockMaximum MaximumOfRest(std::span<const float> logits) {
  BlockMaximum result = {-kInfinity, true};
  for (const float value : logits) {
    if (value > result.value) result.value = value;
    result.sound &= value < kInfinity;
  }
  return result;
}

}  // namespace

Maximum FindMaximum(std::span<const float> logits) {
  Maximum maximum = {-kInfinity, 0, true};
  size_t winner = 0;  // where the block begins that first had the maximum
  for (size_t begin = 0; begin < logits.size(); begin += kBlockLength) {
    const bool whole = logits.size() - begin >= kBlockLength;
    const BlockMaximum block =
        whole ? MaximumOfBlock(logits.data() + begin) : MaximumOfRest(logits.subspan(begin));
    maximum.sound &= block.sound;
    if (block.value > maximum.value) {
      maximum.value = block.value;
      winner = begin;
    }
  }
  const auto first =
      std::find(logits.begin() + static_cast<ptrdiff_t>(winner), logits.end(), maximum.value);
  if (first != logits.end()) maximum.token = static_cast<TokenId>(first - logits.begin());
  return maximum;
}

}  // namespace outrider
