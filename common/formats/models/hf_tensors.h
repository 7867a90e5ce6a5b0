// The tensors of a Hugging Face checkpoint as a GGUF file would have them: names, shapes, row
// order, experts stacked, rope factors made from the configuration. Nothing is read or copied here;
// each tensor says where its rows come from. Private to this room.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/containers/safetensors.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/models/stored_tensor.h"

namespace outrider {

// In the order a forward pass meets them, checked against the layout the hyperparameters ask for.
// Whether there is an output matrix the tensors know better than the configuration, so
// `hyperparameters.tied_embeddings` is set by them: a stored copy of the embeddings is no matrix of
// its own. Messages start with `name`, the directory.
absl::StatusOr<std::vector<StoredTensor>> MapHfTensors(const SafetensorsSet& files,
                                                       const std::string& name,
                                                       Hyperparameters& hyperparameters);

// What llama3 scaling divides each pair's frequency by: 1 for those that turn often within the
// original context, the factor for those that do not get round, a blend between.
std::vector<float> Llama3RopeFactors(const Rope& rope);

}  // namespace outrider
