// The row kernels as NUMERICS.md defines them, a line for a line: sections 2, 3, 5 and 6. Never
// tuned: every other version is compared with this one bit by bit, and this one with double
// precision.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "common/formats/tensors/half.h"
#include "common/kernels/attention.h"
#include "common/kernels/rows/row_tables.h"

namespace outrider {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- Section 2: sums over a row

class LaneSum {
 public:
  void Add(uint32_t index, float x) { lanes_[index % 16] += x; }
  void AddProduct(uint32_t index, float a, float b) {
    lanes_[index % 16] = std::fma(a, b, lanes_[index % 16]);
  }
  float Total() {
    for (uint32_t width = 8; width > 0; width /= 2) {
      for (uint32_t lane = 0; lane < width; ++lane) lanes_[lane] += lanes_[lane + width];
    }
    return lanes_[0];
  }

 private:
  float lanes_[16] = {};
};

// ---- Section 3: activations for products

void QuantizeBlock(const float* x, uint32_t block, int8_t* quants, float* scale) {
  uint32_t magnitude = 0;  // of bits: orders as the numbers do, with infinity and NaN above all
  for (uint32_t i = 0; i < block; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    if (bits > magnitude) magnitude = bits;
  }
  const float m = std::bit_cast<float>(magnitude);
  float d = m / 127.0f;
  float v = m == 0.0f ? 0.0f : 127.0f / m;
  if (!(m < kInfinity)) {
    d = kNaN;
    v = 0.0f;
  } else if (v == kInfinity) {
    d = 0.0f;
    v = 0.0f;
  }
  for (uint32_t i = 0; i < block; ++i) {
    quants[i] = v == 0.0f ? int8_t{0} : static_cast<int8_t>(std::nearbyint(x[i] * v));
  }
  *scale = d;
}

void Quantize(const float* x, uint32_t count, uint32_t block, int8_t* quants, float* scales,
              int16_t* sums) {
  for (uint32_t b = 0; b < count / block; ++b) {
    QuantizeBlock(x + b * block, block, quants + b * block, scales + b);
  }
  for (uint32_t s = 0; s < count / 16; ++s) {
    int sum = 0;
    for (uint32_t i = 0; i < 16; ++i) sum += quants[16 * s + i];
    sums[s] = static_cast<int16_t>(sum);
  }
}

// ---- Section 5: elementary functions

constexpr float kExpMax = 0x1.62e42ep+6f;   // beyond it the result is infinite
constexpr float kExpMin = -0x1.5d589ep+6f;  // below it, smaller than any normal number

float ExpOne(float x) {
  if (std::isnan(x)) return x;
  if (x > kExpMax) return kInfinity;
  if (x < kExpMin) return 0.0f;
  const float shifted = std::fma(x, 0x1.715476p+0f, 0x1.8p+23f);
  const float n = shifted - 0x1.8p+23f;
  float r = std::fma(n, -0x1.62e43p-1f, x);
  r = std::fma(n, 0x1.05c61p-29f, r);
  float p = 0x1.6a241ap-10f;
  p = std::fma(p, r, 0x1.1239f2p-7f);
  p = std::fma(p, r, 0x1.5558f2p-5f);
  p = std::fma(p, r, 0x1.555492p-3f);
  p = std::fma(p, r, 0x1.fffffcp-2f);
  p = std::fma(p, r, 1.0f);
  p = std::fma(p, r, 1.0f);
  return std::ldexp(p, static_cast<int>(n));
}

// x / (1 + exp(z)), where z is about -x.
float DividedByOnePlusExp(float x, float z) {
  if (z > kExpMax) return -0.0f;
  return x / (1.0f + ExpOne(z));
}

float SiluOne(float x) {
  return DividedByOnePlusExp(x, -x);
}

float GeluTanhOne(float x) {
  const float z = x * std::fma(x * x, -0x1.2444f2p-4f, -0x1.988454p+0f);
  return DividedByOnePlusExp(x, z);
}

constexpr float kGateMax = 7.0f;

float ClampedSiluOne(float gate) {
  const float x = gate > kGateMax ? kGateMax : gate;
  return DividedByOnePlusExp(x, x * -1.702f);
}

float ClampedUpOne(float up) {
  if (up > kGateMax) return kGateMax + 1.0f;
  if (up < -kGateMax) return -kGateMax + 1.0f;
  return up + 1.0f;
}

float TanhOne(float x) {
  const float square = x * x;
  if (!(square < 0.390625f)) return 1.0f - 2.0f / (1.0f + ExpOne(x + x));
  float p = -0x1.9017fep-8f;
  p = std::fma(p, square, 0x1.581fa6p-6f);
  p = std::fma(p, square, -0x1.b928ep-5f);
  p = std::fma(p, square, 0x1.110e2ep-3f);
  p = std::fma(p, square, -0x1.555552p-2f);
  return std::fma(x * square, p, x);
}

float SoftCapOne(float x, float cap) {
  return cap * TanhOne(x / cap);
}

void Exp(const float* x, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = ExpOne(x[i]);
}

void SiluGate(const float* gate, const float* up, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = SiluOne(gate[i]) * up[i];
}

void GeluTanhGate(const float* gate, const float* up, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = GeluTanhOne(gate[i]) * up[i];
}

void GeluTanh(const float* x, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = GeluTanhOne(x[i]);
}

void ClampedSiluGate(const float* gate, const float* up, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = ClampedSiluOne(gate[i]) * ClampedUpOne(up[i]);
}

void SoftCap(const float* x, float cap, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = SoftCapOne(x[i], cap);
}

// ---- Section 6: norms

void RmsNorm(const float* x, const float* weight, float epsilon, uint32_t count, float* out) {
  LaneSum squares;
  for (uint32_t i = 0; i < count; ++i) squares.AddProduct(i, x[i], x[i]);
  const float mean = squares.Total() / static_cast<float>(count);
  const float r = 1.0f / std::sqrt(mean + epsilon);
  for (uint32_t i = 0; i < count; ++i) out[i] = (x[i] * r) * weight[i];
}

void LayerNorm(const float* x, const float* weight, const float* bias, float epsilon,
               uint32_t count, float* out) {
  LaneSum sum;
  for (uint32_t i = 0; i < count; ++i) sum.Add(i, x[i]);
  const float mean = sum.Total() / static_cast<float>(count);
  LaneSum squares;
  for (uint32_t i = 0; i < count; ++i) squares.AddProduct(i, x[i] - mean, x[i] - mean);
  const float variance = squares.Total() / static_cast<float>(count);
  const float r = 1.0f / std::sqrt(variance + epsilon);
  for (uint32_t i = 0; i < count; ++i) {
    out[i] = std::fma((x[i] - mean) * r, weight[i], bias[i]);
  }
}

void Add(float* x, const float* y, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) x[i] = x[i] + y[i];
}

// Section 7.
void WeightedSum(const WeightedRow* terms, uint32_t term_count, uint32_t count, float* out) {
  for (uint32_t i = 0; i < count; ++i) {
    float sum = terms[0].weight * terms[0].row[i];
    for (uint32_t t = 1; t < term_count; ++t) sum = sum + terms[t].weight * terms[t].row[i];
    out[i] = sum;
  }
}

// ---- Section 6: rope

void RotatePair(float& x0, float& x1, float c, float s) {
  const float y0 = x0 * c - x1 * s;
  const float y1 = x0 * s + x1 * c;
  x0 = y0;
  x1 = y1;
}

void RopeInterleaved(float* head, const float* cos, const float* sin, uint32_t pair_count) {
  for (uint32_t i = 0; i < pair_count; ++i) {
    RotatePair(head[2 * i], head[2 * i + 1], cos[i], sin[i]);
  }
}

void RopeHalves(float* head, const float* cos, const float* sin, uint32_t pair_count) {
  for (uint32_t i = 0; i < pair_count; ++i) {
    RotatePair(head[i], head[i + pair_count], cos[i], sin[i]);
  }
}

void ToHalf(const float* x, uint32_t count, uint16_t* out) {
  for (uint32_t i = 0; i < count; ++i) out[i] = FloatToHalf(x[i]);
}

// ---- Section 6: attention

// The keys and values of one chunk that are there: slots first..first+count-1.
struct Chunk {
  uint32_t first;
  uint32_t count;
  const uint16_t* keys[kChunk];
  const uint16_t* values[kChunk];
};

// What a chunk, or all chunks so far, come to: values weighted by exp(score - max), not yet divided
// by the sum of those weights.
struct Partial {
  float max;
  float sum;
  float out[kHeadLengthMax];
};

float Score(const float* query, const uint16_t* key, const AttentionTask& task) {
  LaneSum products;
  for (uint32_t i = 0; i < task.key_length; ++i) {
    products.AddProduct(i, query[i], HalfToFloat(key[i]));
  }
  const float score = products.Total() * task.scale;
  return task.soft_cap > 0.0f ? SoftCapOne(score, task.soft_cap) : score;
}

void AttendChunk(const float* query, const Chunk& chunk, const AttentionTask& task,
                 Partial& partial) {
  float scores[kChunk];
  partial.max = -kInfinity;
  for (uint32_t j = 0; j < chunk.count; ++j) {
    scores[j] = Score(query, chunk.keys[j], task);
    if (scores[j] > partial.max) partial.max = scores[j];
  }
  LaneSum weights;
  for (uint32_t i = 0; i < task.value_length; ++i) partial.out[i] = 0.0f;
  for (uint32_t j = 0; j < chunk.count; ++j) {
    const float p = ExpOne(scores[j] - partial.max);
    weights.Add(chunk.first + j, p);
    for (uint32_t i = 0; i < task.value_length; ++i) {
      partial.out[i] = std::fma(p, HalfToFloat(chunk.values[j][i]), partial.out[i]);
    }
  }
  partial.sum = weights.Total();
}

void Merge(const Partial& chunk, uint32_t value_length, Partial& state) {
  const float max = chunk.max > state.max ? chunk.max : state.max;
  const float a = ExpOne(state.max - max);
  const float b = ExpOne(chunk.max - max);
  state.max = max;
  state.sum = std::fma(state.sum, a, chunk.sum * b);
  for (uint32_t i = 0; i < value_length; ++i) {
    state.out[i] = std::fma(state.out[i], a, chunk.out[i] * b);
  }
}

// Gathers chunk after chunk of a task.
class Chunks {
 public:
  explicit Chunks(const AttentionTask& task)
      : task_(task), run_(task.runs), position_(task.first_position) {}

  bool AtEnd() const { return run_ == task_.runs + task_.run_count; }

  Chunk Next() {
    Chunk chunk;
    chunk.first = position_ % kChunk;
    chunk.count = 0;
    for (; !AtEnd() && chunk.first + chunk.count < kChunk; ++run_) {
      const uint16_t* key = run_->page + task_.keys_at + size_t{run_->slot} * task_.key_length;
      const uint16_t* value =
          run_->page + task_.values_at + size_t{run_->slot} * task_.value_length;
      for (uint32_t i = 0; i < run_->count; ++i) {
        chunk.keys[chunk.count] = key + size_t{i} * task_.key_length;
        chunk.values[chunk.count] = value + size_t{i} * task_.value_length;
        ++chunk.count;
      }
    }
    position_ += chunk.count;
    return chunk;
  }

 private:
  const AttentionTask& task_;
  const KeyRun* run_;
  uint32_t position_;
};

// The sink, null where there is none, takes part in the sum and has no value. Returns what the
// outputs are to be multiplied by.
float Finish(const float* sink, Partial& state) {
  if (sink == nullptr) return 1.0f / state.sum;
  const float max = *sink > state.max ? *sink : state.max;
  const float a = ExpOne(state.max - max);
  return a / std::fma(state.sum, a, ExpOne(*sink - max));
}

void AttendHead(const AttentionTask& task, const float* query, const float* sink, float* out) {
  Chunks chunks(task);
  Partial state, partial;
  AttendChunk(query, chunks.Next(), task, state);
  while (!chunks.AtEnd()) {
    AttendChunk(query, chunks.Next(), task, partial);
    Merge(partial, task.value_length, state);
  }
  const float r = Finish(sink, state);
  for (uint32_t i = 0; i < task.value_length; ++i) out[i] = state.out[i] * r;
}

void Attend(const AttentionTask& task) {
  for (uint32_t h = 0; h < task.head_count; ++h) {
    AttendHead(task, task.queries + size_t{h} * task.key_length,
               task.sinks == nullptr ? nullptr : task.sinks + h,
               task.outputs + size_t{h} * task.value_length);
  }
}

}  // namespace

const RowKernels kScalarRows = {
    .quantize = Quantize,
    .rms_norm = RmsNorm,
    .layer_norm = LayerNorm,
    .add = Add,
    .weighted_sum = WeightedSum,
    .rope_interleaved = RopeInterleaved,
    .rope_halves = RopeHalves,
    .silu_gate = SiluGate,
    .gelu_tanh_gate = GeluTanhGate,
    .gelu_tanh = GeluTanh,
    .clamped_silu_gate = ClampedSiluGate,
    .soft_cap = SoftCap,
    .exp = Exp,
    .to_half = ToHalf,
    .attend = Attend,
};

}  // namespace outrider
