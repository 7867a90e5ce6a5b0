// A thread that brings weights from flash into slots of memory, one key after another, with several
// reads in flight: those of the next key begin before the last of this one has landed.
//
//   lane->Begin({.id = 3, .reads = reads_of_layer_3, .slot = memory});
//   ...
//   OnFilled(3, status)          on the lane's thread, as soon as it is
//
// What is waited for begins before what will be needed, and that before what is only guessed. Reads
// that have begun cannot be taken back, so guesses have half of the buffers at the most: what comes
// to be waited for finds one free, and is behind a few megabytes in the device's own queue at worst.
//
// What lies in the file as it is used lands in its slot (flash_reads.h), and all the lane does is begin
// reads. Rows are packed into panels here, while the next reads are under way: that takes a core about
// 5 GB/s (Q4_0, Q8_0; 3.5 of what a device has just written), half a core beside flash of 2 GB/s. Not to
// pack but to multiply raw rows would take two to three times as long as multiplying panels, for every
// pass. The lane goes before whoever computes (thread_turn.h), or no read would begin while all cores do.
//
// Memory:  of each read in flight one staging buffer (StagingBytes()), where there are reads that do not
//          land in place; taken by Create().
// Queues:  as many fills as its caller has slots.
// Order:   by urgency, then as they were begun.
// Errors:  of a read go to its fill, which goes on to its end all the same: nothing of it is in
//          flight when it is told.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/buffer.h"
#include "common/base/direct_file.h"
#include "common/base/mutex.h"
#include "common/model/weights/streaming/flash_reads.h"

namespace outrider {

// Whose a piece of memory is that the lane fills.
enum class Hand { kFree, kFilling, kReady, kLent };

enum class Urgency {
  kNow,    // somebody waits, or is about to
  kSoon,   // comes next
  kGuess,  // may be wanted
};

class FlashLane {
 public:
  struct Fill {
    uint64_t id;
    Urgency urgency = Urgency::kSoon;
    std::span<const FlashRead> reads;  // outlive it
    std::byte* slot;
  };
  using Filled = std::function<void(uint64_t id, const absl::Status& status)>;

  // `files` are read by nobody else; extents that do not land in place are `staged_bytes_max` long at the
  // most.
  // What staging takes. Whole large pages, or less than one: a device reads into one of those in one
  // piece, and into small ones page by page, of which its requests have so many at the most.
  static uint64_t StagingBytes(uint64_t staged_bytes_max, uint32_t reads_in_flight);
  static absl::StatusOr<std::unique_ptr<FlashLane>> Create(
      std::vector<std::unique_ptr<DirectFile>> files, uint32_t reads_in_flight,
      uint64_t staged_bytes_max, Filled filled);
  ~FlashLane();  // what is in flight lands first; fills that have not begun are not told
  FlashLane(const FlashLane&) = delete;
  FlashLane& operator=(const FlashLane&) = delete;

  void Begin(const Fill& fill);
  // It was a guess, and right: somebody waits. Nothing, if it has been filled.
  void Hurry(uint64_t id);

  const DirectFile& file(uint32_t index) const { return *files_[index]; }
  uint64_t memory_bytes() const { return staging_.bytes().size(); }
  uint64_t bytes_read() const { return bytes_read_.load(std::memory_order_relaxed); }

 private:
  // A fill, until all of its reads have landed.
  struct Filling {
    Fill fill;
    size_t begun = 0;   // of its reads
    size_t landed = 0;  // likewise
    absl::Status status = {};
  };

  FlashLane(std::vector<std::unique_ptr<DirectFile>> files, PageBuffer staging,
            uint64_t staging_bytes, uint32_t reads_in_flight, Filled filled);

  void Run();
  bool TakeIn(bool may_wait);
  void Enqueue(std::list<Filling>& from, std::list<Filling>::iterator filling);
  void BeginReads();
  bool MayBegin(Urgency urgency) const;
  void LandOne();
  void Land(Filling& filling, const FlashRead& read, uint32_t buffer, absl::Status status);
  void TellFilled();
  std::span<std::byte> Staging(uint32_t buffer) {
    return staging_.bytes().subspan(buffer * staging_bytes_, staging_bytes_);
  }

  // The lane's thread.
  const std::vector<std::unique_ptr<DirectFile>> files_;
  PageBuffer staging_;
  const uint64_t staging_bytes_;  // of a buffer
  const Filled filled_;
  // What a buffer is being read into for.
  struct InFlight {
    Filling* filling = nullptr;
    size_t read = 0;
    bool is_guess = false;
  };
  std::vector<InFlight> in_flight_;  // by buffer
  std::vector<uint32_t> free_buffers_;
  std::deque<uint32_t> begun_order_;  // buffers in flight, the oldest first
  uint32_t guesses_in_flight_ = 0;    // of those, reads that began as guesses
  std::list<Filling> fillings_;       // those under way, the most urgent first: addresses stay
  std::list<Filling> spare_;          // nodes of those that were

  Mutex mu_;
  CondVar asked_;
  std::deque<Fill> fills_ ABSL_GUARDED_BY(mu_);
  std::deque<uint64_t> hurried_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<uint64_t> bytes_read_ = 0;

  std::thread thread_;  // last: starts when all above exists
};

}  // namespace outrider
