// A device that this machine plays: memory from the heap, every kernel thread after thread, watched
// (block/emulated_block.h). By its clock a kernel takes a microsecond, and nothing else takes any
// time. For tests of what is above a DeviceQueue.
#pragma once

#include <cstddef>
#include <cstdint>
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

  absl::StatusOr<std::byte*> Allocate(size_t bytes, std::string_view what) override;
  void Free(std::byte* memory) override;
  void Upload(std::byte* to, const void* from, size_t bytes) override;
  void Download(void* to, const std::byte* from, size_t bytes) override;
  void Run(const gpu::EmbedRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::NormRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::QuantizeRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::PlaceHeads& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::AttendRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::GateRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::CopySlots& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Run(const gpu::BestOfRows& kernel, uint32_t grid_x, uint32_t grid_y) override;
  void Multiply(const gpu::Product& product, gpu::PanelKind weights) override;

  void BeginRecording() override;
  bool EndRecording(uint64_t key) override;
  bool Replay(uint64_t key) override;

  void Mark(uint32_t mark) override;
  Duration Between(uint32_t from, uint32_t to) override;

  absl::Status Wait() override { return absl::OkStatus(); }

 private:
  using Work = std::function<void()>;

  void Do(Work work);
  void DoNow(const Work& work);

  size_t free_bytes_;
  bool is_recording_ = false;
  std::vector<Work> recorded_;
  std::map<uint64_t, std::vector<Work>> kept_;
  Duration clock_{};
  std::map<uint32_t, Duration> marks_;
};

}  // namespace outrider
