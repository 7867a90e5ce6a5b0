// What passes of a target on flash wait for it, and use of its experts: counted where the target runs, for the
// costs of whatever session goes by them.
//
//   FlashMeter meter;
//   MeteredTarget target(engine_target, [&] { return weights->stats(); }, meter);
//   MeteredController controller(std::move(of_the_session), meter, costs);
//
// A verdict does not say what its pass has read: a server has all in memory. So a device tells the costs
// itself, when a verdict is there and before the controller decides by them.
//
// A run counts that is one pass and nothing else: with a prompt in it, or passes of several sessions, it
// says nothing of the rows of one. Of what it waits for reads its experts have their share by bytes. Where there are
// none, all passes read the same, and wait the less the more they compute.
//
// Queue:   the last kKept passes; who comes late misses what was before them.
// Threads: the target's on its own, controllers each on its session's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/mutex.h"
#include "common/engine/other_target.h"
#include "common/model/weights/streaming/streaming_weights.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/cost_model.h"

namespace outrider {

// By one pass.
struct FlashWait {
  uint32_t row_count = 0;
  uint32_t expert_count = 0;  // that it used, of all layers
  double waited_ms = 0;  // for those of them that were read, or if there are none for all that was

  bool operator==(const FlashWait&) const = default;
};

class FlashMeter {
 public:
  static constexpr size_t kKept = 8;
  using Waits = std::array<FlashWait, kKept>;

  void Add(const FlashWait& wait);
  // Those after the first `known`, the oldest first, as far as they are kept: how many `waits` begins
  // with. `known` is how many there are by now.
  size_t Tell(uint64_t& known, Waits& waits) const;

 private:
  mutable Mutex mu_;
  Waits waits_ ABSL_GUARDED_BY(mu_) = {};    // the newest, in a ring
  uint64_t count_ ABSL_GUARDED_BY(mu_) = 0;  // of all there were
};

class MeteredTarget final : public OtherTarget {
 public:
  using Stats = std::function<StreamStats()>;

  // All outlive it.
  MeteredTarget(Target& target, Stats stats, FlashMeter& meter)
      : OtherTarget(target), stats_(std::move(stats)), meter_(meter), before_(stats_()) {}

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override;

 private:
  const Stats stats_;
  FlashMeter& meter_;
  StreamStats before_;  // when the last run had ended
};

// Another controller in all that it decides.
class MeteredController final : public Controller {
 public:
  // Meter and costs outlive it; those are the session's.
  MeteredController(std::unique_ptr<Controller> controller, const FlashMeter& meter,
                    CostModel& costs)
      : controller_(std::move(controller)), meter_(meter), costs_(costs) {}

  const Course& course() const override { return controller_->course(); }
  Findings findings() const override { return controller_->findings(); }
  void Hinted(HintWorth worth) override { controller_->Hinted(worth); }
  void Decided(const DraftView& draft) override;

 private:
  const std::unique_ptr<Controller> controller_;
  const FlashMeter& meter_;
  CostModel& costs_;
  uint64_t known_ = 0;  // passes
};

}  // namespace outrider
