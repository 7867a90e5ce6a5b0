// A target whose runs are written down in a trace, on a track of their own.
//
// Threads: as the target's.
#pragma once

#include <memory>
#include <utility>

#include "common/base/chrome_trace.h"
#include "common/engine/target.h"

namespace outrider {

class TracedTarget final : public Target {
 public:
  // `trace` outlives it.
  TracedTarget(std::unique_ptr<Target> target, ChromeTrace& trace)
      : target_(std::move(target)), trace_(trace), track_(trace.AddTrack("target")) {}

  const TargetInfo& info() const override { return target_->info(); }
  absl::StatusOr<SequenceId> CreateSequence() override { return target_->CreateSequence(); }
  absl::StatusOr<SequenceId> Fork(SequenceId sequence, uint32_t length) override {
    return target_->Fork(sequence, length);
  }
  absl::Status Close(SequenceId sequence) override { return target_->Close(sequence); }
  absl::StatusOr<uint32_t> Truncate(SequenceId sequence, uint32_t length) override {
    return target_->Truncate(sequence, length);
  }
  absl::StatusOr<uint32_t> Length(SequenceId sequence) const override {
    return target_->Length(sequence);
  }
  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;
  absl::Status Commit(SequenceId sequence, const Outcome& outcome) override {
    return target_->Commit(sequence, outcome);
  }

 private:
  const std::unique_ptr<Target> target_;
  ChromeTrace& trace_;
  const ChromeTrace::Track track_;
};

}  // namespace outrider
