#include "common/model/weights/streaming/flash_lane.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<FlashLane>> FlashLane::Create(
    std::vector<std::unique_ptr<DirectFile>> files, uint32_t reads_in_flight,
    uint64_t extent_bytes_max, Filled filled) {
  size_t alignment = kVectorAlignment;
  for (const std::unique_ptr<DirectFile>& file : files) {
    alignment = std::max(alignment, file->alignment());
  }
  const uint64_t staging_bytes = (extent_bytes_max + alignment - 1) / alignment * alignment;
  OUTRIDER_ASSIGN_OR_RETURN(AlignedBuffer staging,
                            AlignedBuffer::Create(staging_bytes * reads_in_flight, alignment));
  return std::unique_ptr<FlashLane>(
      new FlashLane(std::move(files), std::move(staging), staging_bytes, std::move(filled)));
}

FlashLane::FlashLane(std::vector<std::unique_ptr<DirectFile>> files, AlignedBuffer staging,
                     uint64_t staging_bytes, Filled filled)
    : files_(std::move(files)),
      staging_(std::move(staging)),
      staging_bytes_(staging_bytes),
      filled_(std::move(filled)),
      in_flight_(staging_bytes == 0 ? 0 : staging_.bytes().size() / staging_bytes) {
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

void FlashLane::Run() {
  while (TakeIn(/*may_wait=*/begun_order_.empty())) {
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
  while (!fills_.empty()) {
    fillings_.push_back({.fill = fills_.front()});
    fills_.pop_front();
  }
  return true;
}

void FlashLane::BeginReads() {
  for (Filling& filling : fillings_) {
    for (; filling.begun < filling.fill.reads.size(); ++filling.begun) {
      if (free_buffers_.empty()) return;
      const uint32_t buffer = free_buffers_.back();
      const FlashRead& read = filling.fill.reads[filling.begun];
      free_buffers_.pop_back();
      absl::Status begun = files_[read.file]->SubmitRead(
          read.extent.offset, Staging(buffer).first(read.extent.length), buffer);
      if (!begun.ok()) {
        Land(filling, read, buffer, std::move(begun));
        continue;
      }
      in_flight_[buffer] = {&filling, filling.begun};
      begun_order_.push_back(buffer);
    }
  }
}

// Any of those in the file that the oldest is from.
void FlashLane::LandOne() {
  const InFlight& oldest = in_flight_[begun_order_.front()];
  const uint32_t file = oldest.filling->fill.reads[oldest.read].file;
  DirectFile::Completion done = files_[file]->WaitCompletion();
  const auto buffer = static_cast<uint32_t>(done.tag);
  begun_order_.erase(std::ranges::find(begun_order_, buffer));
  const auto [filling, read] = in_flight_[buffer];
  Land(*filling, filling->fill.reads[read], buffer, std::move(done.status));
}

void FlashLane::Land(Filling& filling, const FlashRead& read, uint32_t buffer,
                     absl::Status status) {
  if (status.ok()) {
    Unpack(read, Staging(buffer), filling.fill.slot);
    bytes_read_.fetch_add(read.extent.length, std::memory_order_relaxed);
  } else {
    status = Annotate(status, Concat("tensor ", read.part.tensor->name));
  }
  filling.status.Update(std::move(status));
  ++filling.landed;
  free_buffers_.push_back(buffer);
}

void FlashLane::TellFilled() {
  while (!fillings_.empty() && fillings_.front().landed == fillings_.front().fill.reads.size()) {
    filled_(fillings_.front().fill.id, fillings_.front().status);
    fillings_.pop_front();
  }
}

}  // namespace outrider
