// The units in which weights stay or are streamed, a model's layers and then its head: what is read
// for each, which of them are pinned, and the order in which the others come from flash.
//
//   OUTRIDER_RETURN_IF_ERROR(units.Plan(model, spec, files, path, options));
//   OUTRIDER_RETURN_IF_ERROR(units.TakeMemory());
//   ... what is pinned is read into its `kept`, passes go through the order() of all others ...
//   if (const std::optional<uint32_t> unit = units.LargestPinned(); unit) units.Unpin(*unit);
//
// A pinned layer may be given up while the model is used: it is read like the others from then on,
// and its memory is there for something else.
//
// Memory:  memory_bytes(): what is pinned, and routers of streamed layers, taken by TakeMemory();
//          norms and biases.
// Threads: constant after TakeMemory(), but for what lies in memory, and for Unpin(): whose caller
//          sees to it that nobody goes through order() meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/base/buffer.h"
#include "common/base/direct_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/flash_reads.h"
#include "common/model/weights/streaming/stream_options.h"

namespace outrider {

// What lies in memory of one unit.
struct FilledUnit {
  std::byte* memory = nullptr;
  std::variant<LayerWeights, HeadWeights> weights = {};  // views of that
};

// Of a streamed layer with experts.
struct KeptRouter {
  std::vector<FlashRead> reads;
  std::byte* memory = nullptr;
  Linear weights;  // views of that
};

// A layer, or the head: what is read for it, and where it stays if it is pinned.
struct StreamUnit {
  // In a slot, or where it is pinned.
  size_t bytes() const;
  bool has_experts() const;
  // Its matrices have landed: the rest of it, and views.
  void Finish(FilledUnit& filled) const;

  std::variant<LoadPlan<LayerWeights>, LoadPlan<HeadWeights>> plan;
  std::vector<FlashRead> reads;
  std::vector<std::byte> vectors;  // norms and biases, in the order of the plan's
  bool is_pinned = false;
  FilledUnit kept = {};  // of what is pinned
  std::optional<KeptRouter> router = {};
  uint32_t place = 0;  // in the order, of what is streamed
};

class StreamUnits {
 public:
  // `files` are those of the model, by index. InvalidArgument, starting with `path`, where rows do
  // not lie in them as they are used.
  absl::Status Plan(const ModelFile& model, const ModelSpec& spec,
                    std::span<const DirectFile* const> files, const std::string& path,
                    const StreamOptions& options);
  // For what stays.
  absl::Status TakeMemory();

  uint32_t head() const { return static_cast<uint32_t>(units_.size() - 1); }
  StreamUnit& operator[](uint32_t unit) { return units_[unit]; }
  const StreamUnit& operator[](uint32_t unit) const { return units_[unit]; }
  std::span<StreamUnit> all() { return units_; }
  // Streamed units, in the order of a pass.
  std::span<const uint32_t> order() const { return order_; }
  // Of the largest of those.
  size_t slot_bytes() const;
  // That are read by a pass which goes all the way, but for experts. Any thread.
  uint64_t bytes_per_pass() const { return bytes_per_pass_; }
  uint64_t memory_bytes() const { return memory_bytes_; }

  // Which layer without experts would leave most room: so what becomes a slot is large enough for
  // all that come after it. None when there is none left to give up.
  std::optional<uint32_t> LargestPinned() const;
  // It is streamed from now on.
  void Unpin(uint32_t unit);
  // Where it was pinned: whole pages of that, which go back to the machine. How much it was.
  size_t ReturnMemory(uint32_t unit);

 private:
  absl::Status Add(const ModelFile& model, std::span<const MatrixPart> matrices,
                   std::span<const VectorPart> vectors, std::span<const DirectFile* const> files,
                   const std::string& path, StreamUnit unit);
  void Number();

  std::vector<StreamUnit> units_;  // layers, then the head
  std::vector<uint32_t> order_;    // streamed units, in the order of a pass
  PageBuffer pinned_memory_;
  PageBuffer router_memory_;
  uint64_t memory_bytes_ = 0;
  std::atomic<uint64_t> bytes_per_pass_ = 0;
};

// As floats, one after another: those of a plan's vectors.
absl::Status ReadVectors(const ModelFile& model, std::span<const VectorPart> parts,
                         std::vector<std::byte>& out);

}  // namespace outrider
