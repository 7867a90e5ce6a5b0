// The whole forward pass is differentiable in every parameter: its gradients are the slopes that
// finite differences measure, in double precision.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <string>

#include "gtest/gtest.h"
#include "tests/model/golden_logits.h"
#include "tests/torch/torch_model.h"

namespace outrider {
namespace {

class TorchGradient : public testing::TestWithParam<GoldenModel> {};

TEST_P(TorchGradient, IsTheSlopeAlongEveryParameter) {
  TorchTransformer model = LoadTorch(TestFile(GetParam().directory));
  for (NamedParameter& parameter : model.parameters()) {
    parameter.value = parameter.value.to(at::kDouble).requires_grad_(true);
  }
  const Golden golden = ReadGolden(GetParam().name);
  const at::Tensor tokens = TokenRow(std::span(golden.tokens).first(24)).view({2, 12});
  const at::Generator random = at::detail::createCPUGenerator(1);
  const at::Tensor weights = at::randn({2, 12, model.spec().vocabulary_size}, random, at::kDouble);
  // Curved, so that a slope taken at the wrong place shows.
  const auto loss = [&] { return model.Forward(tokens, {}).logits.square().mul(weights).mean(); };
  loss().backward();

  // A step of h leaves an error of h^2 times the third derivative, and one of the rounding unit
  // times the loss over h: at 1e-5 both are near 1e-10 for losses and slopes near one.
  constexpr double kStep = 1e-5;
  for (NamedParameter& parameter : model.parameters()) {
    ASSERT_TRUE(parameter.value.grad().defined()) << parameter.name;
    const at::Tensor gradient = parameter.value.grad();
    const at::Tensor direction = at::randn(gradient.sizes(), random, at::kDouble);
    const at::Tensor value = parameter.value;
    const auto loss_at = [&](double step) {
      const c10::InferenceMode inference;
      parameter.value = value.detach() + direction * step;
      return loss().item<double>();
    };
    const double measured = (loss_at(kStep) - loss_at(-kStep)) / (2 * kStep);
    parameter.value = value;
    const double expected = gradient.mul(direction).sum().item<double>();
    EXPECT_LE(std::abs(measured - expected), 1e-7 * (1 + std::abs(expected)))
        << parameter.name << ": " << measured << " against " << expected;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TorchGradient, testing::ValuesIn(TorchModels()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace outrider
