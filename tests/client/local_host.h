// The stories model, and a driver that runs it for the sessions of this process.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <utility>

#include "client/verifier/local_verifier.h"
#include "common/engine/other_target.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/verifier_driver.h"
#include "tests/client/stories_world.h"

namespace outrider {

class LocalHost {
 public:
  explicit LocalHost(uint32_t sequence_count = 1)
      : target_(NewTarget(sequence_count)),
        failing_(*target_),
        machine_(Config(target_->info()), {TheTokenizer(), NextBits}),
        driver_(machine_, failing_) {}

  VerifierDriver& driver() { return driver_; }
  // From now on its target cannot be read, in so many runs.
  void Fail(int run_count = kAlways) { failing_.Fail(run_count); }

 private:
  static constexpr int kAlways = 1 << 30;

  class FailingTarget final : public OtherTarget {
   public:
    using OtherTarget::OtherTarget;

    void Run(std::span<Reading> readings, std::span<const Pass> passes,
             std::span<PassResult> results) override {
      OtherTarget::Run(readings, passes, results);
      if (left_ == 0) return;
      --left_;
      for (PassResult& result : results) {
        result.status = absl::DataLossError("copy.gguf: cannot read 4096 bytes at offset 8192");
      }
    }
    void Fail(int run_count) { left_ = run_count; }

   private:
    std::atomic<int> left_ = 0;  // runs that fail
  };

  static VerifierConfig Config(const TargetInfo& info) {
    VerifierConfig config = ConfigFor(info, TheTokenizer());
    config.sketch_nodes_max = 64;
    config.shares_processor = true;
    return config;
  }

  const std::unique_ptr<Target> target_;
  FailingTarget failing_;
  VerifierMachine machine_;
  VerifierDriver driver_;
};

}  // namespace outrider
