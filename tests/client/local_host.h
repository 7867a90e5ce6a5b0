// The stories model, and a driver that runs it for the sessions of this process.
#pragma once

#include <memory>
#include <utility>

#include "client/verifier/local_verifier.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/verifier_driver.h"
#include "tests/client/stories_world.h"

namespace outrider {

class LocalHost {
 public:
  explicit LocalHost(uint32_t sequence_count = 1)
      : target_(NewTarget(sequence_count)),
        machine_(Config(target_->info()), {TheTokenizer(), NextBits}),
        driver_(machine_, *target_) {}

  VerifierDriver& driver() { return driver_; }

 private:
  static VerifierConfig Config(const TargetInfo& info) {
    VerifierConfig config = ConfigFor(info, TheTokenizer());
    config.sketch_nodes_max = 64;
    config.shares_processor = true;
    return config;
  }

  const std::unique_ptr<Target> target_;
  VerifierMachine machine_;
  VerifierDriver driver_;
};

}  // namespace outrider
