#include "common/model/weights/streaming/flash_lane.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/thread_turn.h"

namespace outrider {

uint64_t FlashLane::StagingBytes(uint64_t staged_bytes_max, uint32_t reads_in_flight) {
  const uint64_t bytes = staged_bytes_max * reads_in_flight;
  return bytes < PageBuffer::kLargePage ? bytes : RoundUp(bytes, PageBuffer::kLargePage);
}

absl::StatusOr<std::unique_ptr<FlashLane>> FlashLane::Create(
    std::vector<std::unique_ptr<DirectFile>> files, uint32_t reads_in_flight,
    uint64_t staged_bytes_max, Filled filled) {
  size_t alignment = 1;
  for (const std::unique_ptr<DirectFile>& file : files) {
    alignment = std::max(alignment, file->alignment());
  }
  const uint64_t staging_bytes = RoundUp(staged_bytes_max, alignment);
  OUTRIDER_ASSIGN_OR_RETURN(PageBuffer staging,
                            PageBuffer::CreateLarge(StagingBytes(staging_bytes, reads_in_flight)));
  return std::unique_ptr<FlashLane>(new FlashLane(
      std::move(files), std::move(staging), staging_bytes, reads_in_flight, std::move(filled)));
}

FlashLane::FlashLane(std::vector<std::unique_ptr<DirectFile>> files, PageBuffer staging,
                     uint64_t staging_bytes, uint32_t reads_in_flight, Filled filled)
    : files_(std::move(files)),
      staging_(std::move(staging)),
      staging_bytes_(staging_bytes),
      filled_(std::move(filled)),
      in_flight_(reads_in_flight) {
  for (uint32_t buffer = 0; buffer < in_flight_.size(); ++buffer) free_buffers_.push_back(buffer);
  thread_ = std::thread([this] { Run(); });
}

FlashLane::~FlashLane() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  asked_.NotifyAll();
  thread_.join();
}

void FlashLane::Begin(const Fill& fill) {
  {
    MutexLock lock(mu_);
    fills_.push_back(fill);
  }
  asked_.NotifyAll();
}

void FlashLane::Hurry(uint64_t id) {
  {
    MutexLock lock(mu_);
    hurried_.push_back(id);
  }
  asked_.NotifyAll();
}

void FlashLane::Run() {
  BePrompt();
  while (TakeIn(/*may_wait=*/fillings_.empty())) {
    BeginReads();
    if (!begun_order_.empty()) LandOne();
    TellFilled();
  }
  while (!begun_order_.empty()) LandOne();
}

// What has been asked for meanwhile. False: there is nothing more to do.
bool FlashLane::TakeIn(bool may_wait) {
  MutexLock lock(mu_);
  while (may_wait && fills_.empty() && !stopping_) asked_.Wait(mu_);
  if (stopping_) return false;
  for (; !fills_.empty(); fills_.pop_front()) {
    if (spare_.empty()) spare_.emplace_back();
    spare_.front() = {.fill = fills_.front()};
    Enqueue(spare_, spare_.begin());
  }
  for (; !hurried_.empty(); hurried_.pop_front()) {
    const auto filling =
        std::ranges::find(fillings_, hurried_.front(), [](const Filling& f) { return f.fill.id; });
    if (filling == fillings_.end()) continue;
    filling->fill.urgency = Urgency::kNow;
    Enqueue(fillings_, filling);
  }
  return true;
}

// Behind those that are as urgent.
void FlashLane::Enqueue(std::list<Filling>& from, std::list<Filling>::iterator filling) {
  const auto behind = std::ranges::find_if(
      fillings_, [&](const Filling& other) { return other.fill.urgency > filling->fill.urgency; });
  fillings_.splice(behind, from, filling);
}

void FlashLane::BeginReads() {
  for (Filling& filling : fillings_) {
    const Urgency urgency = filling.fill.urgency;
    for (; filling.begun < filling.fill.reads.size(); ++filling.begun) {
      if (!MayBegin(urgency)) return;
      const uint32_t buffer = free_buffers_.back();
      const FlashRead& read = filling.fill.reads[filling.begun];
      free_buffers_.pop_back();
      absl::Status begun = files_[read.file]->SubmitRead(
          read.extent.offset, LandingPlace(read, filling.fill.slot, Staging(buffer)), buffer);
      if (!begun.ok()) {
        Land(filling, read, buffer, std::move(begun));
        continue;
      }
      in_flight_[buffer] = {&filling, filling.begun, urgency == Urgency::kGuess};
      begun_order_.push_back(buffer);
      if (urgency == Urgency::kGuess) ++guesses_in_flight_;
    }
  }
}

bool FlashLane::MayBegin(Urgency urgency) const {
  if (free_buffers_.empty()) return false;
  const size_t guesses_max = std::max<size_t>(1, in_flight_.size() / 2);
  return urgency != Urgency::kGuess || guesses_in_flight_ < guesses_max;
}

// Any of those in the file that the oldest is from.
void FlashLane::LandOne() {
  const InFlight& oldest = in_flight_[begun_order_.front()];
  const uint32_t file = oldest.filling->fill.reads[oldest.read].file;
  DirectFile::Completion done = files_[file]->WaitCompletion();
  const auto buffer = static_cast<uint32_t>(done.tag);
  begun_order_.erase(std::ranges::find(begun_order_, buffer));
  const auto [filling, read, is_guess] = in_flight_[buffer];
  if (is_guess) --guesses_in_flight_;
  Land(*filling, filling->fill.reads[read], buffer, std::move(done.status));
}

void FlashLane::Land(Filling& filling, const FlashRead& read, uint32_t buffer,
                     absl::Status status) {
  if (status.ok()) {
    Unload(read, Staging(buffer), filling.fill.slot);
    bytes_read_.fetch_add(read.extent.length, std::memory_order_relaxed);
  } else {
    status = Annotate(status, Concat("tensor ", read.part.tensor->name));
  }
  filling.status.Update(std::move(status));
  ++filling.landed;
  free_buffers_.push_back(buffer);
}

void FlashLane::TellFilled() {
  for (auto filling = fillings_.begin(); filling != fillings_.end();) {
    const auto told = filling++;
    if (told->landed < told->fill.reads.size()) continue;
    filled_(told->fill.id, told->status);
    spare_.splice(spare_.begin(), fillings_, told);
  }
}

}  // namespace outrider
