#include "common/torch/fused_loops.h"

#include <algorithm>
#include <bit>
#include <cmath>

// The compiler makes one version of each loop for every width of vectors and chooses when the
// program starts; under ThreadSanitizer one, whose checks would run in what chooses, before there is anything to call.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define OUTRIDER_EVERY_WIDTH \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define OUTRIDER_EVERY_WIDTH
#endif

namespace outrider {
namespace {

// Sums are kept in so many lanes, which fill the widest vector.
constexpr size_t kLanes = 16;

[[gnu::always_inline]] inline float Total(const float* lanes) {
  float total = 0;
  for (size_t lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  return total;
}

// e^x to about one unit in the last place, in straight-line code; below -87 it is zero to the
// smallest normal float.
[[gnu::always_inline]] inline float Exp(float x) {
  x = std::min(std::max(x, -87.0f), 88.0f);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it leaves a whole number
  const float n = (x * 1.44269504f + kRound) - kRound;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  return p * std::bit_cast<float>((static_cast<int32_t>(n) + 127) << 23);
}

[[gnu::always_inline]] inline float Largest(const float* row, size_t count) {
  const size_t whole = count / kLanes * kLanes;
  float lanes[kLanes];
  for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] = row[0];
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] = lanes[lane] > row[i + lane] ? lanes[lane] : row[i + lane];
    }
  }
  float largest = row[0];
  for (size_t lane = 0; lane < kLanes; ++lane) largest = std::max(largest, lanes[lane]);
  for (size_t i = whole; i < count; ++i) largest = std::max(largest, row[i]);
  return largest;
}

[[gnu::always_inline]] inline float Sum(const float* row, size_t count) {
  const size_t whole = count / kLanes * kLanes;
  float lanes[kLanes] = {};
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += row[i + lane];
  }
  float sum = Total(lanes);
  for (size_t i = whole; i < count; ++i) sum += row[i];
  return sum;
}

}  // namespace

OUTRIDER_EVERY_WIDTH
void RmsForward(const float* x, const float* weight, float epsilon, size_t rows, size_t length,
                float* y, float* r) {
  for (size_t row = 0; row < rows; ++row, x += length, y += length) {
    float lanes[kLanes] = {};
    const size_t whole = length / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane] * x[i + lane];
    }
    float sum = Total(lanes);
    for (size_t i = whole; i < length; ++i) sum += x[i] * x[i];
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(length) + epsilon);
    r[row] = scale;
    for (size_t i = 0; i < length; ++i) y[i] = x[i] * scale * weight[i];
  }
}

OUTRIDER_EVERY_WIDTH
void RmsBackward(const float* x, const float* weight, const float* r, const float* dy, size_t rows,
                 size_t length, float* dx, float* dweight) {
  for (size_t row = 0; row < rows; ++row, x += length, dy += length, dx += length) {
    float lanes[kLanes] = {};
    const size_t whole = length / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t lane = 0; lane < kLanes; ++lane) {
        lanes[lane] += dy[i + lane] * weight[i + lane] * x[i + lane];
      }
    }
    float sum = Total(lanes);
    for (size_t i = whole; i < length; ++i) sum += dy[i] * weight[i] * x[i];
    const float scale = r[row];
    const float along = sum * scale * scale * scale / static_cast<float>(length);
    for (size_t i = 0; i < length; ++i) {
      dx[i] = dy[i] * weight[i] * scale - x[i] * along;
      dweight[i] += dy[i] * x[i] * scale;
    }
  }
}

OUTRIDER_EVERY_WIDTH
void SiluGateForward(const float* gate, const float* up, size_t count, float* y) {
  for (size_t i = 0; i < count; ++i) y[i] = gate[i] / (1.0f + Exp(-gate[i])) * up[i];
}

OUTRIDER_EVERY_WIDTH
void SiluGateBackward(const float* gate, const float* up, const float* dy, size_t count,
                      float* dgate, float* dup) {
  for (size_t i = 0; i < count; ++i) {
    const float share = 1.0f / (1.0f + Exp(-gate[i]));
    const float silu = gate[i] * share;
    dup[i] = dy[i] * silu;
    dgate[i] = dy[i] * up[i] * (share + silu * (1.0f - share));
  }
}

OUTRIDER_EVERY_WIDTH
void TurnPairs(const float* x, const float* cos, const float* sin, float sign, size_t heads,
               size_t pairs, float* y) {
  for (size_t head = 0; head < heads; ++head, x += 2 * pairs, y += 2 * pairs) {
    for (size_t i = 0; i < pairs; ++i) {
      const float a = x[2 * i], b = x[2 * i + 1], s = sign * sin[i];
      y[2 * i] = a * cos[i] - b * s;
      y[2 * i + 1] = a * s + b * cos[i];
    }
  }
}

OUTRIDER_EVERY_WIDTH
void SoftmaxRow(float* scores, size_t begin, size_t end, size_t length) {
  float* const row = scores + begin;
  const size_t count = end - begin;
  const float largest = Largest(row, count);
  for (size_t i = 0; i < count; ++i) row[i] = Exp(row[i] - largest);
  const float scale = 1.0f / Sum(row, count);
  for (size_t i = 0; i < count; ++i) row[i] *= scale;
  std::fill(scores, row, 0.0f);
  std::fill(row + count, scores + length, 0.0f);
}

OUTRIDER_EVERY_WIDTH
void SoftmaxBackwardRow(const float* p, float* dp, size_t length, float scale) {
  float lanes[kLanes] = {};
  const size_t whole = length / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += p[i + lane] * dp[i + lane];
  }
  float sum = Total(lanes);
  for (size_t i = whole; i < length; ++i) sum += p[i] * dp[i];
  for (size_t i = 0; i < length; ++i) dp[i] = p[i] * (dp[i] - sum) * scale;
}

// With a and b the scaled logits less the largest of each row, log p - log q is a - b and what the
// two sums differ by.
OUTRIDER_EVERY_WIDTH
float DivergenceRow(const float* wanted, float scale, size_t length, float* said, float* p) {
  const float top_wanted = Largest(wanted, length) * scale;
  const float top_said = Largest(said, length) * scale;
  for (size_t i = 0; i < length; ++i) p[i] = Exp(wanted[i] * scale - top_wanted);
  const auto weighed = [&](size_t i) {
    return p[i] * ((wanted[i] * scale - top_wanted) - (said[i] * scale - top_said));
  };
  float lanes[kLanes] = {};
  const size_t whole = length / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += weighed(i + lane);
  }
  float difference = Total(lanes);
  for (size_t i = whole; i < length; ++i) difference += weighed(i);

  for (size_t i = 0; i < length; ++i) said[i] = Exp(said[i] * scale - top_said);
  const float sum_wanted = Sum(p, length), sum_said = Sum(said, length);
  for (size_t i = 0; i < length; ++i) p[i] /= sum_wanted;
  for (size_t i = 0; i < length; ++i) said[i] = (said[i] / sum_said - p[i]) * scale;
  return difference / sum_wanted + std::log(sum_said / sum_wanted);
}

}  // namespace outrider
