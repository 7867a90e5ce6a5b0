#include "adapters/exits/exit_adapters.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "common/base/status.h"

namespace outrider {
namespace {

std::vector<float> Values(const at::Tensor& tensor) {
  const at::Tensor here = tensor.detach().to(at::kCPU, at::kFloat).contiguous();
  const float* const data = here.data_ptr<float>();
  return {data, data + here.numel()};
}

}  // namespace

ExitAdapters::ExitAdapters(const ModelSpec& spec, std::span<const uint32_t> layers, uint32_t rank,
                           uint64_t seed, const at::Device& device)
    : layers_(layers.begin(), layers.end()), rank_(rank), norm_epsilon_(spec.norm_epsilon) {
  const auto length = static_cast<int64_t>(spec.embedding_length);
  const at::Generator random = at::detail::createCPUGenerator(seed);
  for (const uint32_t layer : layers_) {
    const std::string block = Concat("blk.", layer, ".");
    // What enters has size one in every dimension, so what leaves `down` has too.
    const at::Tensor down =
        at::empty({rank, length}, at::kFloat).normal_(0.0, 1 / std::sqrt(length), random);
    parameters_.push_back({block + "exit_down.weight", down.to(device)});
    parameters_.push_back(
        {block + "exit_up.weight", at::zeros({length, rank}, at::kFloat).to(device)});
  }
}

at::Tensor ExitAdapters::Adapt(size_t exit, const at::Tensor& hidden) const {
  const at::Tensor& down = parameters_[2 * exit].value;
  const at::Tensor& up = parameters_[2 * exit + 1].value;
  const at::Tensor size = hidden.square().mean(-1, true).add(norm_epsilon_).sqrt();
  return hidden + size * at::linear(at::silu(at::linear(hidden / size, down)), up);
}

std::vector<TrainedExit> ExitAdapters::Trained() const {
  std::vector<TrainedExit> exits;
  for (size_t exit = 0; exit < exit_count(); ++exit) {
    exits.push_back({.layer = layers_[exit],
                     .rank = rank_,
                     .down = Values(parameters_[2 * exit].value),
                     .up = Values(parameters_[2 * exit + 1].value)});
  }
  return exits;
}

}  // namespace outrider
