#include "common/torch/fused.h"

#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/torch/fused_loops.h"

// BLAS, in which matrices stand column by column. libtorch links it and does not pass it on.
extern "C" void sgemm_(const char* transpose_a, const char* transpose_b, const int* m, const int* n,
                       const int* k, const float* alpha, const float* a, const int* a_stride,
                       const float* b, const int* b_stride, const float* beta, float* c,
                       const int* c_stride);

namespace outrider {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

// Queries go through attention so many at a time: their scores stay in the second-level cache, and
// of the keys behind the block's last query none is multiplied.
constexpr int64_t kQueryBlock = 64;

const float* Data(const at::Tensor& tensor) {
  return tensor.data_ptr<float>();
}
float* MutableData(const at::Tensor& tensor) {
  return tensor.data_ptr<float>();
}

struct RmsFunction : Function<RmsFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            double epsilon) {
    const at::Tensor rows = x.contiguous();
    const auto length = static_cast<size_t>(rows.size(-1));
    const size_t count = static_cast<size_t>(rows.numel()) / length;
    at::Tensor y = at::empty_like(rows);
    at::Tensor r = at::empty({static_cast<int64_t>(count)}, rows.options());
    RmsForward(Data(rows), Data(weight), static_cast<float>(epsilon), count, length, MutableData(y),
               MutableData(r));
    context->save_for_backward({rows, weight, r});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dx = at::empty_like(saved[0]);
    at::Tensor dweight = at::zeros_like(saved[1]);
    RmsBackward(Data(saved[0]), Data(saved[1]), Data(saved[2]), Data(dy),
                static_cast<size_t>(saved[2].numel()), static_cast<size_t>(saved[1].numel()),
                MutableData(dx), MutableData(dweight));
    return {dx, dweight, at::Tensor()};
  }
};

struct SiluGateFunction : Function<SiluGateFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& gate,
                            const at::Tensor& up) {
    const at::Tensor a = gate.contiguous(), b = up.contiguous();
    at::Tensor y = at::empty_like(a);
    SiluGateForward(Data(a), Data(b), static_cast<size_t>(a.numel()), MutableData(y));
    context->save_for_backward({a, b});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor dy = gradients[0].contiguous();
    at::Tensor dgate = at::empty_like(saved[0]), dup = at::empty_like(saved[1]);
    SiluGateBackward(Data(saved[0]), Data(saved[1]), Data(dy), static_cast<size_t>(dy.numel()),
                     MutableData(dgate), MutableData(dup));
    return {dgate, dup};
  }
};

at::Tensor Turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, float sign) {
  const at::Tensor rows = x.contiguous();
  at::Tensor y = at::empty_like(rows);
  const auto heads = static_cast<size_t>(rows.size(2));
  const auto pairs = static_cast<size_t>(cos.size(-1));
  const int64_t row_count = rows.size(0) * rows.size(1);
  const int64_t angle_count = cos.numel() / cos.size(-1);  // rows, or one sequence's
  const int64_t stride = rows.size(2) * rows.size(3);
  for (int64_t row = 0; row < row_count; ++row) {
    const int64_t angles = row % angle_count * cos.size(-1);
    TurnPairs(Data(rows) + row * stride, Data(cos) + angles, Data(sin) + angles, sign, heads, pairs,
              MutableData(y) + row * stride);
  }
  return y;
}

struct TurnFunction : Function<TurnFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return Turned(x, cos, sin, 1.0f);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {Turned(gradients[0], saved[0], saved[1], -1.0f), at::Tensor(), at::Tensor()};
  }
};

// A matrix of rows, `stride` apart. Read column by column it is its own transpose.
struct Rows {
  const float* data;
  int64_t stride;
};

// One head's part of a [B, T, heads, length] tensor of one sequence: row t at data + t * stride.
struct HeadRows {
  float* data;
  int64_t stride;

  HeadRows(const at::Tensor& tensor, int64_t sequence, int64_t head)
      : data(tensor.data_ptr<float>() + sequence * tensor.stride(0) + head * tensor.stride(2)),
        stride(tensor.stride(1)) {}
  float* Row(int64_t t) const { return data + t * stride; }
  Rows From(int64_t t) const { return {Row(t), stride}; }
};

// Queries [first, last) against keys [first_key, last). Their weights lie together in one row-major
// matrix.
struct Block {
  int64_t first;
  int64_t last;
  int64_t first_key;

  int64_t query_count() const { return last - first; }
  int64_t key_count() const { return last - first_key; }
  int64_t weight_count() const { return query_count() * key_count(); }
};

std::vector<Block> BlocksOf(const at::Tensor& first_keys, int64_t sequence) {
  const int64_t row_count = first_keys.size(1);
  const int64_t* const keys = first_keys.data_ptr<int64_t>() + sequence * row_count;
  std::vector<Block> blocks;
  for (int64_t first = 0; first < row_count; first += kQueryBlock) {
    const int64_t last = std::min(row_count, first + kQueryBlock);
    blocks.push_back({first, last, *std::min_element(keys + first, keys + last)});
  }
  return blocks;
}

void Gemm(char transpose_a, char transpose_b, int64_t m, int64_t n, int64_t k, float alpha, Rows a,
          Rows b, float beta, float* c, int64_t c_stride) {
  const int sizes[] = {static_cast<int>(m), static_cast<int>(n), static_cast<int>(k)};
  const int strides[] = {static_cast<int>(a.stride), static_cast<int>(b.stride),
                         static_cast<int>(c_stride)};
  sgemm_(&transpose_a, &transpose_b, &sizes[0], &sizes[1], &sizes[2], &alpha, a.data, &strides[0],
         b.data, &strides[1], &beta, c, &strides[2]);
}

// c[M, N] = alpha * a[M, K] b[N, K]'
void MultiplyByRows(int64_t m, int64_t n, int64_t k, float alpha, Rows a, Rows b, float* c,
                    int64_t c_stride) {
  Gemm('T', 'N', n, m, k, alpha, b, a, 0.0f, c, c_stride);
}

// c[M, N] = a[M, K] b[K, N]
void Multiply(int64_t m, int64_t n, int64_t k, Rows a, Rows b, float* c, int64_t c_stride) {
  Gemm('N', 'N', n, m, k, 1.0f, b, a, 0.0f, c, c_stride);
}

// c[M, N] += a[K, M]' b[K, N]
void AddMultiplyByColumns(int64_t m, int64_t n, int64_t k, Rows a, Rows b, float* c,
                          int64_t c_stride) {
  Gemm('N', 'T', n, m, k, 1.0f, b, a, 1.0f, c, c_stride);
}

// Calls `visit(sequence, head, block, offset of its weights)` for all of them; returns how many
// weights there are.
template <typename Visit>
int64_t ForEachBlock(const at::Tensor& first_keys, int64_t head_count, const Visit& visit) {
  int64_t offset = 0;
  for (int64_t sequence = 0; sequence < first_keys.size(0); ++sequence) {
    const std::vector<Block> blocks = BlocksOf(first_keys, sequence);
    for (int64_t head = 0; head < head_count; ++head) {
      for (const Block& block : blocks) {
        visit(sequence, head, block, offset);
        offset += block.weight_count();
      }
    }
  }
  return offset;
}

struct AttendFunction : Function<AttendFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& query,
                            const at::Tensor& key, const at::Tensor& value, double scale,
                            const at::Tensor& first_keys) {
    const at::Tensor q = query.contiguous(), k = key.contiguous(), v = value.contiguous();
    const int64_t heads = q.size(2), group = heads / k.size(2);
    const int64_t key_length = q.size(3), value_length = v.size(3);
    const int64_t weight_count =
        ForEachBlock(first_keys, heads, [](int64_t, int64_t, const Block&, int64_t) {});
    at::Tensor weights = at::empty({weight_count}, q.options());
    at::Tensor out = at::empty({q.size(0), q.size(1), heads, value_length}, q.options());
    ForEachBlock(first_keys, heads, [&](int64_t s, int64_t h, const Block& block, int64_t offset) {
      const HeadRows queries(q, s, h), keys(k, s, h / group), values(v, s, h / group);
      const HeadRows outs(out, s, h);
      const int64_t rows = block.query_count(), count = block.key_count();
      float* const p = MutableData(weights) + offset;
      MultiplyByRows(rows, count, key_length, static_cast<float>(scale), queries.From(block.first),
                     keys.From(block.first_key), p, count);
      const int64_t* const first = first_keys.data_ptr<int64_t>() + s * first_keys.size(1);
      for (int64_t t = block.first; t < block.last; ++t) {
        SoftmaxRow(p + (t - block.first) * count, static_cast<size_t>(first[t] - block.first_key),
                   static_cast<size_t>(t + 1 - block.first_key), static_cast<size_t>(count));
      }
      Multiply(rows, value_length, count, {p, count}, values.From(block.first_key),
               outs.Row(block.first), outs.stride);
    });
    context->saved_data["scale"] = scale;
    context->save_for_backward({q, k, v, first_keys, weights});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &q = saved[0], &k = saved[1], &v = saved[2], &first_keys = saved[3];
    const auto scale = static_cast<float>(context->saved_data["scale"].toDouble());
    const at::Tensor dout = gradients[0].contiguous();
    at::Tensor dq = at::empty_like(q), dk = at::zeros_like(k), dv = at::zeros_like(v);
    const int64_t heads = q.size(2), group = heads / k.size(2);
    const int64_t key_length = q.size(3), value_length = v.size(3);
    std::vector<float> dweights;
    ForEachBlock(first_keys, heads, [&](int64_t s, int64_t h, const Block& block, int64_t offset) {
      const HeadRows queries(q, s, h), keys(k, s, h / group), values(v, s, h / group);
      const HeadRows douts(dout, s, h), dqueries(dq, s, h);
      const HeadRows dkeys(dk, s, h / group), dvalues(dv, s, h / group);
      const int64_t rows = block.query_count(), count = block.key_count();
      const float* const p = Data(saved[4]) + offset;
      dweights.resize(static_cast<size_t>(block.weight_count()));
      float* const dp = dweights.data();
      AddMultiplyByColumns(count, value_length, rows, {p, count}, douts.From(block.first),
                           dvalues.Row(block.first_key), dvalues.stride);
      MultiplyByRows(rows, count, value_length, 1.0f, douts.From(block.first),
                     values.From(block.first_key), dp, count);
      for (int64_t row = 0; row < rows; ++row) {
        SoftmaxBackwardRow(p + row * count, dp + row * count, static_cast<size_t>(count), scale);
      }
      Multiply(rows, key_length, count, {dp, count}, keys.From(block.first_key),
               dqueries.Row(block.first), dqueries.stride);
      AddMultiplyByColumns(count, key_length, rows, {dp, count}, queries.From(block.first),
                           dkeys.Row(block.first_key), dkeys.stride);
    });
    return {dq, dk, dv, at::Tensor(), at::Tensor()};
  }
};

struct DivergenceFunction : Function<DivergenceFunction> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& wanted,
                            const at::Tensor& said, double temperature) {
    const at::Tensor from = wanted.contiguous();
    at::Tensor gradient = said.clone(at::MemoryFormat::Contiguous);
    at::Tensor y = at::empty({gradient.size(0)}, gradient.options());
    const auto length = static_cast<size_t>(gradient.size(1));
    const auto scale = static_cast<float>(1 / temperature);
    std::vector<float> p(length);
    for (int64_t row = 0; row < gradient.size(0); ++row) {
      const int64_t first = row * gradient.size(1);
      MutableData(y)[row] =
          DivergenceRow(Data(from) + first, scale, length, MutableData(gradient) + first, p.data());
    }
    context->save_for_backward({gradient});
    return y;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    return {at::Tensor(), saved[0] * gradients[0].unsqueeze(1), at::Tensor()};
  }
};

}  // namespace

bool CanFuse(const at::Tensor& x) {
  return at::GradMode::is_enabled() && x.requires_grad() && x.is_cpu() &&
         x.scalar_type() == at::kFloat && !at::autocast::is_cpu_enabled();
}

at::Tensor FusedNormalizeRms(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return RmsFunction::apply(x, weight, epsilon);
}

at::Tensor FusedSiluGate(const at::Tensor& gate, const at::Tensor& up) {
  return SiluGateFunction::apply(gate, up);
}

at::Tensor FusedTurnPairs(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  return TurnFunction::apply(x, cos, sin);
}

at::Tensor FusedAttend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       double scale, const at::Tensor& first_keys) {
  return AttendFunction::apply(query, key, value, scale, first_keys);
}

at::Tensor FusedDivergence(const at::Tensor& wanted, const at::Tensor& said, double temperature) {
  return DivergenceFunction::apply(wanted, said, temperature);
}

}  // namespace outrider
