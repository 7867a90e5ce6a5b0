// The fused pieces are the plain operations: same values, same gradients. The plain ones are
// computed in double precision, whose gradients torch_gradient_test.cc holds against slopes.
#include "common/torch/fused.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <functional>
#include <string>
#include <vector>

#include "common/torch/torch_attention.h"
#include "gtest/gtest.h"
#include "tests/model/golden_logits.h"
#include "tests/torch/torch_model.h"

namespace outrider {
namespace {

using Inputs = std::vector<at::Tensor>;
using Operation = std::function<at::Tensor(const Inputs&)>;

// The largest difference, as a share of the largest value of what is right.
double Error(const at::Tensor& ours, const at::Tensor& right) {
  const double scale = right.abs().max().item<double>();
  return (ours.to(at::kDouble) - right).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

// Values and gradients of a weighted sum of the squares, so that no two results weigh the same.
void ExpectSame(const Inputs& inputs, const Operation& fused, const Operation& plain) {
  Inputs single, exact;
  for (const at::Tensor& input : inputs) {
    single.push_back(input.to(at::kFloat).requires_grad_(true));
    exact.push_back(single.back().detach().to(at::kDouble).requires_grad_(true));
  }
  const at::Tensor ours = fused(single), right = plain(exact);
  ASSERT_EQ(ours.sizes(), right.sizes());
  // Sums of at most a few hundred terms, each rounded once to 2^-24.
  constexpr double kTolerance = 1e-5;
  EXPECT_TRUE(Error(ours.detach(), right.detach()) <= kTolerance);
  const at::Generator random = at::detail::createCPUGenerator(9);
  const at::Tensor weights = at::randn(right.sizes(), random, at::kDouble);
  ours.square().mul(weights.to(at::kFloat)).sum().backward();
  right.square().mul(weights).sum().backward();
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(Error(single[i].grad(), exact[i].grad()) <= kTolerance) << "input " << i;
  }
}

at::Tensor Random(std::vector<int64_t> sizes, uint64_t seed, double deviation = 1) {
  return at::randn(sizes, at::detail::createCPUGenerator(seed), at::kDouble) * deviation;
}

TEST(Fused, RmsNorm) {
  for (const int64_t length : {2, 7, 16, 320, 333}) {
    const auto plain = [](const Inputs& in) {
      return in[0] * in[0].square().mean(-1, true).add(1e-5).rsqrt() * in[1];
    };
    const auto fused = [](const Inputs& in) { return FusedNormalizeRms(in[0], in[1], 1e-5); };
    ExpectSame({Random({3, 5, length}, 1, 3), Random({length}, 2)}, fused, plain);
    ExpectSame({Random({3, 5, length}, 1, 1e-3), Random({length}, 2)}, fused, plain);
  }
}

TEST(Fused, SiluGate) {
  const auto plain = [](const Inputs& in) { return at::silu(in[0]) * in[1]; };
  const auto fused = [](const Inputs& in) { return FusedSiluGate(in[0], in[1]); };
  // Wide enough for the exponential to end at both sides.
  ExpectSame({Random({4, 37}, 1, 40), Random({4, 37}, 2)}, fused, plain);
  // A gate that is no block of memory.
  ExpectSame({Random({37, 4}, 1).transpose(0, 1), Random({4, 37}, 2)}, fused, plain);
}

TEST(Fused, TurnPairs) {
  const at::Tensor angles = Random({2, 9, 1, 5}, 4, 2);
  for (const at::Tensor& each : {angles, angles[0]}) {
    const at::Tensor cos = each.cos(), sin = each.sin();
    const auto plain = [&](const Inputs& in) {
      const at::Tensor pairs = in[0].unflatten(-1, {5, 2});
      const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
      return at::stack({a * cos - b * sin, a * sin + b * cos}, -1).flatten(-2);
    };
    const auto fused = [&](const Inputs& in) {
      return FusedTurnPairs(in[0], cos.to(at::kFloat), sin.to(at::kFloat));
    };
    ExpectSame({Random({2, 9, 3, 10}, 1)}, fused, plain);
  }
}

// Shapes with shared key heads, blocks that are not full, documents that begin anywhere, and a
// window.
TEST(Fused, Attention) {
  for (const int64_t rows : {1, 5, 64, 150}) {
    at::Tensor first_keys = at::zeros({2, rows}, at::kLong);
    for (int64_t t = 0; t < rows; ++t) {
      first_keys[0][t] = t / 23 * 23;
      first_keys[1][t] = std::max<int64_t>(0, t - 70);
    }
    const at::Tensor at = at::arange(rows, at::kLong);
    const at::Tensor hidden = at.view({1, 1, rows})
                                  .lt(first_keys.unsqueeze(2))
                                  .logical_or(at.view({1, 1, rows}).gt(at.view({1, rows, 1})));
    const auto plain = [&](const Inputs& in) { return Attend(in[0], in[1], in[2], 0.3f, hidden); };
    const auto fused = [&](const Inputs& in) {
      return FusedAttend(in[0], in[1], in[2], 0.3f, first_keys);
    };
    ExpectSame({Random({2, rows, 4, 12}, 1, 2), Random({2, rows, 2, 12}, 2, 2),
                Random({2, rows, 2, 10}, 3)},
               fused, plain);
  }
}

TEST(Fused, Divergence) {
  for (const int64_t length : {3, 16, 333}) {
    for (const double temperature : {1.0, 0.6}) {
      const at::Tensor wanted = Random({6, length}, 5, 4);
      const auto plain = [&](const Inputs& in) {
        const at::Tensor p =
            at::log_softmax(wanted.to(at::kFloat).to(at::kDouble) / temperature, -1);
        return (p.exp() * (p - at::log_softmax(in[0] / temperature, -1))).sum(-1);
      };
      const auto fused = [&](const Inputs& in) {
        return FusedDivergence(wanted.to(at::kFloat), in[0], temperature);
      };
      ExpectSame({Random({6, length}, 6, 4)}, fused, plain);
      ExpectSame({Random({length, 6}, 7, 30).transpose(0, 1)}, fused, plain);
    }
  }
}

class FusedModel : public testing::TestWithParam<GoldenModel> {};

// Two packed documents a row, through every architecture.
TEST_P(FusedModel, GradientsAreThoseOfThePlainPassInDoublePrecision) {
  const Golden golden = ReadGolden(GetParam().name);
  const at::Tensor tokens = TokenRow(std::span(golden.tokens).first(24)).view({2, 12});
  const at::Tensor documents = at::arange(24, at::kLong).floor_divide(5).view({2, 12});
  const auto gradients = [&](at::ScalarType type) {
    TorchTransformer model = LoadTorch(TestFile(GetParam().directory));
    for (NamedParameter& parameter : model.parameters()) {
      parameter.value = parameter.value.to(type).requires_grad_(true);
    }
    model.Forward(tokens, {.documents = documents}).logits.square().mean().backward();
    std::vector<NamedParameter> found;
    for (const NamedParameter& parameter : model.parameters()) {
      found.push_back({parameter.name, parameter.value.grad()});
    }
    return found;
  };
  const std::vector<NamedParameter> fused = gradients(at::kFloat), plain = gradients(at::kDouble);
  for (size_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(Error(fused[i].value, plain[i].value) <= 1e-4) << plain[i].name;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, FusedModel, testing::ValuesIn(TorchModels()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Fused, OnlyWhereGradientsAreWanted) {
  const at::Tensor plain = at::zeros({2});
  EXPECT_FALSE(CanFuse(plain));
  const at::Tensor wanted = at::zeros({2}).requires_grad_(true);
  EXPECT_TRUE(CanFuse(wanted));
  EXPECT_FALSE(CanFuse(at::zeros({2}, at::kDouble).requires_grad_(true)));
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(CanFuse(wanted));
}

}  // namespace
}  // namespace outrider
