#include "common/engine/paged_engine.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

PagedEngine::PagedEngine(const ModelSpec& spec, EngineInfo info)
    : spec_(spec), info_(std::move(info)) {}

absl::Status PagedEngine::Begin(std::unique_ptr<PageMemory> pages) {
  pages_ = std::move(pages);
  OUTRIDER_ASSIGN_OR_RETURN(batch_, Batch::Create(pages_->layout(), limits()));
  for (uint32_t i = 0; i < info_.sequence_count_max; ++i) {
    sequences_.Add(std::make_unique<Sequence>(*pages_, limits()));
  }
  return absl::OkStatus();
}

SequenceLimits PagedEngine::limits() const {
  return {.length_max = info_.context_length,
          .node_count_max = info_.node_count_max,
          .row_count_max = info_.row_count_max};
}

// --- sequences ---

absl::StatusOr<SequenceId> PagedEngine::Open() {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Open());
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> PagedEngine::Fork(SequenceId id, uint32_t length) {
  SequenceMemory& memory = At(id);
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const fork, sequences_.Open());
  const absl::Status status = fork->memory.ForkFrom(memory, length);
  if (!status.ok()) {
    fork->id = 0;
    return status;
  }
  return SequenceId{fork->id};
}

void PagedEngine::Close(SequenceId id) {
  Sequence& sequence = sequences_.At(id);
  sequence.id = 0;
  sequence.memory.Clear();
}

// --- runs ---

absl::Status PagedEngine::Run(EngineRun& run) {
  ++run_count_;
  batch_->Clear();
  for (const RunPart& part : run.parts) Place(part);
  const absl::Status status = Compute(*batch_, run);
  if (!status.ok()) {
    for (const RunPart& part : run.parts) Truncate(part.sequence, Length(part.sequence));
  }
  return status;
}

void PagedEngine::Place(const RunPart& part) {
  Sequence& sequence = sequences_.At(part.sequence);
  OUTRIDER_CHECK(sequence.last_run != run_count_, "a run has one part of a sequence");
  CheckRows(part, spec_);
  sequence.last_run = run_count_;
  const uint32_t first_row = batch_->row_count();
  if (!part.chain.empty()) batch_->AddChain(sequence.memory, part.chain);
  for (const EngineNode& node : part.nodes) {
    batch_->AddNode(sequence.memory, node.token, node.parent, node.slot);
  }
  for (uint32_t i = 0; i < part.positions.size(); ++i) {
    batch_->SetPosition(first_row + i, part.positions[i]);
  }
  for (uint32_t i = 0; i < part.embeddings.size(); ++i) {
    batch_->SetEmbedding(first_row + i, part.embeddings[i]);
  }
}

}  // namespace outrider
