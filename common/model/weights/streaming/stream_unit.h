// A layer, or the head, as it is streamed: what is read for it at a time, and what of it stays in memory.
// Experts are no part of their layer's unit (expert_places.h).
//
//   OUTRIDER_ASSIGN_OR_RETURN(StreamUnit unit, StreamUnit::Create(*model, planner.Layer(3), files, path));
//   ... a lane brings unit.reads to filled.memory, which has room for unit.slot_bytes() ...
//   unit.Finish(filled);   // views of what lies there now
//
// Norms and biases are read by Create() and kept: they are small, and lie in files as other types. A router
// stays as well, with its bias, where its layer comes and goes, so that it can be asked before that has landed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/direct_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/flash_reads.h"

namespace outrider {

struct StreamUnit {
  using Plan = std::variant<LoadPlan<LayerWeights>, LoadPlan<HeadWeights>>;

  // What lies in memory of a unit.
  struct Filled {
    std::byte* memory = nullptr;
    std::variant<LayerWeights, HeadWeights> weights = {};  // views of that
  };

  // Of a streamed layer with experts.
  struct KeptRouter {
    size_t matrix_bytes() const;
    // Of the memory that it is read into.
    size_t bytes() const;

    std::vector<FlashRead> reads;
    std::span<const std::byte> bias;  // of the unit's vectors
    std::byte* memory = nullptr;
    Linear weights;  // views of that
  };

  // `files` are those of the model, by index; `path` starts messages.
  static absl::StatusOr<StreamUnit> Create(const ModelFile& model, Plan plan,
                                           std::span<const DirectFile* const> files,
                                           const std::string& path);

  size_t slot_bytes() const;
  // From now on a layer's router is not read with it.
  void KeepRouter();
  // Where it is read to, and its bias is from now on.
  void PlaceRouter(std::byte* memory);
  // Its matrices have landed: the rest of it, and views.
  void Finish(Filled& filled) const;

  Plan plan;
  std::vector<FlashRead> reads;
  std::vector<std::byte> vectors;  // norms and biases, in the order of the plan's
  bool is_pinned = false;
  Filled kept = {};  // of what is pinned
  std::optional<KeptRouter> router = {};
};

// The floats of a plan's vectors, one after another.
absl::Status ReadVectors(const ModelFile& model, std::span<const VectorPart> parts,
                         std::vector<std::byte>& out);
// Those, to where they belong in a slot.
void PutVectors(std::span<const VectorPart> parts, std::span<const std::byte> values,
                std::byte* slot);

}  // namespace outrider
