#include "client/device/local_target.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "client/device/draft.h"
#include "client/planner/machine_probe.h"
#include "client/verifier/local_verifier.h"
#include "common/base/clock.h"
#include "common/base/group_limit.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/engine/flash_engine.h"
#include "common/kernels/kernels.h"
#include "common/model/exits/exit_scorer.h"
#include "common/torch/load_engine.h"
#include "common/verification/machine/verifier_config.h"

namespace outrider {
namespace {

// What loading has read tells the rate of a flash from here on.
constexpr uint64_t kTellingBytes = uint64_t{16} << 20;
constexpr double kBytesPerSecond = 1e9;  // of one that nothing is known of

// How long flash and kernels are looked at before it is planned how long runs are: each. What a run of
// hundreds of rows takes is known well enough from a part of a layer.
constexpr Duration kProbeTime = std::chrono::milliseconds(60);
constexpr uint64_t kProbeBytes = uint64_t{16} << 20;

// For which a machine in this process is waited for.
constexpr Duration kAnswerMax = std::chrono::seconds(5);

// Whether all that takes memory can be counted before.
absl::Status CheckBudgeted(const DeviceOptions& options) {
  for (const std::string& engine : {options.engine, options.draft.engine}) {
    if (engine == "cpu") continue;
    return InvalidArgument("--memory: what ", engine,
                           " takes of memory is not ours to plan; leave out --memory, or take "
                           "--device cpu and --draft-device cpu");
  }
  return absl::OkStatus();
}

EngineOptions OptionsOf(const DeviceOptions& options, const ModelFile& model) {
  return {.context_length = options.ContextOf(model.hyperparameters().context_length),
          .sequence_count_max = options.conversation_count_max,
          .node_count_max = options.draft.model.empty() ? 0 : options.draft.pass_nodes,
          .kv_bytes = options.kv_bytes,
          .projection = options.draft.projection};
}

// Loading reads none.
std::optional<ExpertReads> ReadsOf(const ExpertStats& experts) {
  const ExpertCacheStats& cache = experts.cache;
  if (cache.hits + cache.misses == 0) return std::nullopt;
  return ExpertReads{.bytes_read = cache.taken_bytes,
                     .uses = cache.hits + cache.misses,
                     .hits = cache.hits,
                     .evicted = cache.evicted,
                     .read_ahead = experts.read_ahead,
                     .read_ahead_right = experts.read_ahead_right};
}

bool HasAllCores(const DeviceOptions& options) {
  return options.threads >= std::thread::hardware_concurrency();
}

}  // namespace

absl::Status LocalTarget::Check(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(path));
  return ModelSpec::From(*model, path).status();
}

absl::StatusOr<std::unique_ptr<LocalTarget>> LocalTarget::Open(const DeviceOptions& options,
                                                               Setup setup) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> model, ModelFile::Open(setup.path));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(*model, setup.path));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(options.threads));
  std::unique_ptr<LocalTarget> target(
      new LocalTarget(options, std::move(setup), std::move(model), std::move(pool)));
  target->model_name_ = spec.name;
  target->vocabulary_size_ = spec.vocabulary_size;
  OUTRIDER_RETURN_IF_ERROR(target->ChooseExits());
  OUTRIDER_RETURN_IF_ERROR(target->Plan(spec));
  return target;
}

LocalTarget::LocalTarget(const DeviceOptions& options, Setup setup,
                         std::shared_ptr<const ModelFile> model, std::shared_ptr<ThreadPool> pool)
    : options_(options),
      setup_(std::move(setup)),
      model_(std::move(model)),
      engine_options_(OptionsOf(options, *model_)),
      pool_(std::move(pool)) {}

// They guess what comes of drafts.
absl::Status LocalTarget::ChooseExits() {
  if (options_.draft.model.empty()) return absl::OkStatus();
  exits_choice_ = outrider::ChooseExits(options_.draft.exits, setup_.path);
  if (!exits_choice_.path.empty()) return absl::OkStatus();
  if (options_.draft.pruning != PruningWay::kOn) return absl::OkStatus();
  if (!options_.draft.exits.empty()) {
    return InvalidArgument("--spec-prune on: passes are pruned by exits, and --exits ",
                           options_.draft.exits, " leaves them out; take one or the other");
  }
  return InvalidArgument("--spec-prune on: ", setup_.path,
                         " has no exits beside it, by which passes are pruned; give --exits");
}

absl::Status LocalTarget::ReadExits(const ModelSpec& spec) {
  const std::string& path = exits_choice_.path;
  if (path.empty()) return absl::OkStatus();
  absl::StatusOr<TrainedExits> exits = outrider::ReadExits(path);
  if (!exits.ok()) return Refuse(exits.status());
  const absl::Status fits = CheckExits(exits->target, path, spec, model_->RecordedContentHash());
  if (!fits.ok()) {
    wrong_exits_ = exits->target;
    return Refuse(fits);
  }
  exits_ = *std::move(exits);
  return absl::OkStatus();
}

// They cannot be used; who has not asked for them goes on without.
absl::Status LocalTarget::Refuse(const absl::Status& exits) {
  exits_.reset();
  if (exits_choice_.was_asked) return exits;
  if (options_.draft.asks_for_exits()) {
    return InvalidArgument(Message(exits), ", or go on without: leave out --spec-prune on");
  }
  exits_left_out_ = {.why = Concat(Message(exits), ", or leave them out: --exits none"),
                     .are_wrong = true};
  return absl::OkStatus();
}

// What goes where of a budget, if there is one. Exits are looked at when it is known how it is
// without any, and before they take memory themselves.
absl::Status LocalTarget::Plan(const ModelSpec& spec) {
  if (options_.memory_bytes == 0) return ReadExits(spec);
  OUTRIDER_RETURN_IF_ERROR(CheckBudgeted(options_));
  PlannedModel target = {*model_, setup_.path, engine_options_, options_.threads};
  target.options.row_count_max = LeastRows(Runs());
  OUTRIDER_ASSIGN_OR_RETURN(MemoryNeeds needs, NeedsWithoutExits(target));
  absl::StatusOr<MemoryPlan> plan = PlanRuns(target, needs);
  if (!options_.draft.asks_for_exits()) OUTRIDER_RETURN_IF_ERROR(plan.status());
  OUTRIDER_RETURN_IF_ERROR(ReadExits(spec));
  if (exits_) plan = PlanExits(target, std::move(needs), plan);
  OUTRIDER_RETURN_IF_ERROR(plan.status());
  plan_ = *std::move(plan);
  engine_options_.row_count_max = plan_->needs.run_rows;
  return absl::OkStatus();
}

// With runs of as many rows as is best, from those that the target's options have.
absl::StatusOr<MemoryPlan> LocalTarget::PlanRuns(const PlannedModel& target,
                                                 const MemoryNeeds& needs) {
  const RunLimits limits = Runs();
  const TrainedExits* const exits = needs.exits_bytes > 0 ? &*exits_ : nullptr;
  const PlanOfRows plan_of = [&](uint32_t rows) -> absl::StatusOr<MemoryPlan> {
    OUTRIDER_ASSIGN_OR_RETURN(MemoryNeeds of_rows, NeedsOfRows(needs, target, exits, rows));
    return PlanMemory(of_rows, options_.memory_bytes);
  };
  const uint32_t rows = RowsThatFit(limits, plan_of);
  absl::StatusOr<MemoryPlan> plan = plan_of(rows);
  if (!plan.ok() || rows < limits.usual || plan->bytes_per_pass == 0) return plan;
  OUTRIDER_ASSIGN_OR_RETURN(const FlashSetting* const machine, LookAtMachine(*plan));
  return plan_of(RowsThatHide(limits, *machine, plan_of));
}

// Once, whatever is planned.
absl::StatusOr<const FlashSetting*> LocalTarget::LookAtMachine(const MemoryPlan& plan) {
  if (probed_) return &*probed_;
  FlashSetting machine = SettingOf(plan, options_.threads);
  OUTRIDER_ASSIGN_OR_RETURN(const FlashSpeed flash, ProbeFlash(*model_, kProbeTime, nullptr));
  machine.flash_bytes_per_second = flash.bytes_per_second;
  OUTRIDER_ASSIGN_OR_RETURN(machine.target,
                            ProbeKernels(*model_, setup_.path, KernelsFor(options_.isa), *pool_,
                                         {.time = kProbeTime, .bytes_max = kProbeBytes}));
  return &probed_.emplace(machine);
}

// With them or not: nobody who has not asked for them is to wait much longer for passes, or prompts.
absl::StatusOr<MemoryPlan> LocalTarget::PlanExits(const PlannedModel& target, MemoryNeeds needs,
                                                  const absl::StatusOr<MemoryPlan>& plain) {
  OUTRIDER_ASSIGN_OR_RETURN(needs.exits_bytes, ExitsBytes(*exits_, target, needs));
  absl::StatusOr<MemoryPlan> plan = PlanRuns(target, needs);
  if (options_.draft.asks_for_exits()) return plan;
  const std::string why =
      plan.ok() ? WhyWithoutExits(*plan, *plain)
                : Concat("there is no room for it in ", HumanBytes(options_.memory_bytes),
                         "; with it the least is ", HumanBytes(LeastBytes(needs)));
  if (why.empty()) return plan;
  exits_left_out_ = {.why = Concat(exits_choice_.path, ": is left out, as ", why)};
  exits_.reset();
  return plain;
}

// Empty: they take little of what there is without them.
std::string LocalTarget::WhyWithoutExits(const MemoryPlan& with, const MemoryPlan& without) const {
  constexpr std::string_view kAllTheSame = "; --exits with its path has it all the same";
  if (static_cast<double>(with.bytes_per_pass) >
      (1 + kExitsRiseMax) * static_cast<double>(without.bytes_per_pass)) {
    return Concat("a pass would read ", HumanBytes(with.bytes_per_pass), " of flash with it, and ",
                  HumanBytes(without.bytes_per_pass), " without", kAllTheSame);
  }
  const uint32_t usual = Runs().usual;
  if (with.needs.run_rows < std::min(usual, without.needs.run_rows)) {
    return Concat("runs of a prompt would have ", with.needs.run_rows, " rows with it, and ",
                  without.needs.run_rows, " without", kAllTheSame);
  }
  return "";
}

absl::StatusOr<MemoryNeeds> LocalTarget::NeedsWithoutExits(const PlannedModel& target) const {
  std::unique_ptr<ModelFile> drafts;
  std::optional<PlannedModel> draft;
  if (options_.draft.is_model()) {
    OUTRIDER_ASSIGN_OR_RETURN(drafts, ModelFile::Open(options_.draft.model));
    const Draft::Limits limits = {context_length(), options_.draft.sketch_nodes,
                                  options_.conversation_count_max};
    draft.emplace(PlannedModel{*drafts, options_.draft.model, Draft::OptionsFor(limits, *drafts),
                               options_.threads});
  }
  const uint64_t trace_bytes = options_.trace_file.empty() ? 0 : ChromeTrace::kBytesMax;
  return NeedsOf(target, draft ? &*draft : nullptr, setup_.growth_bytes + trace_bytes);
}

absl::Status LocalTarget::Load(ChromeTrace* trace, const LoadProgress& progress) {
  const MonotonicTime begin = RealClock().Now();
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, LoadTarget(trace, progress));
  OUTRIDER_ASSIGN_OR_RETURN(target_, EngineTarget::Create(std::move(engine)));
  model_.reset();  // what is still to be read of it is the engine's
  Forecast(RealClock().Now() - begin);
  OUTRIDER_RETURN_IF_ERROR(AttachExits());
  if (reads_flash()) {
    const auto stats = [this] { return streamed_->stats(); };
    metered_.emplace(*target_, stats, flash_meter_.emplace());
  }
  if (turns_) turn_taking_.emplace(target(), *turns_);
  if (trace != nullptr) traced_.emplace(target(), *trace);
  return absl::OkStatus();
}

absl::Status LocalTarget::AttachExits() {
  if (wrong_exits_) {  // the hash of the target's weights is known by now, whether it was or not
    const Engine& engine = target_->engine();
    return Refuse(
        CheckExits(*wrong_exits_, exits_choice_.path, engine.spec(), engine.info().content_hash));
  }
  if (!exits_) return absl::OkStatus();
  const absl::Status status = target_->AttachExits(*exits_, exits_choice_.path, {});
  if (!status.ok()) return Refuse(status);
  exits_.reset();
  return status;
}

absl::StatusOr<std::unique_ptr<Engine>> LocalTarget::LoadTarget(ChromeTrace* trace,
                                                                const LoadProgress& progress) {
  const Kernels& kernels = KernelsFor(options_.isa);
  const bool drafts_here = options_.draft.is_model() && options_.draft.engine == "cpu";
  const bool may_take_turns =
      drafts_here && HasAllCores(options_) && (reads_flash() || setup_.is_fallback);
  if (!plan_) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                              LoadEngine(options_.engine, *model_, setup_.path, engine_options_,
                                         kernels, *pool_, progress));
    if (may_take_turns && engine->info().on_host_processor) turns_.emplace();
    return engine;
  }
  if (may_take_turns) turns_.emplace();
  StreamOptions stream = plan_->stream;
  stream.trace = trace;
  OUTRIDER_ASSIGN_OR_RETURN(FlashEngine flash, LoadFlashEngine(model_, setup_.path, engine_options_,
                                                               stream, kernels, *pool_, progress));
  if (turns_) {
    flash.weights->LendWaits([this](const std::atomic<bool>& landed) { turns_->Lend(landed); });
  }
  streamed_ = std::move(flash.weights);
  loaded_ = streamed_->stats();
  budget_.emplace(*plan_, streamed_, [] { return MemoryLimitOfGroup(); });
  return std::move(flash.engine);
}

void LocalTarget::Forecast(Duration loading) {
  if (!reads_flash()) return;
  const double seconds = std::chrono::duration<double>(loading).count();
  const double rate = loaded_.bytes_read < kTellingBytes
                          ? kBytesPerSecond
                          : static_cast<double>(loaded_.bytes_read) / seconds;
  pass_forecast_ = std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(static_cast<double>(plan_->bytes_per_pass) / rate));
}

void LocalTarget::Serve(const Tokenizer& tokenizer) {
  VerifierConfig config = ConfigFor(info(), tokenizer);
  config.sketch_nodes_max = options_.draft.sketch_nodes;
  config.shares_processor = needs_all_cores();
  config.pruning = options_.engine == "cpu" ? options_.draft.pruning : PruningWay::kOff;
  machine_ = std::make_unique<VerifierMachine>(std::move(config),
                                               VerifierMachine::Parts{tokenizer, RandomBits});
  driver_ = std::make_unique<VerifierDriver>(*machine_, target());
}

std::unique_ptr<Verifier> LocalTarget::NewVerifier() {
  // Who may move to a server cannot have turns there; without a model to draft with they save nothing.
  const bool takes_turns = needs_all_cores() && !turns_ && !setup_.is_fallback;
  return std::make_unique<LocalVerifier>(*driver_,
                                         LocalVerifier::Options{.shares_processor = takes_turns});
}

bool LocalTarget::needs_all_cores() const {
  return info().on_host_processor && HasAllCores(options_);
}

Target& LocalTarget::target() {
  if (traced_) return *traced_;
  if (turn_taking_) return *turn_taking_;
  if (metered_) return *metered_;
  return *target_;
}

std::optional<FlashUse> LocalTarget::flash_use() const {
  if (streamed_ == nullptr) return std::nullopt;
  const StreamStats now = streamed_->stats();
  return FlashUse{.bytes_read = now.bytes_read - loaded_.bytes_read,
                  .experts = ReadsOf(now.experts),
                  .stalled = now.stalled - loaded_.stalled,
                  .backend = streamed_->backend(),
                  .refusals = streamed_->refusals()};
}

std::optional<PruningUse> LocalTarget::pruning_use() const {
  if (driver_ == nullptr || info().exit_depths.empty()) return std::nullopt;
  const auto stats = driver_->AskStats(RealClock().Now() + kAnswerMax);
  if (!stats) return std::nullopt;
  return PruningUse{.runs = stats->machine.running.pruned_runs,
                    .nodes = stats->machine.running.nodes_pruned};
}

}  // namespace outrider
