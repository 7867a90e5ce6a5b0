// Whole numbers as a tensor where libtorch is to compute with them: tokens, positions, places.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <span>

namespace outrider {

inline at::Tensor TensorOf(std::span<const int64_t> values, at::Device device) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::ranges::copy(values, tensor.data_ptr<int64_t>());
  return tensor.to(device);
}

}  // namespace outrider
