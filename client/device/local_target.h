// A target in this process: all of it in memory, or what fits of it and the rest from flash; the
// machine that runs it for sessions; and whose turn it is where a draft computes on the same cores.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LocalTarget> target,
//                             LocalTarget::Open(options, {.path = options.model, ...}));
//   OUTRIDER_RETURN_IF_ERROR(target->Load(trace, progress));
//   target->Serve(tokenizer);
//   ... a session over target->NewVerifier() ...
//
// Open() reads headers and exits, and plans; Load() takes the time and the memory.
//
// Exits guess while a pass runs, as a server's do, where something is drafted: those that were
// asked for, or those that lie beside the model. No run fails by the latter, nor is much slower for
// them: they are left out where they are broken or another model's, where a budget has no room for
// them, and where a pass would read more than kExitsRiseMax more of flash or a prompt's runs would be
// shorter than they usually are. Whose exits they are is
// known from the model's header, but for the hash of its weights where a file has no record of it:
// that is known when it is loaded.
//
// Threads: one, but for what verifiers and targets say of theirs.
// Errors:  a sentence that begins with the file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/device/budget_watch.h"
#include "client/device/device.h"
#include "client/device/flash_meter.h"
#include "client/device/flash_turns.h"
#include "client/planner/flash_forecast.h"
#include "client/planner/memory_needs.h"
#include "client/planner/memory_plan.h"
#include "client/planner/run_rows.h"
#include "client/verifier/verifier.h"
#include "common/base/chrome_trace.h"
#include "common/base/monotonic_time.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine_target.h"
#include "common/engine/traced_target.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/streaming/streaming_weights.h"
#include "common/text/tokenizer.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/verifier_driver.h"

namespace outrider {

class LocalTarget {
 public:
  struct Setup {
    std::string path = {};
    uint64_t growth_bytes = 0;  // of what else this process will take, than what it has already
    bool is_fallback = false;   // it mostly rests, and the draft has all cores then
  };

  // Whether there can be a target of this file.
  static absl::Status Check(const std::string& path);
  // Tokenizers are there, and count for what the process has already.
  static absl::StatusOr<std::unique_ptr<LocalTarget>> Open(const DeviceOptions& options,
                                                           Setup setup);

  // `trace` may be null, and outlives it.
  absl::Status Load(ChromeTrace* trace, const LoadProgress& progress);
  // For sessions, after Load(). The tokenizer outlives it.
  void Serve(const Tokenizer& tokenizer);
  std::unique_ptr<Verifier> NewVerifier();

  Target& target();
  const TargetInfo& info() const { return target_->info(); }                       // after Load()
  uint64_t content_hash() const { return target_->engine().info().content_hash; }  // likewise
  const std::string& model_name() const { return model_name_; }
  uint32_t vocabulary_size() const { return vocabulary_size_; }
  // Tokens of a conversation.
  uint32_t context_length() const { return engine_options_.context_length; }
  // Whether passes need all cores of this machine, and a draft has to take turns with them: after each run,
  // or, where they mostly wait, in their waits.
  bool needs_all_cores() const;
  // What it computes on, and a draft that takes turns.
  const std::shared_ptr<ThreadPool>& pool() const { return pool_; }
  // In its waits; null: there are none.
  FlashTurns* turns() { return turns_ ? &*turns_ : nullptr; }
  bool lends_waits() const { return turns_.has_value(); }
  const MemoryPlan* plan() const { return plan_ ? &*plan_ : nullptr; }
  bool reads_flash() const { return plan_ && plan_->bytes_per_pass > 0; }
  // Of what passes wait for flash, after Load(); null: for nothing.
  const FlashMeter* flash_meter() const { return flash_meter_ ? &*flash_meter_ : nullptr; }
  std::optional<FlashUse> flash_use() const;
  const std::optional<ExitsLeftOut>& exits_left_out() const { return exits_left_out_; }
  // Nothing: there are no exits, or nothing is served.
  std::optional<PruningUse> pruning_use() const;
  // What a pass will take, as far as loading has told.
  Duration pass_forecast() const { return pass_forecast_; }

 private:
  LocalTarget(const DeviceOptions& options, Setup setup, std::shared_ptr<const ModelFile> model,
              std::shared_ptr<ThreadPool> pool);

  static constexpr double kExitsRiseMax = 0.02;

  absl::Status ChooseExits();
  absl::Status ReadExits(const ModelSpec& spec);
  absl::Status Refuse(const absl::Status& exits);
  absl::Status Plan(const ModelSpec& spec);
  absl::StatusOr<MemoryPlan> PlanExits(const PlannedModel& target, MemoryNeeds needs,
                                       const absl::StatusOr<MemoryPlan>& plain);
  std::string WhyWithoutExits(const MemoryPlan& with, const MemoryPlan& without) const;
  absl::StatusOr<MemoryNeeds> NeedsWithoutExits(const PlannedModel& target) const;
  RunLimits Runs() const { return RowsFor(context_length(), engine_options_.node_count_max); }
  absl::StatusOr<MemoryPlan> PlanRuns(const PlannedModel& target, const MemoryNeeds& needs);
  absl::StatusOr<const FlashSetting*> LookAtMachine(const MemoryPlan& plan);
  absl::Status AttachExits();
  absl::StatusOr<std::unique_ptr<Engine>> LoadTarget(ChromeTrace* trace,
                                                     const LoadProgress& progress);
  void Forecast(Duration loading);

  const DeviceOptions options_;
  const Setup setup_;
  std::shared_ptr<const ModelFile> model_;  // until it is loaded
  EngineOptions engine_options_;            // with a plan: of runs as long as that has them
  std::string model_name_;
  uint32_t vocabulary_size_ = 0;
  ExitsChoice exits_choice_;
  std::optional<TrainedExits> exits_;           // until they are attached
  std::optional<ExitsLeftOut> exits_left_out_;  // that lie beside it
  std::optional<ExitsTarget> wrong_exits_;      // of those, whose they are instead
  std::optional<FlashSetting> probed_;          // as far as runs are planned by it
  std::optional<MemoryPlan> plan_;              // nothing: the target stays in memory
  std::shared_ptr<StreamingWeights> streamed_;  // by that plan
  StreamStats loaded_;                          // of those, when they were loaded
  Duration pass_forecast_ = std::chrono::milliseconds(30);
  const std::shared_ptr<ThreadPool> pool_;
  std::optional<BudgetWatch> budget_;
  std::optional<FlashTurns> turns_;
  std::unique_ptr<EngineTarget> target_;
  std::optional<FlashMeter> flash_meter_;
  std::optional<MeteredTarget> metered_;
  std::optional<TurnTakingTarget> turn_taking_;
  std::optional<TracedTarget> traced_;
  std::unique_ptr<VerifierMachine> machine_;
  std::unique_ptr<VerifierDriver> driver_;
};

}  // namespace outrider
