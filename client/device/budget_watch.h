// Holds a plan of memory against what the machine grants from now on: somebody may lower the limit of this
// process's control group while a text is written. Then places of experts and layers that were pinned are
// given up, so many as it takes, and read from flash from the next layer on; where that is not enough
// runs fail with a sentence, before the kernel ends the process with none, until the limit is raised.
//
//   BudgetWatch watch(plan, *weights, MemoryLimitOfGroup);
//
// What was given up stays given up: who lowers a limit needs what it spares.
//
// Threads: one of its own, which looks at the limit every so often.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "client/planner/memory_plan.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/model/weights/streaming/streaming_weights.h"

namespace outrider {

class BudgetWatch {
 public:
  using Limit = std::function<std::optional<uint64_t>()>;

  BudgetWatch(const MemoryPlan& plan, std::shared_ptr<StreamingWeights> weights, Limit limit,
              Duration look_every = std::chrono::milliseconds(250));
  ~BudgetWatch();

 private:
  void Run();
  void Look();
  // Where so much cannot be given up.
  absl::Status TooLow(uint64_t limit) const;

  const uint64_t planned_bytes_;
  const uint64_t least_bytes_;
  const std::shared_ptr<StreamingWeights> weights_;
  const Limit limit_;
  const Duration look_every_;

  Mutex mu_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last: it starts when all above exists
};

}  // namespace outrider
