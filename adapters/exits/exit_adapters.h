// The adapters of exits while they are trained (common/formats/models/EXITS.md says what they
// compute):
//
//   r  = sqrt(mean(h^2) + epsilon)
//   h' = h + r up(silu(down(h / r)))
//
// `up` begins as zero, so an untrained exit is the target's own head put to an unfinished state.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/formats/models/exits_file.h"
#include "common/model/model_spec.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

class ExitAdapters {
 public:
  // After each of `layers`. Where `down` begins is a function of the seed.
  ExitAdapters(const ModelSpec& spec, std::span<const uint32_t> layers, uint32_t rank,
               uint64_t seed, const at::Device& device);

  size_t exit_count() const { return layers_.size(); }
  uint32_t layer_of(size_t exit) const { return layers_[exit]; }
  // "blk.4.exit_down.weight", "blk.4.exit_up.weight", and so on.
  std::span<NamedParameter> parameters() { return parameters_; }
  at::Device device() const { return parameters_[0].value.device(); }

  // [rows, embedding] to the same.
  at::Tensor Adapt(size_t exit, const at::Tensor& hidden) const;

  // As they go into a file, not calibrated.
  std::vector<TrainedExit> Trained() const;

 private:
  const std::vector<uint32_t> layers_;
  const uint32_t rank_;
  const double norm_epsilon_;
  std::vector<NamedParameter> parameters_;  // two an exit
};

}  // namespace outrider
