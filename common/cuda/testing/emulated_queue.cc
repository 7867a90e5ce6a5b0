#include "common/cuda/testing/emulated_queue.h"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/cuda/block/emulated_block.h"
#include "common/cuda/kernels/product_choice.h"

namespace outrider {
namespace {

constexpr size_t kAlignment = 256;

template <typename Body>
void RunHere(const Body& body, uint32_t grid_x, uint32_t grid_y) {
  const ScopedIeeeMode ieee;
  gpu::Emulate(body, grid_x, grid_y);
}

}  // namespace

absl::StatusOr<std::byte*> EmulatedQueue::Allocate(size_t bytes, std::string_view what) {
  if (bytes > free_bytes_) {
    return ResourceExhausted("the emulated GPU: ", what, " need ", bytes, " bytes, and ",
                             free_bytes_, " are free");
  }
  free_bytes_ -= bytes;
  const size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  std::memset(memory, 0xff, rounded);  // floats and halves that are NaN
  return memory;
}

void EmulatedQueue::Free(std::byte* memory) {
  std::free(memory);
}

void EmulatedQueue::Upload(std::byte* to, const void* from, size_t bytes) {
  OUTRIDER_CHECK(!is_recording_, "kernels alone are recorded");
  std::memcpy(to, from, bytes);
}

void EmulatedQueue::Download(void* to, const std::byte* from, size_t bytes) {
  OUTRIDER_CHECK(!is_recording_, "kernels alone are recorded");
  std::memcpy(to, from, bytes);
}

void EmulatedQueue::Run(const gpu::EmbedRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::NormRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::QuantizeRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::PlaceHeads& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::AttendRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::GateRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::CopySlots& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::BestOfRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  Do([=] { RunHere(kernel, grid_x, grid_y); });
}

void EmulatedQueue::Multiply(const gpu::Product& product, gpu::PanelKind weights) {
  gpu::UseProduct(product, weights, [this](const auto& body, uint32_t grid_x, uint32_t grid_y) {
    Do([=] { RunHere(body, grid_x, grid_y); });
  });
}

// As on a GPU, what is recorded is not done until it has been.
void EmulatedQueue::Do(Work work) {
  if (is_recording_) {
    recorded_.push_back(std::move(work));
  } else {
    DoNow(work);
  }
}

void EmulatedQueue::DoNow(const Work& work) {
  work();
  clock_ += std::chrono::microseconds(1);
}

void EmulatedQueue::BeginRecording() {
  OUTRIDER_CHECK(!is_recording_, "one recording ends before the next begins");
  is_recording_ = true;
}

bool EmulatedQueue::EndRecording(uint64_t key) {
  is_recording_ = false;
  kept_[key] = std::exchange(recorded_, {});
  return Replay(key);
}

bool EmulatedQueue::Replay(uint64_t key) {
  const auto kept = kept_.find(key);
  if (kept == kept_.end()) return false;
  for (const Work& work : kept->second) DoNow(work);
  return true;
}

void EmulatedQueue::Mark(uint32_t mark) {
  OUTRIDER_CHECK(!is_recording_, "kernels alone are recorded");
  marks_[mark] = clock_;
}

Duration EmulatedQueue::Between(uint32_t from, uint32_t to) {
  return marks_.at(to) - marks_.at(from);
}

}  // namespace outrider
