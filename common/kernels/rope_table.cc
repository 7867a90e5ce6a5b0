#include "common/kernels/rope_table.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "common/base/portable_math.h"
#include "common/base/status.h"
#include "common/kernels/attention.h"

namespace outrider {
namespace {

// As GGUF and Hugging Face spell it.
constexpr std::string_view kBase = "rope.freq_base (or rope_theta)";

constexpr double kTwoPi = 6.283185307179586;

bool IsPositive(float x) {
  return x > 0.0f && std::isfinite(x);
}

absl::Status CheckYarn(const Rope& rope) {
  if (!(rope.base > 1.0f)) {
    return InvalidArgument(kBase, " is ", rope.base, ", must be above 1 for yarn scaling");
  }
  if (rope.original_context_length == 0) {
    return InvalidArgument(
        "yarn scaling needs rope.scaling.original_context_length (or "
        "original_max_position_embeddings)");
  }
  if (!IsPositive(rope.yarn_beta_fast) || !IsPositive(rope.yarn_beta_slow)) {
    return InvalidArgument("yarn scaling's beta_fast is ", rope.yarn_beta_fast, " and beta_slow ",
                           rope.yarn_beta_slow, ", must be positive");
  }
  return absl::OkStatus();
}

const char* DivisorsOf(const Rope& rope) {
  if (rope.scaling != RopeScaling::kLongRope) return "rope_freqs.weight";
  return rope.is_long ? "rope_factors_long.weight" : "rope_factors_short.weight";
}

absl::Status CheckDivisors(const Rope& rope, std::span<const float> divisors, size_t count) {
  if (divisors.size() != count) {
    return InvalidArgument(DivisorsOf(rope), " has ", divisors.size(), " factors, must have ",
                           count, " for this rope");
  }
  for (size_t i = 0; i < divisors.size(); ++i) {
    if (!IsPositive(divisors[i])) {
      return InvalidArgument(DivisorsOf(rope), ": factor ", i, " is ", divisors[i],
                             ", must be positive");
    }
  }
  return absl::OkStatus();
}

absl::Status Check(const Rope& rope, std::span<const float> divisors) {
  if (rope.dimension_count % 2 != 0 || rope.dimension_count > kHeadLengthMax) {
    return InvalidArgument("rope dimension count is ", rope.dimension_count,
                           ", must be even and at most ", kHeadLengthMax);
  }
  if (!IsPositive(rope.base) || !IsPositive(rope.factor) || !IsPositive(rope.attention_factor)) {
    return InvalidArgument(kBase, " is ", rope.base, ", rope.scaling.factor ", rope.factor,
                           ", what cosines and sines are multiplied by ", rope.attention_factor,
                           ": each must be positive and finite");
  }
  switch (rope.scaling) {
    case RopeScaling::kYarn:
      OUTRIDER_RETURN_IF_ERROR(CheckYarn(rope));
      break;
    case RopeScaling::kNone:
    case RopeScaling::kLinear:
    case RopeScaling::kLlama3:
    case RopeScaling::kLongRope:
      break;
  }
  const bool divides =
      rope.scaling == RopeScaling::kLlama3 || rope.scaling == RopeScaling::kLongRope;
  return CheckDivisors(rope, divisors, divides ? rope.dimension_count / 2 : 0);
}

// YaRN turns dimensions that go round more than beta_fast times within the original context at
// their own pace, those below beta_slow times at an interpolated one, and those between at a
// mixture.
class YarnRamp {
 public:
  explicit YarnRamp(const Rope& rope) {
    const double largest = rope.dimension_count - 1.0;  // of dimensions, though pairs are meant
    const bool whole = rope.yarn_whole_dimensions;
    const double from = Dimension(rope, rope.yarn_beta_fast);
    const double to = Dimension(rope, rope.yarn_beta_slow);
    const double low = std::max(whole ? std::floor(from) : from, 0.0);
    double high = std::min(whole ? std::ceil(to) : to, largest);
    if (low == high) high += 0.001;  // a steep step instead of 0 / 0
    low_ = static_cast<float>(low);
    width_ = static_cast<float>(high - low);
  }

  // 0: as it is. 1: interpolated.
  float At(uint32_t i) const {
    return std::clamp((static_cast<float>(i) - low_) / width_, 0.0f, 1.0f);
  }

 private:
  // The pair i that goes round `beta` times within the original context L: it turns by
  // base^(-2i / n) a position, n dimensions in all, so beta * 2 pi = L * base^(-2i / n).
  static double Dimension(const Rope& rope, double beta) {
    const double turns = rope.original_context_length / (beta * kTwoPi);
    return rope.dimension_count * portable::Log(turns) / (2.0 * portable::Log(rope.base));
  }

  float low_;
  float width_;
};

// What the plain frequency i is one over.
float Power(const Rope& rope, uint32_t i) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope.dimension_count);
  return static_cast<float>(portable::Pow(rope.base, exponent));
}

void MakeYarnFrequencies(const Rope& rope, std::vector<float>& frequencies) {
  const YarnRamp ramp(rope);
  for (uint32_t i = 0; i < frequencies.size(); ++i) {
    const float g = Power(rope, i);
    const float k = 1.0f - ramp.At(i);
    frequencies[i] = (1.0f / (rope.factor * g)) * (1.0f - k) + (1.0f / g) * k;
  }
}

std::vector<float> Frequencies(const Rope& rope, std::span<const float> divisors) {
  std::vector<float> frequencies(rope.dimension_count / 2);
  if (rope.scaling == RopeScaling::kYarn) {
    MakeYarnFrequencies(rope, frequencies);
    return frequencies;
  }
  for (uint32_t i = 0; i < frequencies.size(); ++i) {
    if (rope.scaling == RopeScaling::kLongRope) {
      frequencies[i] = 1.0f / (divisors[i] * Power(rope, i));
      continue;
    }
    frequencies[i] = 1.0f / Power(rope, i);
    if (rope.scaling == RopeScaling::kLinear) frequencies[i] /= rope.factor;
    if (rope.scaling == RopeScaling::kLlama3) frequencies[i] /= divisors[i];
  }
  return frequencies;
}

}  // namespace

absl::StatusOr<RopeTable> RopeTable::Create(const Rope& rope, std::span<const float> divisors) {
  if (rope.style == RopeStyle::kNone) return RopeTable({}, 1.0f);
  OUTRIDER_RETURN_IF_ERROR(Check(rope, divisors));
  std::vector<float> frequencies = Frequencies(rope, divisors);
  for (const float frequency : frequencies) {
    if (!std::isfinite(frequency)) {
      return InvalidArgument(kBase, " of ", rope.base, " and rope.scaling.factor of ", rope.factor,
                             " make a frequency of ", frequency);
    }
  }
  const bool is_stretched =
      rope.scaling == RopeScaling::kYarn || rope.scaling == RopeScaling::kLongRope;
  return RopeTable(std::move(frequencies), is_stretched ? rope.attention_factor : 1.0f);
}

void RopeTable::Turn(uint32_t position, float* cos, float* sin) const {
  for (size_t i = 0; i < frequencies_.size(); ++i) {
    // Rounded to float before it is turned into sine and cosine: models were trained with that.
    const float angle = static_cast<float>(position) * frequencies_[i];
    const portable::SinCosResult both = portable::SinCos(angle);
    cos[i] = static_cast<float>(both.cos) * attention_factor_;
    sin[i] = static_cast<float>(both.sin) * attention_factor_;
  }
}

}  // namespace outrider
