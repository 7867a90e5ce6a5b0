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
constexpr Duration kKernelTime = std::chrono::microseconds(1);
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
  OUTRIDER_CHECK(Wait().ok(), "nothing fails here");  // as a GPU does
  std::free(memory);
}

absl::StatusOr<std::byte*> EmulatedQueue::AllocateHere(size_t bytes, std::string_view) {
  return NewMemory(bytes);
}

void EmulatedQueue::FreeHere(std::byte* memory) {
  std::free(memory);
}

void EmulatedQueue::Upload(std::byte* to, const void* from, size_t bytes) {
  OUTRIDER_CHECK(!is_beside_, "what is uploaded beside is fetched");
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

void EmulatedQueue::BeginBeside() {
  OUTRIDER_CHECK(!is_beside_ && !is_recording_, "one ends before the next begins");
  is_beside_ = true;
}

void EmulatedQueue::EndBeside() {
  OUTRIDER_CHECK(is_beside_, "it has begun");
  is_beside_ = false;
}

void EmulatedQueue::Fetch(std::byte* to, const void* from, size_t bytes) {
  OUTRIDER_CHECK(is_beside_, "what is not beside is uploaded");
  AddBeside([=] { std::memcpy(to, from, bytes); });
}

void EmulatedQueue::Depart(uint32_t number, void* to, const std::byte* from, size_t bytes) {
  OUTRIDER_CHECK(!is_recording_, kKernelsAlone);
  const bool is_new = has_arrived_.insert({number, false}).second;
  OUTRIDER_CHECK(is_new, "a departure is awaited before the next one of its number");
  AddBeside([=, this] {
    std::memcpy(to, from, bytes);
    has_arrived_.at(number) = true;
  });
}

absl::Status EmulatedQueue::AwaitArrival(uint32_t number) {
  const auto departure = has_arrived_.find(number);
  OUTRIDER_CHECK(departure != has_arrived_.end(), "what is awaited has departed");
  const bool is_late = arrives_late_;
  arrives_late_ = !arrives_late_;
  while (is_late && !steps_.empty()) DoNext();
  while (!departure->second) DoNextBeside();
  has_arrived_.erase(departure);
  return absl::OkStatus();
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
void EmulatedQueue::Run(const gpu::SplitRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::PlaceHeads& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::AttendRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  gpu::UseAttendBody(kernel, grid_x,
                     [&](const auto& body) { AddKernel([=] { RunHere(body, grid_x, grid_y); }); });
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
void EmulatedQueue::Run(const gpu::ChooseExperts& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::GroupRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::GatherRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::SumExperts& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}

void EmulatedQueue::Run(const gpu::GatherOutputs& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::AdaptRows& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}
void EmulatedQueue::Run(const gpu::RankCandidates& kernel, uint32_t grid_x, uint32_t grid_y) {
  AddKernel([=] { RunHere(kernel, grid_x, grid_y); });
}

void EmulatedQueue::Multiply(const gpu::Product& product, gpu::PanelKind weights) {
  gpu::UseProduct(product, weights, [this](const auto& body, uint32_t grid_x, uint32_t grid_y) {
    AddKernel([=] { RunHere(body, grid_x, grid_y); });
  });
}

void EmulatedQueue::Multiply(const gpu::JointProducts& products, gpu::PanelKind weights) {
  gpu::UseJointProducts(products, weights,
                        [this](const auto& body, uint32_t grid_x, uint32_t grid_y) {
                          AddKernel([=] { RunHere(body, grid_x, grid_y); });
                        });
}

void EmulatedQueue::Multiply(const gpu::GroupedProduct& product, gpu::PanelKind weights) {
  gpu::UseGroupedProduct(product, weights,
                         [this](const auto& body, uint32_t grid_x, uint32_t grid_y) {
                           AddKernel([=] { RunHere(body, grid_x, grid_y); });
                         });
}

void EmulatedQueue::AddKernel(Work work) {
  if (is_beside_) {
    ++beside_count_;
    AddBeside([this, work = std::move(work)] {
      work();
      clock_beside_ += kKernelTime;
    });
    return;
  }
  if (is_recording_) {
    recorded_.push_back(std::move(work));
    return;
  }
  steps_.push_back({std::move(work), /*is_kernel=*/true});
  ++asked_count_;
  ++waiting_count_;
}

void EmulatedQueue::Add(Work work) {
  OUTRIDER_CHECK(!is_recording_, kKernelsAlone);
  steps_.push_back({std::move(work), /*is_kernel=*/false});
  ++asked_count_;
}

void EmulatedQueue::AddBeside(Work work) {
  steps_beside_.push_back({asked_count_, std::move(work)});
}

void EmulatedQueue::DoNext() {
  const Step step = std::move(steps_.front());
  steps_.pop_front();
  step.work();
  ++done_count_;
  if (!step.is_kernel) return;
  --waiting_count_;
  clock_ += kKernelTime;
}

void EmulatedQueue::DoNextBeside() {
  const StepBeside step = std::move(steps_beside_.front());
  steps_beside_.pop_front();
  while (done_count_ < step.behind) DoNext();
  step.work();
}

void EmulatedQueue::BeginRecording() {
  OUTRIDER_CHECK(!is_beside_, "what is done beside is no part of a recording");
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
  if (is_beside_) return AddBeside([this, mark] { marks_[mark] = clock_beside_; });
  Add([this, mark] { marks_[mark] = clock_; });
}

Duration EmulatedQueue::Between(uint32_t from, uint32_t to) {
  return marks_.at(to) - marks_.at(from);
}

absl::Status EmulatedQueue::Wait() {
  while (!steps_.empty()) DoNext();
  while (!steps_beside_.empty()) DoNextBeside();
  has_arrived_.clear();
  return absl::OkStatus();
}

}  // namespace outrider
