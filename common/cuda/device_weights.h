// A model's weights on a GPU: what common/model/weights has on this machine, uploaded.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const DeviceWeights weights,
//                             DeviceWeights::Upload(spec, *resident, queue));
//
// Matrices stay as they are packed for this machine (formats/tensors/panel_layout.h), since sixteen outputs
// side by side are what a tile of tensor cores takes too; embeddings and position tables, which
// this machine keeps in rows, are packed on the way.
//
// Memory: one piece of the GPU's, as large as the weights and a little padding.
// Errors: ResourceExhausted with the sizes when the GPU has not so much. Unimplemented, naming it,
//         for a type without a kernel there, for experts of several types in one layer, and for a
//         kind of layer that only this machine's processor has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

struct DeviceMatrix {
  gpu::PanelKind kind = gpu::PanelKind::kF32;
  ActivationForm form = ActivationForm::kFloat;
  uint32_t outputs = 0;
  uint32_t inputs = 0;
  size_t panel_bytes = 0;
  const std::byte* panels = nullptr;  // null: there is none
};

struct DeviceLinear {
  DeviceMatrix matrix;
  const float* bias = nullptr;
};

struct DeviceNorm {
  const float* weight = nullptr;  // null: there is none
  const float* bias = nullptr;
};

struct DevicePartNorms {
  DeviceNorm before;
  DeviceNorm after;
  DeviceNorm sum;
};

struct DeviceHeadNorm {
  const float* weight = nullptr;
  uint32_t length = 0;
};

struct DeviceFeedForward {
  DeviceLinear gate, up, down;
};

struct DeviceExperts {
  DeviceLinear router;
  DeviceFeedForward each;  // the first one's matrices and biases, which the others' follow
  DeviceFeedForward shared;
  const float* shared_gate = nullptr;  // null: none is shared
};

struct DeviceLayer {
  DevicePartNorms mixer_norms;
  DeviceLinear query, key, value, output;
  DeviceHeadNorm query_norm, key_norm;

  DevicePartNorms feed_forward_norms;
  DeviceFeedForward feed_forward;  // or
  DeviceExperts experts;
};

class DeviceWeights {
 public:
  // The queue outlives it.
  static absl::StatusOr<DeviceWeights> Upload(const ModelSpec& spec, ResidentWeights& weights,
                                              DeviceQueue& queue);

  // What Upload() would refuse, before a model is loaded for nothing.
  static absl::Status Check(const ModelSpec& spec);

  const DeviceMatrix& embeddings() const { return embeddings_; }
  const DeviceMatrix& positions() const { return positions_; }
  const DeviceLayer& layer(uint32_t layer) const { return layers_[layer]; }
  const DeviceNorm& head_norm() const { return head_norm_; }
  const DeviceMatrix& head() const { return head_; }

  // Whether products with some of them have bits of a GPU's own (kernels/split_products.h).
  bool HaveOwnBits() const;

 private:
  class Packer;

  DeviceBuffer memory_;
  DeviceMatrix embeddings_;
  DeviceMatrix positions_;  // where they are learned
  std::vector<DeviceLayer> layers_;
  DeviceNorm head_norm_;
  DeviceMatrix head_;
};

}  // namespace outrider
