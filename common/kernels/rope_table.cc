#include "common/kernels/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"
#include "common/base/portable_math.h"

namespace outrider {
namespace {

// Where yarn changes from the frequencies as they were (below low) to stretched ones (above high).
struct YarnRange {
  float low;
  float high;
};

// The pair, as a real number, that turns `beta` times within the original context.
double YarnPair(const Rope& rope, float beta) {
  const double turns = rope.original_context_length / (double{beta} * 2 * std::numbers::pi);
  return rope.dimension_count * portable::Log(turns) / (2 * portable::Log(double{rope.base}));
}

YarnRange RangeOf(const Rope& rope) {
  const double low = std::max(std::floor(YarnPair(rope, rope.yarn_beta_fast)), 0.0);
  const double high =
      std::min(std::ceil(YarnPair(rope, rope.yarn_beta_slow)), rope.dimension_count - 1.0);
  return {static_cast<float>(low), static_cast<float>(high == low ? high + 0.001 : high)};
}

}  // namespace

RopeTable::RopeTable(const Rope& rope, std::span<const float> factors)
    : attention_factor_(rope.scaling == RopeScaling::kYarn ? rope.attention_factor : 1.0f) {
  if (rope.style == RopeStyle::kNone) return;
  OUTRIDER_CHECK(rope.scaling != RopeScaling::kLongRope, "longrope is refused before");
  const uint32_t pairs = rope.dimension_count / 2;
  const bool has_factors = rope.scaling == RopeScaling::kLlama3;
  OUTRIDER_CHECK(!has_factors || factors.size() == pairs, "llama3 scaling has its tensor");
  const YarnRange range = rope.scaling == RopeScaling::kYarn ? RangeOf(rope) : YarnRange{0, 1};

  for (uint32_t i = 0; i < pairs; ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.dimension_count);
    const auto g = static_cast<float>(portable::Pow(double{rope.base}, double{exponent}));
    float frequency = 1.0f / g;
    if (rope.scaling == RopeScaling::kLinear) frequency = frequency / rope.factor;
    if (has_factors) frequency = frequency / factors[i];
    if (rope.scaling == RopeScaling::kYarn) {
      const float ramp = (static_cast<float>(i) - range.low) / (range.high - range.low);
      const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
      frequency = (1.0f / (rope.factor * g)) * (1.0f - kept) + frequency * kept;
    }
    frequencies_.push_back(frequency);
  }
}

void RopeTable::Turn(uint32_t position, float* cosines, float* sines) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies_[i];
    const portable::SinCosResult turn = portable::SinCos(double{angle});
    cosines[i] = static_cast<float>(turn.cos) * attention_factor_;
    sines[i] = static_cast<float>(turn.sin) * attention_factor_;
  }
}

}  // namespace outrider
