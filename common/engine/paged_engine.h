// What engines have in common whose layers keep what they keep in pages (model/memory), wherever
// those lie: their sequences, and the batch that a run of them makes.
//
// A derived engine makes the pages, hands them over in Begin() before anything else is asked of it,
// and computes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/engine/engine.h"
#include "common/engine/sequence_table.h"
#include "common/model/memory/batch.h"
#include "common/model/memory/page_memory.h"
#include "common/model/memory/sequence_memory.h"

namespace outrider {

class PagedEngine : public Engine {
 public:
  // Rows whose logits are kept at once: the largest walk, and a good band of small ones.
  static uint32_t LogitRowsMax(uint32_t row_count_max, uint32_t node_count_max) {
    constexpr uint32_t kBand = 64;
    return std::min(row_count_max, std::max(kBand, node_count_max + 1));
  }

  const EngineInfo& info() const final { return info_; }
  const ModelSpec& spec() const final { return spec_; }
  const Ledger& ledger() const final { return pages_->ledger(); }

  absl::StatusOr<SequenceId> Open() final;
  absl::StatusOr<SequenceId> Fork(SequenceId id, uint32_t length) final;
  void Close(SequenceId id) final;
  uint32_t Length(SequenceId id) const final { return At(id).length(); }
  absl::Status Reserve(SequenceId id, uint32_t cell_count, uint32_t node_count) final {
    return At(id).Reserve(cell_count, node_count);
  }
  absl::Status Run(EngineRun& run) final;
  void Commit(SequenceId id, uint32_t chain_count, std::span<const uint32_t> path) final {
    At(id).Commit(chain_count, path);
  }
  void DropNodes(SequenceId id) final { At(id).DropNodes(); }
  uint32_t Truncate(SequenceId id, uint32_t length) final { return At(id).Truncate(length); }

 protected:
  PagedEngine(const ModelSpec& spec, EngineInfo info);

  absl::Status Begin(std::unique_ptr<PageMemory> pages);
  SequenceLimits limits() const;
  uint32_t logit_rows_max() const {
    return LogitRowsMax(info_.row_count_max, info_.node_count_max);
  }
  PageMemory& pages() { return *pages_; }
  SequenceMemory& At(SequenceId id) const { return sequences_.At(id).memory; }

 private:
  struct Sequence {
    Sequence(PageMemory& pages, const SequenceLimits& limits) : memory(pages, limits) {}

    uint64_t id = 0;  // 0: nobody's
    SequenceMemory memory;
    uint64_t last_run = 0;
  };

  // The batch has the rows of the run, in its order.
  virtual absl::Status Compute(const Batch& batch, EngineRun& run) = 0;
  void Place(const RunPart& part);

  const ModelSpec spec_;
  const EngineInfo info_;
  std::unique_ptr<PageMemory> pages_;
  std::optional<Batch> batch_;
  SequenceTable<Sequence> sequences_;
  uint64_t run_count_ = 0;
};

}  // namespace outrider
