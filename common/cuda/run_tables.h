// What kernels have to know of a run's rows, made of a batch (model/memory/batch.h) and uploaded in
// pieces whose places never change: tokens, positions and their angles, the cells rows are kept in
// and the keys they see. So what kernels are told of them is the same in every run.
//
//   tables.Fill(batch);
//   ... tables.tokens(), tables.group(0).seen, ...               // addresses of the device
//
// Memory: taken in Create(), on the device and this machine, for as many rows and runs of keys as
//         the batch has room for; here resident only as far as used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/thread_pool.h"
#include "common/cuda/device_queue.h"
#include "common/kernels/rope_table.h"
#include "common/model/memory/batch.h"
#include "common/model/model_spec.h"

namespace outrider {

class RunTables {
 public:
  // All that is passed outlives it. `rope_divisors` are the model's rope_freqs.weight.
  static absl::StatusOr<std::unique_ptr<RunTables>> Create(const ModelSpec& spec,
                                                           const MemoryLayout& layout,
                                                           const SequenceLimits& limits,
                                                           std::span<const float> rope_divisors,
                                                           DeviceQueue& queue, ThreadPool& pool);

  void Fill(const Batch& batch);

  const uint32_t* tokens() const { return tokens_.on_device; }
  const uint32_t* positions() const { return positions_.on_device; }

  struct GroupTables {
    const gpu::CellPlace* places;
    const gpu::SeenRuns* seen;
  };
  GroupTables group(uint32_t group) const {
    return {groups_[group].places.on_device, groups_[group].seen.on_device};
  }
  const uint32_t* chunk_runs() const { return chunk_runs_.on_device; }
  const KeyRun* runs() const { return runs_.on_device; }

  struct Angles {
    const float* cosines;
    const float* sines;
    uint32_t pair_count;
  };
  // How far the rows turn in a layer that has attention.
  Angles angles(uint32_t layer) const;

 private:
  // One of them, here and there.
  template <typename T>
  struct Table {
    size_t capacity = 0;
    T* here = nullptr;
    T* on_device = nullptr;
  };
  struct Group {
    Table<gpu::CellPlace> places;
    Table<gpu::SeenRuns> seen;
  };
  struct Turns {
    Rope rope;
    RopeTable table;
    Table<float> cosines = {};
    Table<float> sines = {};
  };

  RunTables(DeviceQueue& queue, ThreadPool& pool) : queue_(queue), pool_(pool) {}
  absl::Status MakeTurns(const ModelSpec& spec, std::span<const float> rope_divisors);
  void Measure(const MemoryLayout& layout, const SequenceLimits& limits);
  absl::Status TakeMemory();
  // use(table) for each.
  template <typename Use>
  void ForEachTable(const Use& use);
  template <typename T>
  void Send(const Table<T>& table, size_t count);

  void FillRows(const Batch& batch);
  void FillKeys(const Batch& batch, uint32_t group);
  void FillAngles(const Batch& batch, const Turns& turns);

  DeviceQueue& queue_;
  ThreadPool& pool_;
  DeviceBuffer device_;
  PageBuffer here_;

  Table<uint32_t> tokens_, positions_;
  std::vector<Turns> turns_;      // one for each rope the layers have
  std::vector<size_t> turns_of_;  // by layer
  std::vector<Group> groups_;
  Table<uint32_t> chunk_runs_;
  Table<KeyRun> runs_;
  // Of the run that is being filled.
  uint32_t chunk_count_ = 0;
  uint32_t run_count_ = 0;
};

}  // namespace outrider
