// A target that takes its time: what it says is another target's, and every run lasts as long as a
// profile says of its rows.
//
//   PacedTarget paced(target, *TimeProfile::Parse("1:20,16:28"));
//   ... as any target ...
//   paced.lateness()                  // runs that the other one took longer for than they may last
//
// So a small model, which this machine computes in a moment, has the text and the acceptance of its
// own and the price of a large one on a processor that is not here. Rows are those of passes and of
// what is read, as in the simulator. Until a run's time is over its thread sleeps: it computes
// nothing, as this machine's processor does not while another one computes.
//
// Threads: as the target's.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/simulator/world/time_profile.h"
#include "common/base/monotonic_time.h"
#include "common/engine/target.h"

namespace outrider {

class PacedTarget final : public Target {
 public:
  struct Lateness {
    uint64_t run_count = 0;
    uint64_t late_count = 0;
    Duration most{0};  // by which one was
  };

  // `target` outlives it.
  PacedTarget(Target& target, TimeProfile pace) : target_(target), pace_(std::move(pace)) {}

  const Lateness& lateness() const { return lateness_; }

  const TargetInfo& info() const override { return target_.info(); }
  absl::StatusOr<SequenceId> CreateSequence() override { return target_.CreateSequence(); }
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override {
    return target_.Fork(sequence, length);
  }
  absl::Status Close(SequenceId sequence) override { return target_.Close(sequence); }
  absl::StatusOr<uint32_t> Truncate(SequenceId sequence, uint32_t length) override {
    return target_.Truncate(sequence, length);
  }
  absl::StatusOr<uint32_t> Length(SequenceId sequence) const override {
    return target_.Length(sequence);
  }
  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;
  absl::Status Commit(SequenceId sequence, const Outcome& outcome) override {
    return target_.Commit(sequence, outcome);
  }

 private:
  Target& target_;
  const TimeProfile pace_;
  Lateness lateness_;
};

}  // namespace outrider
