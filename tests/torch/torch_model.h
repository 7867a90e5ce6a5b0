// A model loaded into libtorch for a test, and its logits as the tests of the core have theirs.
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/torch/torch_transformer.h"
#include "tests/model/engine.h"
#include "tests/model/golden_logits.h"

namespace outrider {

inline TorchTransformer LoadTorch(const std::string& path) {
  return OrDie(TorchTransformer::Load(*OrDie(ModelFile::Open(path)), path, at::kCPU));
}

// Those of the golden models that libtorch computes. The others have parts of the core alone, as a
// test of their refusal says.
inline std::vector<GoldenModel> TorchModels(bool computed = true) {
  constexpr std::string_view kRefused[] = {"gemma",         "gemma2",    "gemma3",     "phi3",
                                           "phi3_short",    "granite",   "granitemoe", "olmo2",
                                           "stablelm2",     "qwen2_moe", "cohere2",    "gpt_oss",
                                           "gpt_oss_saved", "exaone4",   "ministral3"};
  std::vector<GoldenModel> models;
  std::ranges::copy_if(kGoldenModels, std::back_inserter(models), [&](const GoldenModel& model) {
    return (std::ranges::find(kRefused, model.name) == std::end(kRefused)) == computed;
  });
  return models;
}

// [1, T]
inline at::Tensor TokenRow(std::span<const TokenId> tokens) {
  at::Tensor row = at::empty({1, static_cast<int64_t>(tokens.size())}, at::kLong);
  std::ranges::copy(tokens, row.data_ptr<int64_t>());
  return row;
}

// [..., length] as a vector for each row.
inline std::vector<std::vector<float>> RowsOf(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.flatten(0, -2).to(at::kFloat).contiguous();
  std::vector<std::vector<float>> rows;
  for (int64_t i = 0; i < flat.size(0); ++i) {
    const float* const row = flat.data_ptr<float>() + i * flat.size(1);
    rows.emplace_back(row, row + flat.size(1));
  }
  return rows;
}

}  // namespace outrider
