// The end of a target as libtorch tensors: its final norm and output matrix, which its exits share
// and which training leaves as they are.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "absl/status/statusor.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"

namespace outrider {

class FrozenHead {
 public:
  // Reads nothing else of the model. `path` starts every message.
  static absl::StatusOr<FrozenHead> Load(const ModelFile& model, const std::string& path,
                                         const at::Device& device);

  // Hidden states [rows, embedding], before the final norm, to logits [rows, vocabulary].
  at::Tensor Apply(const at::Tensor& hidden) const;

 private:
  FrozenHead() = default;

  NormKind norm_kind_ = NormKind::kRms;
  double norm_epsilon_ = 0;
  at::Tensor norm_weight_;
  at::Tensor norm_bias_;  // undefined: none
  at::Tensor matrix_;
};

}  // namespace outrider
