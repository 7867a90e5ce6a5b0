// Exits that a GPU scores by itself, beside the layers to come: what of engine/exit_heads.h goes
// over whole rows.
//
//   exits->Begin(heads.round());                 // once a run
//   exits->Score(exit, slot, states);            // after its layer has been asked for, and on
//   OUTRIDER_RETURN_IF_ERROR(exits->Await(slot));
//   heads.Hear(layer, exits->ScoresOf(slot));    // while later layers are computed
//
//   device   layers 0..7 | copy | layers 8..15                  | copy | layers 16..31
//   beside                  \-- adapter, norm, head, ranking --\    \-- ...
//   host                                                        here
//
// The rows of all walks are scored together, band by band: adapter, final norm and the candidates'
// rows of the output matrix are what exit_scorer.h computes, to the bit. Of walks that take the
// largest logit the first candidates come to the host and how large they are (ExitRanking), and of
// the others the candidates' logits, for their choosers to say what they would do.
//
// Candidates' rows are gathered into panels of their own: those of the frequent tokens when exits are
// attached, those of the round's beside the first layers of its run. With ExitScope::kFull all of the
// output matrix is multiplied with, and rows of logits are as long as the vocabulary.
//
// Memory:  taken in Create(): what is trained, the candidates' rows, what a band of rows needs; and
//          for each slot, on the host, as many rankings and candidates' logits as a run has rows.
// Threads: one call at a time.
// Errors:  Create(): InvalidArgument, starting with the path, for exits of another model;
//          Unimplemented for ranks without a kernel; ResourceExhausted. Else those of the queue.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/cuda/device_queue.h"
#include "common/cuda/device_weights.h"
#include "common/cuda/row_quants.h"
#include "common/engine/engine.h"
#include "common/engine/exit_heads.h"
#include "common/formats/models/exits_file.h"
#include "common/model/exits/exit_ranking.h"

namespace outrider {

class DeviceExits {
 public:
  // Rows that go through the adapter together: for as many as this a product reads weights once.
  static constexpr uint32_t kBand = 64;

  // The model they are attached to. All of it outlives them.
  struct Place {
    const ModelSpec& spec;
    const EngineInfo& info;
    const DeviceWeights& weights;
    DeviceQueue& queue;
  };
  // States of so many layers may be on their way at a time.
  static absl::StatusOr<std::unique_ptr<DeviceExits>> Create(const TrainedExits& exits,
                                                             const std::string& path,
                                                             const Place& place,
                                                             const ExitOptions& options,
                                                             uint32_t slot_count);

  // The run that begins. What was scored of the one before has been awaited, or the queue has.
  void Begin(const ExitHeads::Round& round);
  // `states` [rows of the run, embedding] stay as they are until the slot has been awaited.
  void Score(uint32_t exit, uint32_t slot, float* states);
  absl::Status Await(uint32_t slot);
  // Of an awaited slot: until something else is scored by it.
  ExitHeads::Scores ScoresOf(uint32_t slot) const;
  // What that has taken, beside all else.
  Duration TimeOf(uint32_t slot) const;

 private:
  // Numbers of departures and marks, behind those of whoever sends states.
  static constexpr uint32_t kFirstNumber = 1u << 16;
  static uint32_t ScoringBegins(uint32_t slot) { return kFirstNumber + 2 * slot; }
  static uint32_t ScoringEnds(uint32_t slot) { return kFirstNumber + 2 * slot + 1; }
  uint32_t RankingsLeave(uint32_t slot) const {
    return kFirstNumber + slot * (1 + band_count_max_);
  }
  uint32_t LogitsLeave(uint32_t slot, uint32_t band) const {
    return RankingsLeave(slot) + 1 + band;
  }

  struct Adapter {
    DeviceBuffer memory;
    DeviceMatrix down;
    DeviceMatrix up;
  };
  // Of the round, in one piece, as it is fetched.
  struct Tables {
    uint32_t* rows;    // [rows]
    uint32_t* tokens;  // [round_token_max]
    uint32_t* own_columns;
    ExitCandidates* candidates;  // [rows]
  };
  // What comes of a layer's rows.
  struct Slot {
    HostBuffer rankings;  // [rows]
    HostBuffer logits;    // [rows, columns]
  };

  DeviceExits(const Place& place, const ExitOptions& options, uint32_t frequent_count);
  absl::Status TakeMemory(uint32_t rank_max, uint32_t slot_count);
  absl::StatusOr<Adapter> Upload(const TrainedExit& exit);
  absl::Status GatherFrequent(std::span<const TokenId> tokens);
  size_t TableBytes() const;
  Tables TablesIn(std::byte* memory) const;
  DeviceMatrix Gathered(const DeviceBuffer& panels, uint32_t count) const;
  void Gather(const uint32_t* tokens, const DeviceMatrix& to);

  uint32_t BandCount() const { return (row_count_ + kBand - 1) / kBand; }
  uint32_t BandRows(uint32_t band) const;
  void FetchRound();
  void ScoreBand(const Adapter& adapter, uint32_t band, float* states);
  void Adapt(const Adapter& adapter, const uint32_t* which, uint32_t row_count, float* states);
  void Project(uint32_t row_count);
  void Rank(uint32_t first, uint32_t row_count);
  void Norm(float* states, const uint32_t* which, const DeviceNorm& norm, uint32_t row_count);
  gpu::Product ProductOf(const gpu::GpuRows& x, const DeviceMatrix& matrix, float* out,
                         size_t stride) const;
  void Multiply(const gpu::GpuRows& x, const DeviceMatrix& matrix, float* out, size_t stride);

  const ModelSpec& spec_;
  const DeviceWeights& weights_;
  DeviceQueue& queue_;
  const bool is_full_;            // the scope
  const uint32_t row_count_max_;  // of a run
  const uint32_t band_count_max_;
  const uint32_t round_token_max_;
  const uint32_t frequent_count_;
  const uint32_t column_count_;  // of a row of logits

  std::vector<Adapter> adapters_;
  DeviceBuffer ones_;      // [embedding]: a norm without weights
  DeviceBuffer frequent_;  // panels of the output matrix's rows
  DeviceBuffer round_;
  DeviceBuffer tokens_;  // [columns]: whose column it is
  DeviceBuffer tables_;
  HostBuffer tables_here_;
  // Of a band.
  DeviceBuffer normed_;  // [kBand, embedding]
  DeviceBuffer state_;   // [kBand, embedding]
  DeviceBuffer inner_;   // [kBand, rank]
  DeviceBuffer logits_;  // [kBand, columns]
  RowQuants quants_;
  DeviceBuffer rankings_;  // [rows]
  std::vector<Slot> slots_;

  // Of the present run.
  uint32_t row_count_ = 0;  // that are scored
  uint32_t round_count_ = 0;
  bool is_fetched_ = false;
  std::vector<bool> band_has_logits_;  // that are wanted: by band
};

}  // namespace outrider
