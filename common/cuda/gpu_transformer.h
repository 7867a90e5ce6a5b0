// The forward pass on a GPU: that of common/model/transformer.h, over kernels (common/cuda/kernels)
// that keep the same numeric contract, but for products of halves (kernels/split_products.h).
//
//   OUTRIDER_RETURN_IF_ERROR(transformer.Forward(batch, watch, {0, 5}));
//   OUTRIDER_RETURN_IF_ERROR(transformer.SeeWatched());
//   OUTRIDER_ASSIGN_OR_RETURN(const LogitRows logits, transformer.Logits());
//   transformer.Project({7, 8}); ...
//   OUTRIDER_RETURN_IF_ERROR(transformer.Finish());
//
// Only tokens, places and angles go to the device in a run, and only logits that are asked for come
// back; and what is wanted of watched layers: states of rows, or what exits say of them. Either comes
// of a copy that later layers do not touch, beside their kernels (Departures), and is seen while
// these run:
//
//   device   layers 0..7 | copy | layers 8..15 | copy | layers 16..31 | norm, head
//   beside                  \-- exit, to the host  \-- exit, to the host
//   host     asks for all of it, then:  sees 7          sees 15         waits for logits
//
// The kernels of a run depend on nothing but how many rows it has. So those between one watched
// layer and the next are asked for once, and replayed from then on as one.
//
// Memory:  all of it taken in Create(), for `row_count_max` rows, and in MakeRoomForWatched().
// Threads: one call at a time.
// Errors:  those of the queue, at the next call that answers with a status.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/departures.h"
#include "common/cuda/device_exits.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/gpu_experts.h"
#include "common/cuda/row_quants.h"
#include "common/cuda/run_tables.h"
#include "common/engine/device_work.h"
#include "common/model/memory/batch.h"
#include "common/model/model_spec.h"
#include "common/model/transformer.h"

namespace outrider {

class GpuTransformer {
 public:
  // All that is passed outlives it.
  static absl::StatusOr<std::unique_ptr<GpuTransformer>> Create(
      const ModelSpec& spec, const DeviceWeights& weights, const MemoryLayout& layout,
      const SequenceLimits& limits, std::span<const float> rope_divisors,
      uint32_t logit_row_count_max, DeviceQueue& queue, ThreadPool& pool);

  // Where somebody wants the residual stream [rows, embedding_length] after a layer.
  struct WatchedLayer {
    uint32_t layer = 0;
    bool comes_here = false;            // all of it
    std::optional<uint32_t> exit = {};  // of Watch::exits: scores it there
  };
  struct Watch {
    std::span<const WatchedLayer> layers = {};  // rising
    DeviceExits* exits = nullptr;
    // Once the device has something to do and before an exit is asked to score: who is scored.
    std::function<void()> begin_exits = {};
    // States are there where they come here.
    std::function<void(const WatchedLayer& watched, uint32_t slot, std::span<const float> states)>
        see = {};
  };
  // Between runs: of so many layers, states may be on their way at a time. ResourceExhausted when
  // there is no memory for that.
  absl::Status MakeRoomForWatched(uint32_t layer_count);
  uint32_t slot_count() const { return departures_.slot_count(); }

  // Asks for all layers, and then for the logits of some rows, or none. Where there is room for the
  // states that are watched, it does not wait for the device.
  absl::Status Forward(const Batch& batch, const Watch& watch, std::span<const uint32_t> rows);
  // All that is watched is seen, layer by layer, as it arrives.
  absl::Status SeeWatched();

  // Final norm and output matrix for more rows of the last Forward().
  void Project(std::span<const uint32_t> rows);
  // Of the rows last asked for: their logits, which stay until the next call; the largest of each.
  absl::StatusOr<LogitRows> Logits();
  absl::StatusOr<std::span<const gpu::BestLogit>> LargestLogits();
  // All that was asked for of the run is done.
  absl::Status Finish();

  // What the device has done since this was last asked.
  DeviceWork CollectWork() { return std::exchange(work_, {}); }

 private:
  // Readings of the device's clock. After the last of these, two for each slot of a watched layer.
  enum Mark : uint32_t { kBegin, kEnd, kAllAsked, kAllSeen, kSlots };
  static uint32_t CopyBegins(uint32_t slot) { return kSlots + 2 * slot; }
  static uint32_t CopyEnds(uint32_t slot) { return kSlots + 2 * slot + 1; }

  // One row of all of them, and what they are multiplied with.
  struct Output {
    const DeviceLinear& linear;
    float* out;
  };
  // By which the states of a watched layer leave.
  struct Slot {
    DeviceBuffer there;  // [rows, embedding]
    HostBuffer here;
    WatchedLayer watched;  // whose they are
  };

  GpuTransformer(const ModelSpec& spec, const DeviceWeights& weights, const MemoryLayout& layout,
                 uint32_t row_count_max, uint32_t logit_row_count_max, DeviceQueue& queue)
      : spec_(spec),
        weights_(weights),
        layout_(layout),
        row_count_max_(row_count_max),
        logit_row_count_max_(logit_row_count_max),
        queue_(queue),
        departures_({.await = [this](uint32_t slot) { return Await(slot); },
                     .see = [this](uint32_t, uint32_t slot) { See(slot); }}) {}
  absl::Status TakeMemory();

  void PutGiven(const Batch& batch);
  void RunLayers(uint32_t first, uint32_t end);
  void Embed();
  void Layer(uint32_t layer);
  void Attend(uint32_t layer, const float* x);
  void FeedForward(uint32_t layer, const float* x);
  void Feed(gpu::Gate gate, uint32_t length, const DeviceFeedForward& weights, const float* x,
            float* out);
  const float* Enter(const DevicePartNorms& norms);
  void Leave(const DevicePartNorms& norms);
  void AddPart();
  void NormHeads(const DeviceHeadNorm& norm, float* heads, uint32_t length);
  void Multiply(const float* x, uint32_t row_count, uint32_t inputs,
                std::initializer_list<Output> outputs);
  absl::Status SendStates(const WatchedLayer& watched);
  absl::Status Await(uint32_t slot);
  void See(uint32_t slot);
  void Ask(std::span<const uint32_t> rows);
  void ProjectAsked();
  void OpenSpan();
  absl::Status CloseSpan();

  const ModelSpec& spec_;
  const DeviceWeights& weights_;
  const MemoryLayout& layout_;
  const uint32_t row_count_max_;
  const uint32_t logit_row_count_max_;
  DeviceQueue& queue_;
  std::unique_ptr<RunTables> tables_;

  DeviceBuffer hidden_;  // [rows, embedding]: the residual stream
  DeviceBuffer normed_;  // [rows, embedding]: what enters a part of a layer
  DeviceBuffer part_;    // [rows, embedding]: what leaves it
  DeviceBuffer beside_;  // [rows, embedding]: what leaves a layer's shared expert
  DeviceBuffer query_, key_, value_, attended_, gate_, up_;
  DeviceBuffer logits_, largest_, asked_;
  RowQuants quants_;
  std::unique_ptr<GpuExperts> experts_;

  std::vector<Slot> slots_;
  Departures departures_;  // by those
  Watch watch_;            // of the present or last run

  std::vector<float> logits_here_;
  std::vector<gpu::BestLogit> largest_here_;
  // Of the present or last run.
  uint32_t row_count_ = 0;
  uint32_t asked_count_ = 0;
  bool is_watched_ = false;
  bool part_is_owed_ = false;  // to the residual stream
  // The device's time counts while a span is open: from where it gets something to do until that is
  // there. Between two of them the host chooses.
  bool span_is_open_ = false;

  DeviceWork work_;  // since it was last asked for
};

}  // namespace outrider
