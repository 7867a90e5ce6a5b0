#include "common/cuda/run_tables.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr size_t kTableAlignment = 256;
static_assert(kPageTokens == kChunk, "kernels take a page's slots for a chunk's");

size_t Rounded(size_t bytes) {
  return (bytes + kTableAlignment - 1) / kTableAlignment * kTableAlignment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RunTables>> RunTables::Create(const ModelSpec& spec,
                                                             const MemoryLayout& layout,
                                                             const SequenceLimits& limits,
                                                             std::span<const float> rope_divisors,
                                                             DeviceQueue& queue, ThreadPool& pool) {
  std::unique_ptr<RunTables> made(new RunTables(queue, pool));
  OUTRIDER_RETURN_IF_ERROR(made->MakeTurns(spec, rope_divisors));
  made->Measure(layout, limits);
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory());
  return made;
}

absl::Status RunTables::MakeTurns(const ModelSpec& spec, std::span<const float> rope_divisors) {
  for (const LayerSpec& layer : spec.layers) {
    const Rope& rope = layer.attention()->rope;
    const auto same = std::ranges::find(turns_, rope, &Turns::rope);
    turns_of_.push_back(static_cast<size_t>(same - turns_.begin()));
    if (same != turns_.end()) continue;
    absl::StatusOr<RopeTable> table = RopeTable::Create(rope, rope_divisors);
    if (!table.ok()) return Annotate(table.status(), spec.name);
    turns_.push_back({.rope = rope, .table = *std::move(table)});
  }
  return absl::OkStatus();
}

// As batches count runs: of every group one for each page that a row sees, and one for each node on
// its way down.
void RunTables::Measure(const MemoryLayout& layout, const SequenceLimits& limits) {
  const size_t rows = limits.row_count_max;
  tokens_.capacity = positions_.capacity = rows;
  for (Turns& turns : turns_) {
    turns.cosines.capacity = turns.sines.capacity = rows * turns.table.pair_count();
  }
  groups_.resize(layout.cell_group_count());
  for (uint32_t i = 0; i < groups_.size(); ++i) {
    OUTRIDER_CHECK(layout.page_bytes(i) % 16 == 0, "attention loads 16 bytes of a page at a time");
    const uint32_t seen = std::min(limits.length_max, layout.group(i).window);
    groups_[i].places.capacity = groups_[i].seen.capacity = rows;
    runs_.capacity += rows * (PagesFor(seen) + 2 + std::min(limits.node_count_max, seen));
  }
  chunk_runs_.capacity = runs_.capacity + 1;
}

template <typename Use>
void RunTables::ForEachTable(const Use& use) {
  use(tokens_);
  use(positions_);
  for (Turns& turns : turns_) {
    use(turns.cosines);
    use(turns.sines);
  }
  for (Group& group : groups_) {
    use(group.places);
    use(group.seen);
  }
  use(chunk_runs_);
  use(runs_);
}

absl::Status RunTables::TakeMemory() {
  size_t bytes = 0;
  ForEachTable([&](auto& table) { bytes += Rounded(table.capacity * sizeof(*table.here)); });
  OUTRIDER_ASSIGN_OR_RETURN(device_, DeviceBuffer::Create(queue_, bytes, "tables of a run's rows"));
  OUTRIDER_ASSIGN_OR_RETURN(here_, PageBuffer::Create(bytes));
  size_t at = 0;
  ForEachTable([&]<typename T>(Table<T>& table) {
    table.here = reinterpret_cast<T*>(here_.bytes().data() + at);
    table.on_device = reinterpret_cast<T*>(device_.data() + at);
    at += Rounded(table.capacity * sizeof(T));
  });
  return absl::OkStatus();
}

RunTables::Angles RunTables::angles(uint32_t layer) const {
  const Turns& turns = turns_[turns_of_[layer]];
  return {turns.cosines.on_device, turns.sines.on_device, turns.table.pair_count()};
}

template <typename T>
void RunTables::Send(const Table<T>& table, size_t count) {
  OUTRIDER_CHECK(count <= table.capacity, "a run's tables are as large as they may get");
  queue_.Upload(reinterpret_cast<std::byte*>(table.on_device), table.here, count * sizeof(T));
}

void RunTables::Fill(const Batch& batch) {
  FillRows(batch);
  for (const Turns& turns : turns_) FillAngles(batch, turns);
  chunk_count_ = run_count_ = 0;
  for (uint32_t group = 0; group < groups_.size(); ++group) FillKeys(batch, group);
  chunk_runs_.here[chunk_count_] = run_count_;
  Send(chunk_runs_, chunk_count_ + 1);
  Send(runs_, run_count_);
}

void RunTables::FillRows(const Batch& batch) {
  for (uint32_t i = 0; i < batch.row_count(); ++i) {
    const Batch::Row& row = batch.rows()[i];
    tokens_.here[i] =
        row.embedding != nullptr ? gpu::EmbedRows::kGiven : static_cast<uint32_t>(row.token);
    positions_.here[i] = row.position.at[0];
  }
  Send(tokens_, batch.row_count());
  Send(positions_, batch.row_count());
}

void RunTables::FillAngles(const Batch& batch, const Turns& turns) {
  const size_t pairs = turns.table.pair_count();
  const ScopedIeeeMode ieee;
  pool_.ParallelFor(batch.row_count(), [&](size_t row) {
    turns.table.Turn(batch.rows()[row].position.at[0], turns.cosines.here + row * pairs,
                     turns.sines.here + row * pairs);
  });
  Send(turns.cosines, batch.row_count() * pairs);
  Send(turns.sines, batch.row_count() * pairs);
}

// Runs come in order and never cross a chunk, so a chunk's are those that follow one another.
void RunTables::FillKeys(const Batch& batch, uint32_t group) {
  const Group& tables = groups_[group];
  for (uint32_t i = 0; i < batch.row_count(); ++i) {
    const Batch::Cells& cells = batch.rows()[i].cells[group];
    tables.places.here[i] = {reinterpret_cast<uint16_t*>(cells.own.page), cells.own.slot};
    const uint32_t first_chunk = chunk_count_;
    uint32_t index = cells.first_index;
    for (const KeyRun& run : cells.keys) {
      if (index == cells.first_index || index % kChunk == 0) {
        chunk_runs_.here[chunk_count_++] = run_count_;
      }
      runs_.here[run_count_++] = run;
      index += run.count;
    }
    // A row's last chunk ends where the next row's first one begins.
    tables.seen.here[i] = {cells.first_index, index, chunk_count_ - first_chunk, first_chunk};
  }
  Send(tables.places, batch.row_count());
  Send(tables.seen, batch.row_count());
}

}  // namespace outrider
