// One GPU's memory, copies and kernels, done in the order in which they are asked for.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const DeviceBuffer rows,
//                             DeviceBuffer::Create(queue, bytes, "activations"));
//   queue.Upload(rows.data(), values, bytes);
//   queue.Run(gpu::NormRows{...}, row_count, 1);
//   queue.Depart(0, here.data(), rows.data(), bytes);           // `here` is a HostBuffer
//   queue.Run(gpu::GateRows{...}, ...);
//   queue.Download(values, other.data(), bytes);
//   OUTRIDER_RETURN_IF_ERROR(queue.AwaitArrival(0));            // rows are here; gates may run yet
//   OUTRIDER_RETURN_IF_ERROR(queue.Wait());                     // now all is done
//
// Beside that line there is a second one, for work that nothing in the first waits for:
//
//   queue.Run(gpu::NormRows{...}, ...);                         // A
//   queue.BeginBeside();
//   queue.Run(gpu::AdaptRows{...}, ...);                        // B: when A is done, and then it is
//   queue.Depart(0, here.data(), rows.data(), bytes);           //    here, whatever C is doing
//   queue.EndBeside();
//   queue.Run(gpu::GateRows{...}, ...);                         // C: when A is done
//
// A GPU's is cuda_queue.h. Another runs every kernel here, thread after thread
// (testing/emulated_queue.h), so that all that is above this is tested where there is no GPU.
//
// Threads: one call at a time.
// Errors:  Allocate() answers ResourceExhausted, with what it is for, how much was asked for and
//          how much there is. All else that fails, fails the next Wait() or AwaitArrival():
//          Unavailable, in a sentence.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/cuda/kernels/attend_rows.h"
#include "common/cuda/kernels/best_of_rows.h"
#include "common/cuda/kernels/exit_kernels.h"
#include "common/cuda/kernels/expert_rows.h"
#include "common/cuda/kernels/grouped_products.h"
#include "common/cuda/kernels/joint_products.h"
#include "common/cuda/kernels/norm_rows.h"
#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quantize_rows.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/kernels/split_products.h"

namespace outrider {

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;

  // 90 for 9.0: whose tensor cores add up floats here. 0: no GPU's.
  virtual int compute_capability() const = 0;

  // On 256 bytes. `what` it is for stands in the error.
  virtual absl::StatusOr<std::byte*> Allocate(size_t bytes, std::string_view what) = 0;
  virtual void Free(std::byte* memory) = 0;
  // Memory of this machine that the device copies to by itself.
  virtual absl::StatusOr<std::byte*> AllocateHere(size_t bytes, std::string_view what) = 0;
  virtual void FreeHere(std::byte* memory) = 0;

  // `from` may change as soon as it returns.
  virtual void Upload(std::byte* to, const void* from, size_t bytes) = 0;
  // `to` is there after the next Wait().
  virtual void Download(void* to, const std::byte* from, size_t bytes) = 0;

  // Not in a recording, and no recording between these two: what is asked for there is done in
  // order, when all that was asked for before is done, but beside what is asked for afterwards,
  // which leaves its memory alone until something that departed behind it has arrived.
  virtual void BeginBeside() = 0;
  virtual void EndBeside() = 0;
  // Between those two: a copy from memory from AllocateHere(), which is left alone likewise.
  virtual void Fetch(std::byte* to, const void* from, size_t bytes) = 0;

  // Not in a recording: a copy to memory from AllocateHere(), made beside what is asked for
  // afterwards, when all that was asked for before is done, here and beside. A number stands for one
  // such copy at a time; small numbers are taken.
  virtual void Depart(uint32_t number, void* to, const std::byte* from, size_t bytes) = 0;
  // Until that copy has been made.
  virtual absl::Status AwaitArrival(uint32_t number) = 0;

  // The grid each kernel wants is said where it is defined.
  virtual void Run(const gpu::EmbedRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::NormRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::QuantizeRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::SplitRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::PlaceHeads& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::AttendRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::GateRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::CopySlots& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::BestOfRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::GatherOutputs& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::AdaptRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::RankCandidates& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::ChooseExperts& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::GroupRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::GatherRows& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  virtual void Run(const gpu::SumExperts& kernel, uint32_t grid_x, uint32_t grid_y) = 0;
  // By the kernel that fits the weights and the number of rows (kernels/product_choice.h).
  virtual void Multiply(const gpu::Product& product, gpu::PanelKind weights) = 0;
  virtual void Multiply(const gpu::JointProducts& products, gpu::PanelKind weights) = 0;
  virtual void Multiply(const gpu::GroupedProduct& product, gpu::PanelKind weights) = 0;

  // What is asked for between these two, kernels alone, is kept by `key`, and then done; false when
  // it could not be kept, which the next Wait() tells. Replay() does it again, with the same
  // arguments, sooner than asking would. False: nothing is kept by that key, or no longer.
  virtual void BeginRecording() = 0;
  virtual bool EndRecording(uint64_t key) = 0;
  virtual bool Replay(uint64_t key) = 0;

  // Not in a recording: the device's clock is read when all that was asked for before is done. A
  // mark stands for its newest reading. Beside, that is when all asked for there before is done.
  virtual void Mark(uint32_t mark) = 0;
  // From one mark's reading to another's, both of them done. Zero where something has failed.
  virtual Duration Between(uint32_t from, uint32_t to) = 0;

  // Until all that was asked for is done.
  virtual absl::Status Wait() = 0;
};

// Memory with one owner, of a queue that outlives it.
template <auto Allocate, auto Free>
class QueueMemory {
 public:
  QueueMemory() = default;
  QueueMemory(QueueMemory&& other) noexcept
      : queue_(other.queue_), data_(std::exchange(other.data_, nullptr)) {}
  QueueMemory& operator=(QueueMemory&& other) noexcept {
    std::swap(queue_, other.queue_);
    std::swap(data_, other.data_);
    return *this;
  }
  ~QueueMemory() {
    if (data_ != nullptr) (queue_->*Free)(data_);
  }

  static absl::StatusOr<QueueMemory> Create(DeviceQueue& queue, size_t bytes,
                                            std::string_view what) {
    QueueMemory memory;
    memory.queue_ = &queue;
    absl::StatusOr<std::byte*> data = (queue.*Allocate)(bytes, what);
    if (!data.ok()) return data.status();
    memory.data_ = *data;
    return memory;
  }

  std::byte* data() const { return data_; }
  template <typename T>
  T* As() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  DeviceQueue* queue_ = nullptr;
  std::byte* data_ = nullptr;  // null: none
};

using DeviceBuffer = QueueMemory<&DeviceQueue::Allocate, &DeviceQueue::Free>;
using HostBuffer = QueueMemory<&DeviceQueue::AllocateHere, &DeviceQueue::FreeHere>;

}  // namespace outrider
