// A target whose runs are written down in a trace, on a track of their own.
//
// Threads: as the target's.
#pragma once

#include "common/base/chrome_trace.h"
#include "common/engine/other_target.h"

namespace outrider {

class TracedTarget final : public OtherTarget {
 public:
  // Both outlive it.
  TracedTarget(Target& target, ChromeTrace& trace)
      : OtherTarget(target), trace_(trace), track_(trace.AddTrack("target")) {}

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;

 private:
  ChromeTrace& trace_;
  const ChromeTrace::Track track_;
};

}  // namespace outrider
