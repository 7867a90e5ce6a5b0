// Weights of a model that is larger than memory: some of them stay, the others come from flash just
// before they are used, layer after layer, in a ring of slots that is read ahead.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<StreamingWeights> weights,
//                             StreamingWeights::Open(*model, spec, path,
//                                                    {.slot_count = 3, .pinned_layer_count = 8},
//                                                    progress));
//
// The order of layers is a cycle, so what comes next is always known, and a cache that evicts what was
// used longest ago would hit nothing. A fixed part of the layers is pinned instead, evenly spread, so
// that the lane goes on reading while pinned ones are computed.
//
// Whoever acquires another key than the next in the ring (a pass whose rows all dropped out half
// way) has what was read ahead thrown away up to there. The head is not read ahead for a run that
// wants none.
//
// What it joins: what is read for a layer and what of it stays (stream_unit.h), the ring (slot_ring.h),
// places of experts (expert_places.h), tables (flash_tables.h), and the lane that reads (flash_lane.h).
//
// The bits are those of resident weights: the same panels, which lie in the file where `outrider convert
// --flash` wrote it, and are packed from its rows where not. Rows of embeddings are looked up on flash,
// unless they are the head and that is pinned. Norms, biases and routers are kept.
//
// Of a layer with experts all but those goes like any other layer, streamed or pinned. Experts come by
// key, those that the rows of a pass have chosen, into places of their own, and the next layer's may be
// read ahead of its choice, where a guess at it by its router is right often enough.
//
// Memory:  memory_bytes(): slots, pinned weights, places of experts, routers, norms and biases,
//          staging; all taken by Open(). Reads go past the page cache where the file system lets them
//          (refusals() says where not); elsewhere little stays there.
// Threads: as WeightStore says, beside the lane's, and where io_uring is refused a few that read.
// Errors:  a read that fails is that of the Acquire() or LookUp() it belongs to, and names file,
//          tensor and offset; the next one tries again. InvalidArgument for a model whose weights
//          lie in its files neither as rows nor as they are used.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/chrome_trace.h"
#include "common/base/direct_file.h"
#include "common/base/file_watch.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"
#include "common/model/weights/streaming/expert_cache.h"
#include "common/model/weights/streaming/expert_places.h"
#include "common/model/weights/streaming/flash_lane.h"
#include "common/model/weights/streaming/flash_tables.h"
#include "common/model/weights/streaming/slot_ring.h"
#include "common/model/weights/streaming/stream_options.h"
#include "common/model/weights/streaming/stream_unit.h"
#include "common/model/weights/weight_store.h"

namespace outrider {

// Since it was opened.
struct StreamStats {
  uint64_t bytes_read = 0;
  uint64_t acquired = 0;     // streamed keys
  uint64_t thrown_away = 0;  // keys that were read ahead for nothing
  Duration stalled = {};     // in Acquire() and LookUp(), idle work and all
  ExpertStats experts = {};
};

class StreamingWeights final : public WeightStore {
 public:
  // `path` starts every message. Reads what is pinned, and the whole file once if it has no record of
  // its content hash (`outrider convert --flash` writes one).
  static absl::StatusOr<std::unique_ptr<StreamingWeights>> Open(const ModelFile& model,
                                                                const ModelSpec& spec,
                                                                const std::string& path,
                                                                const StreamOptions& options,
                                                                const LoadProgress& progress);
  ~StreamingWeights() override;  // nothing is leased

  // What StreamOptions::expert_place_count counts. None where no layer has experts.
  static uint64_t PlaceBytesOfExpert(const ModelFile& model, const ModelSpec& spec) {
    return ExpertPlaces::PlaceBytes(model, spec);
  }

  std::span<const float> rope_freqs() const override { return rope_freqs_; }
  absl::Status LookUp(WeightTable table, std::span<const TableRow> rows) override;
  absl::StatusOr<Lease<HeadWeights>> Acquire(HeadKey key) override;
  absl::StatusOr<Lease<LayerWeights>> Acquire(LayerKey key) override;
  absl::StatusOr<Lease<FeedForwardWeights>> Acquire(ExpertKey key) override;
  uint32_t expert_leases_max() const override;
  void BeginRun(bool wants_head) override;
  // Experts of one layer: the order of all else is known.
  void Prefetch(std::span<const WeightKey> keys) override;
  bool IsAtHand(ExpertKey key) override;
  const Linear* RouterAhead(uint32_t layer) override;
  void Guess(std::span<const WeightKey> keys) override;
  void LendWaits(IdleWork work) override { idle_work_ = std::move(work); }

  // From the next layer on that is leased alone, so many bytes fewer stay in memory than Open() took:
  // places of experts go first, then pinned layers, which are read instead. A pinned head stays. Where
  // it is not enough runs fail with `otherwise`, until less is asked for. What was given up stays so.
  // Any thread.
  void GiveUp(uint64_t bytes, absl::Status otherwise);

  uint64_t content_hash() const { return content_hash_; }
  uint64_t memory_bytes() const { return memory_bytes_; }
  // Of a pass that goes all the way, but for experts.
  uint64_t bytes_per_pass() const { return bytes_per_pass_; }
  StreamStats stats() const;
  // How it is read, and why it is not read in a better way.
  const std::string& backend() const { return lane_->file(0).backend(); }
  const std::vector<std::string>& refusals() const { return lane_->file(0).refusals(); }

 private:
  StreamingWeights() = default;

  absl::Status Plan(const ModelFile& model, const ModelSpec& spec,
                    std::span<const std::unique_ptr<DirectFile>> opened,
                    const StreamOptions& options);
  absl::Status TakeMemory();
  absl::Status ReadEntry(const ModelFile& model, const ModelSpec& spec,
                         std::vector<std::unique_ptr<DirectFile>> files);
  absl::Status StartLane(const ModelFile& model, const StreamOptions& options,
                         const std::shared_ptr<ReadThreads>& threads);
  absl::Status ReadKept(const LoadProgress& progress);

  uint32_t HeadUnit() const { return static_cast<uint32_t>(units_.size() - 1); }
  uint32_t UnitOf(const WeightKey& key) const;
  absl::StatusOr<const StreamUnit::Filled*> AcquireUnit(uint32_t unit);
  void Release(const WeightKey& key) override;

  void AwaitFilled(const Hand& hand) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnFilled(uint64_t id, const absl::Status& status);
  absl::Status GiveUpWhatIsAsked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool GiveUpOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status KeepRouterOf(StreamUnit& unit);
  size_t Unpin(uint32_t unit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::optional<uint32_t> LargestPinned() const;
  void DrawFill(const SlotRing::Slot& slot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DrawExpert(const ExpertPlaces::Fill& fill) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DrawRead(const ChromeTrace::Label& label, MonotonicTime asked,
                const ChromeTrace::Values& values) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DrawChoice(uint32_t layer, const ExpertStats& before) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after Open(), but for what lies in the memory, and what is given up between two layers.
  std::string path_;
  std::vector<StreamUnit> units_;  // layers, then the head
  PageBuffer pinned_memory_;
  PageBuffer router_memory_;
  std::vector<AlignedBuffer> unpinned_routers_;
  std::vector<float> rope_freqs_;
  uint64_t content_hash_ = 0;
  uint64_t memory_bytes_ = 0;
  std::atomic<uint64_t> bytes_per_pass_ = 0;
  ChromeTrace* trace_ = nullptr;  // null: nobody asked for one
  ChromeTrace::Track reads_track_ = {};
  ChromeTrace::Track waits_track_ = {};

  // The thread that computes.
  std::vector<FileWatch> watches_;  // a file of other weights is another model's
  IdleWork idle_work_;
  uint32_t layer_lease_count_ = 0;
  std::unique_ptr<FlashTables> tables_;  // but for bytes_read()

  mutable Mutex mu_;
  CondVar filled_;
  std::unique_ptr<SlotRing> ring_ ABSL_PT_GUARDED_BY(mu_);
  std::unique_ptr<ExpertPlaces> experts_ ABSL_PT_GUARDED_BY(mu_);  // none: no layer has any
  const Hand* awaited_ ABSL_GUARDED_BY(mu_) = nullptr;             // by idle work
  absl::Status kept_status_ ABSL_GUARDED_BY(mu_);
  uint32_t kept_count_ ABSL_GUARDED_BY(mu_) = 0;  // fills of what stays
  uint64_t acquired_ ABSL_GUARDED_BY(mu_) = 0;
  Duration stalled_ ABSL_GUARDED_BY(mu_) = {};
  MonotonicTime drawn_ ABSL_GUARDED_BY(mu_) = {};  // until when the reads are in the trace
  uint64_t to_give_up_ ABSL_GUARDED_BY(mu_) = 0;   // to be given up, of what Open() took,
  uint64_t given_up_ ABSL_GUARDED_BY(mu_) = 0;     // what was,
  absl::Status otherwise_ ABSL_GUARDED_BY(mu_);    // and what is said where that is less
  std::atomic<bool> landed_ = false;               // what idle work waits for

  std::unique_ptr<FlashLane> lane_;  // last: its thread uses all of the above
};

}  // namespace outrider
