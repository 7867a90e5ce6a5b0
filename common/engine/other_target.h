// A target that is another one in all that it does not do otherwise itself: for those who look on
// (traced_target.h), or take their time.
//
// Threads: as the other's.
#pragma once

#include <cstdint>
#include <optional>

#include "common/engine/target.h"

namespace outrider {

class OtherTarget : public Target {
 public:
  // Outlives it.
  explicit OtherTarget(Target& other) : other_(other) {}

  const TargetInfo& info() const override { return other_.info(); }
  absl::StatusOr<SequenceId> CreateSequence() override { return other_.CreateSequence(); }
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override {
    return other_.Fork(sequence, length);
  }
  absl::Status Close(SequenceId sequence) override { return other_.Close(sequence); }
  absl::StatusOr<uint32_t> Truncate(SequenceId sequence, uint32_t length) override {
    return other_.Truncate(sequence, length);
  }
  absl::StatusOr<uint32_t> Length(SequenceId sequence) const override {
    return other_.Length(sequence);
  }
  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override {
    other_.Run(readings, passes, results);
  }
  absl::Status Commit(SequenceId sequence, const Outcome& outcome) override {
    return other_.Commit(sequence, outcome);
  }
  void HearExits(ExitSink* sink) override { other_.HearExits(sink); }
  void SwitchExit(uint32_t exit, bool on) override { other_.SwitchExit(exit, on); }
  std::optional<DeviceWork> CollectDeviceWork() override { return other_.CollectDeviceWork(); }

 private:
  Target& other_;
};

}  // namespace outrider
