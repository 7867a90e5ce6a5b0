// A device that this machine plays: memory from the heap, every kernel thread after thread, watched
// (block/emulated_block.h). By its clock a kernel takes a microsecond, and nothing else takes any
// time. For tests of what is above a DeviceQueue.
//
// As on a GPU, nothing is done when it is asked for: all of it is when somebody waits, and up to a
// departure when somebody waits for that. What is done beside, copies and kernels, is done now as
// early as it can be and now as late, after all else that had been asked for by then: who writes too
// soon over what is used there, or reads before it has arrived, is found out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/cuda/device_queue.h"

namespace outrider {

class EmulatedQueue final : public DeviceQueue {
 public:
  // It has so much memory, and no more.
  explicit EmulatedQueue(size_t memory_bytes = size_t{1} << 30) : free_bytes_(memory_bytes) {}

  int compute_capability() const override { return 0; }
  absl::StatusOr<std::byte*> Allocate(size_t bytes, std::string_view what) override;
  void Free(std::byte* memory) override;
  absl::StatusOr<std::byte*> AllocateHere(size_t bytes, std::string_view what) override;
  void FreeHere(std::byte* memory) override;
  void Upload(std::byte* to, const void* from, size_t bytes) override;
  void Download(void* to, const std::byte* from, size_t bytes) override;
  void BeginBeside() override;
  void EndBeside() override;
  void Fetch(std::byte* to, const void* from, size_t bytes) override;
  void Depart(uint32_t number, void* to, const std::byte* from, size_t bytes) override;
  absl::Status AwaitArrival(uint32_t number) override;
  void Run(const gpu::EmbedRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::NormRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::QuantizeRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::SplitRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::PlaceHeads& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::AttendRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::GateRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::CopySlots& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::BestOfRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::GatherOutputs& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::AdaptRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::RankCandidates& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::ChooseExperts& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::GroupRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::GatherRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::SumExperts& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Multiply(const gpu::Product& product, gpu::PanelKind weights) override;
  void Multiply(const gpu::JointProducts& products, gpu::PanelKind weights) override;
  void Multiply(const gpu::GroupedProduct& product, gpu::PanelKind weights) override;

  void BeginRecording() override;
  bool EndRecording(uint64_t key) override;
  bool Replay(uint64_t key) override;

  void Mark(uint32_t mark) override;
  Duration Between(uint32_t from, uint32_t to) override;

  absl::Status Wait() override;

  // Kernels that have been asked for and not run yet, but for those beside.
  size_t waiting_count() const { return waiting_count_; }
  // Those beside, run or not.
  size_t beside_count() const { return beside_count_; }

 private:
  using Work = std::function<void()>;
  struct Step {
    Work work;
    bool is_kernel;
  };
  struct StepBeside {
    uint64_t behind;  // so many steps of the others
    Work work;
  };

  void AddKernel(Work work);
  void Add(Work work);
  void AddBeside(Work work);
  void DoNext();
  void DoNextBeside();

  size_t free_bytes_;
  bool is_recording_ = false;
  std::vector<Work> recorded_;
  std::map<uint64_t, std::vector<Work>> kept_;

  std::deque<Step> steps_;  // asked for, and not done yet
  size_t waiting_count_ = 0;
  uint64_t asked_count_ = 0;  // steps there ever were
  uint64_t done_count_ = 0;
  Duration clock_{};

  bool is_beside_ = false;  // what is asked for
  std::deque<StepBeside> steps_beside_;
  size_t beside_count_ = 0;
  Duration clock_beside_{};

  std::map<uint32_t, bool> has_arrived_;  // what has departed and was not awaited yet
  bool arrives_late_ = false;             // the next one
  std::map<uint32_t, Duration> marks_;
};

}  // namespace outrider
