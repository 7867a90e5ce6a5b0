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
constexpr char kKernelsAlone[] = "kernels alone are recorded";

std::byte* NewMemory(size_t bytes) {
  const size_t rounded = (bytes + kAlignment) / kAlignment * kAlignment;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded));
  std::memset(memory, 0xff, rounded);  // floats and halves that are NaN
  return memory;
}

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
  return NewMemory(bytes);
}

void EmulatedQueue::Free(std::byte* memory) {
  while (!steps_.empty()) DoNext();  // as a GPU does
  std::free(memory);
}

absl::StatusOr<std::byte*> EmulatedQueue::AllocateHere(size_t bytes, std::string_view) {
  return NewMemory(bytes);
}

void EmulatedQueue::FreeHere(std::byte* memory) {
  std::free(memory);
}

void EmulatedQueue::Upload(std::byte* to, const void* from, size_t bytes) {
  if (steps_.empty()) {
    OUTRIDER_CHECK(!is_recording_, kKernelsAlone);
    std::memcpy(to, from, bytes);
    return;
  }
  const auto* const first = static_cast<const std::byte*>(from);
  Add([to, values = std::vector<std::byte>(first, first + bytes)] {
    std::memcpy(to, values.data(), values.size());
  });
}

void EmulatedQueue::Download(void* to, const std::byte* from, size_t bytes) {
  Add([=] { std::memcpy(to, from, bytes); });
}

void EmulatedQueue::Depart(uint32_t number, void* to, const std::byte* from, size_t bytes) {
  const bool is_new = departures_.insert({number, {to, from, bytes}}).second;
  OUTRIDER_CHECK(is_new, "a departure is awaited before the next one of its number");
  Add([this, number] { departures_.at(number).is_ready = true; });
}

absl::Status EmulatedQueue::AwaitArrival(uint32_t number) {
  const auto departure = departures_.find(number);
  OUTRIDER_CHECK(departure != departures_.end(), "what is awaited has departed");
  const bool is_late = arrives_late_;
  arrives_late_ = !arrives_late_;
  while (!departure->second.is_ready || (is_late && !steps_.empty())) DoNext();
  Arrive(departure->second);
  departures_.erase(departure);
  return absl::OkStatus();
}

void EmulatedQueue::Arrive(const Departure& departure) {
  std::memcpy(departure.to, departure.from, departure.bytes);
}

void EmulatedQueue::Run(const gpu::EmbedRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::NormRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::QuantizeRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::PlaceHeads& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::AttendRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::GateRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::CopySlots& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::BestOfRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}

void EmulatedQueue::Multiply(const gpu::Product& product, gpu::PanelKind weights) {
  gpu::UseProduct(product, weights, [this](const auto& body, uint32_t grid_x, uint32_t grid_y) {
    AddKernel([=] { RunHere(body, grid_x, grid_y); });
  });
}

void EmulatedQueue::AddKernel(Work work) {
  if (is_recording_) {
    recorded_.push_back(std::move(work));
    return;
  }
  steps_.push_back({std::move(work), /*is_kernel=*/true});
  ++waiting_count_;
}

void EmulatedQueue::Add(Work work) {
  OUTRIDER_CHECK(!is_recording_, kKernelsAlone);
  steps_.push_back({std::move(work), /*is_kernel=*/false});
}

void EmulatedQueue::DoNext() {
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  step.work();
  if (!step.is_kernel) return;
  --waiting_count_;
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
  for (const Work& work : kept->second) AddKernel(work);
  return true;
}

void EmulatedQueue::Mark(uint32_t mark) {
  Add([this, mark] { marks_[mark] = clock_; });
}

Duration EmulatedQueue::Between(uint32_t from, uint32_t to) {
  return marks_.at(to) - marks_.at(from);
}

absl::Status EmulatedQueue::Wait() {
  while (!steps_.empty()) DoNext();
  for (const auto& [number, departure] : departures_) Arrive(departure);
  departures_.clear();
  return absl::OkStatus();
}

}  // namespace outrider
