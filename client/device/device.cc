#include "client/device/device.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "client/device/drafted_conversation.h"
#include "client/device/flash_turns.h"
#include "client/device/price_file.h"
#include "client/device/server_conversation.h"
#include "client/device/target_conversation.h"
#include "client/planner/memory_needs.h"
#include "client/verifier/local_verifier.h"
#include "client/verifier/remote_verifier.h"
#include "common/base/quote.h"
#include "common/base/random_bits.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine_target.h"
#include "common/engine/flash_engine.h"
#include "common/engine/traced_target.h"
#include "common/formats/models/content_hash.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/model_spec.h"
#include "common/speculation/control/controllers.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"
#include "common/torch/load_engine.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/verifier_driver.h"

namespace outrider {
namespace {

// What only policy auto chooses by.
absl::Status CheckObjective(const DraftOptions& draft) {
  if (draft.objective == Objective::kTime || draft.policy.kind == PolicyKind::kAuto) {
    return absl::OkStatus();
  }
  return InvalidArgument("--spec-objective: policy ", PolicyName(draft.policy.kind),
                         " has one way to decode, whatever is to be saved; take --policy auto");
}

// Whether the target does what a policy needs of it at a dry root.
absl::Status CheckDry(const DraftOptions& draft) {
  if (draft.model.empty() || draft.dry == v1::DRY_POLICY_ADAPTIVE) return absl::OkStatus();
  const std::string_view dry = draft.dry == v1::DRY_POLICY_ALONE ? "alone" : "wait";
  if (draft.policy.kind == PolicyKind::kAuto) {
    return InvalidArgument("--spec-dry ", dry,
                           ": policy auto chooses what the target does when nothing is drafted; "
                           "take another --policy, such as ours, or leave it to auto");
  }
  if (dry != "alone" || SendsDuringPasses(draft.policy.kind)) return absl::OkStatus();
  return InvalidArgument("--spec-dry alone: policy ", PolicyName(draft.policy.kind),
                         " sends its draft between two passes, and a target that never waits is "
                         "always in one; take --policy ours, or --spec-dry wait");
}

absl::Status CheckFamily(const DraftOptions& draft, const Tokenizer& target) {
  if (!draft.is_model()) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(draft.model));
  if (tokenizer->fingerprint() == target.fingerprint()) return absl::OkStatus();
  return FailedPrecondition(draft.model, ": its tokenizer has fingerprint ",
                            FingerprintDigits(tokenizer->fingerprint()), " and the target's ",
                            FingerprintDigits(target.fingerprint()),
                            "; take a draft of the same family");
}

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

// The target is in this process.
class LocalDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(DeviceOptions options) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> model, ModelFile::Open(options.model));
    OUTRIDER_RETURN_IF_ERROR(ModelSpec::From(*model, options.model).status());
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(options.model));
    OUTRIDER_RETURN_IF_ERROR(CheckFamily(options.draft, *tokenizer));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool,
                              ThreadPool::Create(options.threads));
    std::unique_ptr<LocalDevice> device(new LocalDevice(std::move(options), std::move(tokenizer),
                                                        std::move(model), std::move(pool)));
    OUTRIDER_RETURN_IF_ERROR(device->Plan());
    return device;
  }

  absl::Status Load(const LoadProgress& progress) override {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, LoadTarget(progress));
    OUTRIDER_ASSIGN_OR_RETURN(target_, EngineTarget::Create(std::move(engine)));
    model_.reset();  // what is still to be read of it is the engine's
    if (turns_) turn_taking_.emplace(*target_, *turns_);
    Target& runs = turn_taking_ ? static_cast<Target&>(*turn_taking_) : *target_;
    if (trace_ != nullptr) traced_.emplace(runs, *trace_);
    const TargetInfo& info = target_->info();
    info_ = {info.model_name, info.numerics_id.ToString(), info.context_length};
    if (options_.draft.model.empty()) return absl::OkStatus();
    OUTRIDER_ASSIGN_OR_RETURN(draft_, LoadDraftBeside(info.context_length, progress));
    VerifierConfig config = ConfigFor(info, *tokenizer_);
    config.sketch_nodes_max = options_.draft.sketch_nodes;
    config.shares_processor = info.on_host_processor;
    machine_ = std::make_unique<VerifierMachine>(std::move(config),
                                                 VerifierMachine::Parts{*tokenizer_, RandomBits});
    driver_ = std::make_unique<VerifierDriver>(*machine_, target());
    return absl::OkStatus();
  }

  const MemoryPlan* plan() const override { return plan_ ? &*plan_ : nullptr; }

  std::optional<FlashUse> flash_use() const override {
    if (streamed_ == nullptr) return std::nullopt;
    const StreamStats now = streamed_->stats();
    return FlashUse{.bytes_read = now.bytes_read - loaded_.bytes_read,
                    .stalled = now.stalled - loaded_.stalled,
                    .backend = streamed_->backend(),
                    .refusals = streamed_->refusals()};
  }

  absl::StatusOr<std::unique_ptr<Conversation>> Converse(
      const ConversationOptions& asked) override {
    if (draft_ == nullptr) return Alone(asked);
    ControlSetup setup = {.target_is_here = true};
    if (plan_ && plan_->bytes_per_pass > 0) {
      setup.target_streams = plan_->ReadsMost();
      setup.before = Findings{.pass_nodes = setup.target_streams ? kHiddenNodes : kFlashPassNodes};
    }
    return Drafted(
        asked, *draft_, info_.context_length,
        std::make_unique<LocalVerifier>(
            *driver_, LocalVerifier::Options{.shares_processor =
                                                 target_->info().on_host_processor && !turns_}),
        setup);
  }

 private:
  LocalDevice(DeviceOptions options, std::unique_ptr<Tokenizer> tokenizer,
              std::shared_ptr<const ModelFile> model, std::unique_ptr<ThreadPool> pool)
      : Device(std::move(options), std::move(tokenizer)),
        model_(std::move(model)),
        pool_(std::move(pool)) {}

  EngineOptions TargetOptions() const {
    const uint32_t trained = model_->hyperparameters().context_length;
    return {.context_length =
                options_.context.value_or(std::min(trained, DeviceOptions::kContextDefault)),
            .sequence_count_max = options_.conversation_count_max,
            .node_count_max = options_.draft.model.empty() ? 0 : options_.draft.pass_nodes,
            .kv_bytes = options_.kv_bytes};
  }

  // What goes where of a budget, if there is one.
  absl::Status Plan() {
    if (options_.memory_bytes == 0) return absl::OkStatus();
    OUTRIDER_RETURN_IF_ERROR(CheckBudgeted(options_));
    const PlannedModel target = {*model_, options_.model, TargetOptions(), options_.threads};
    std::unique_ptr<ModelFile> drafts;
    std::optional<PlannedModel> draft;
    if (options_.draft.is_model()) {
      OUTRIDER_ASSIGN_OR_RETURN(drafts, ModelFile::Open(options_.draft.model));
      draft.emplace(PlannedModel{
          *drafts, options_.draft.model,
          Draft::OptionsFor(DraftLimits(target.options.context_length), *drafts), kDraftThreads});
    }
    OUTRIDER_ASSIGN_OR_RETURN(
        const MemoryNeeds needs,
        NeedsOf(target, draft ? &*draft : nullptr,
                kGrowthBytes + (options_.trace_file.empty() ? 0 : ChromeTrace::kBytesMax)));
    OUTRIDER_ASSIGN_OR_RETURN(plan_, PlanMemory(needs, options_.memory_bytes));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Engine>> LoadTarget(const LoadProgress& progress) {
    const Kernels& kernels = KernelsFor(options_.isa);
    if (!plan_) {
      return LoadEngine(options_.engine, *model_, options_.model, TargetOptions(), kernels, *pool_,
                        progress);
    }
    StreamOptions stream = plan_->stream;
    stream.trace = trace_.get();
    OUTRIDER_ASSIGN_OR_RETURN(
        FlashEngine flash, LoadFlashEngine(model_, options_.model, TargetOptions(), stream, kernels,
                                           *pool_, progress));
    if (plan_->bytes_per_pass > 0 && options_.draft.is_model()) {
      turns_.emplace();
      flash.weights->LendWaits([this](const std::atomic<bool>& landed) { turns_->Lend(landed); });
    }
    streamed_ = std::move(flash.weights);
    loaded_ = streamed_->stats();
    return std::move(flash.engine);
  }

  absl::StatusOr<std::unique_ptr<Draft>> LoadDraftBeside(uint32_t context,
                                                         const LoadProgress& progress) {
    if (!turns_) return LoadDraft(context, kDraftThreads, progress);
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(kDraftThreads));
    return Draft::Load(options_.draft.model, DraftLimits(context), KernelsFor(options_.isa),
                       std::move(pool), *turns_, progress);
  }

  absl::StatusOr<std::unique_ptr<Conversation>> Alone(const ConversationOptions& asked) {
    OUTRIDER_ASSIGN_OR_RETURN(StopConditions stops,
                              StopConditions::Create(asked.stops, *tokenizer_));
    OUTRIDER_ASSIGN_OR_RETURN(
        Chooser chooser,
        Chooser::Create(asked.sampling, static_cast<int32_t>(target_->info().vocabulary_size)));
    return TargetConversation::Create(target(), turn_, std::move(chooser), std::move(stops));
  }

  Target& target() {
    if (traced_) return *traced_;
    if (turn_taking_) return *turn_taking_;
    return *target_;
  }

  // Where passes on flash begin, as nothing is known yet: rows cost little beside what is read, and
  // next to nothing beside most of a model.
  static constexpr uint32_t kFlashPassNodes = 16;
  static constexpr uint32_t kHiddenNodes = 24;
  // The draft works while the target does: it has a processor of its own at most.
  static constexpr uint32_t kDraftThreads = 1;
  // What the process takes besides models and what it has when they are planned: code that has not
  // run yet, threads, sessions, what parsing a draft's header takes for a while.
  static constexpr uint64_t kGrowthBytes = uint64_t{16} << 20;

  std::shared_ptr<const ModelFile> model_;            // until it is loaded
  std::optional<MemoryPlan> plan_;                    // nothing: the target stays in memory
  std::shared_ptr<const StreamingWeights> streamed_;  // by that plan
  StreamStats loaded_;                                // of those, when they were loaded
  const std::unique_ptr<ThreadPool> pool_;
  std::optional<FlashTurns> turns_;  // of a draft beside a target on flash
  std::unique_ptr<EngineTarget> target_;
  std::optional<TurnTakingTarget> turn_taking_;
  std::optional<TracedTarget> traced_;
  Mutex turn_;                    // at a target that writes alone
  std::unique_ptr<Draft> draft_;  // null: it does
  std::unique_ptr<VerifierMachine> machine_;
  std::unique_ptr<VerifierDriver> driver_;
};

// The target is at a server.
class RemoteDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(DeviceOptions options) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteVerifier> verifier,
                              RemoteVerifier::Connect(options.server, options.security));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                              OpenTokenizer(options.tokenizer_path()));
    if (!options.tokenizer.empty()) {
      OUTRIDER_RETURN_IF_ERROR(CheckFamily(options.draft, *tokenizer));
    }
    OUTRIDER_ASSIGN_OR_RETURN(const v1::DescribeResponse server, verifier->Describe());
    if (options.context.value_or(0) > server.context_length()) {
      return InvalidArgument("--context ", *options.context, " is more than the ",
                             server.context_length(), " that the verifier at ", options.server,
                             " has; ask for that at most");
    }
    return std::unique_ptr<Device>(
        new RemoteDevice(std::move(options), std::move(tokenizer), server));
  }

  absl::Status Load(const LoadProgress& progress) override {
    if (options_.placement != Placement::kSplit) return absl::OkStatus();
    const uint32_t threads = options_.draft.is_model() ? options_.threads : 1;
    OUTRIDER_ASSIGN_OR_RETURN(draft_, LoadDraft(context_, threads, progress));
    return absl::OkStatus();
  }

  // A connection each: a verifier counts the streams of one session.
  absl::StatusOr<std::unique_ptr<Conversation>> Converse(
      const ConversationOptions& asked) override {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<RemoteVerifier> verifier,
                              RemoteVerifier::Connect(options_.server, options_.security));
    if (options_.placement != Placement::kSplit) return Written(asked, std::move(verifier));
    return Drafted(asked, *draft_, context_, std::move(verifier),
                   {.server_drafts = server_drafts_});
  }

 private:
  RemoteDevice(DeviceOptions options, std::unique_ptr<Tokenizer> tokenizer,
               const v1::DescribeResponse& server)
      : Device(std::move(options), std::move(tokenizer)),
        context_(options_.context.value_or(
            std::min(server.context_length(), DeviceOptions::kContextDefault))),
        server_drafts_(server.drafts()) {
    info_ = {Printable(server.model_name()), Printable(server.numerics_id()),
             server.context_length()};
  }

  // At the server.
  absl::StatusOr<std::unique_ptr<Conversation>> Written(const ConversationOptions& asked,
                                                        std::unique_ptr<RemoteVerifier> verifier) {
    OUTRIDER_ASSIGN_OR_RETURN(StopConditions stops,
                              StopConditions::Create(asked.stops, *tokenizer_));
    return std::make_unique<ServerConversation>(
        ServerConversation::Options{
            .draft = options_.placement == Placement::kServer,
            .sampling = asked.sampling,
            .stops = asked.stops,
            .context_length = context_,
            .tokenizer_fingerprint = FingerprintDigits(tokenizer_->fingerprint()),
            .frame_bytes = options_.security.frame_bytes},
        std::move(verifier), std::move(stops));
  }

  const uint32_t context_;  // of a conversation
  const bool server_drafts_;
  std::unique_ptr<Draft> draft_;  // of kSplit
};

absl::Status CheckPlacement(const DeviceOptions& options) {
  const bool drafts_here = options.placement == Placement::kSplit;
  const std::string_view name = options.placement == Placement::kServer ? "server" : "target";
  if (drafts_here && options.draft.model.empty()) {
    return InvalidArgument(
        "--server needs --draft, a small model for this device; or --place server or target, which "
        "leave drafting to the server or do without");
  }
  if (!drafts_here && !options.draft.model.empty()) {
    return InvalidArgument("--place ", name, " drafts nothing here; leave out --draft ",
                           options.draft.model, ", or take --place device");
  }
  if (!drafts_here && !options.trace_file.empty()) {
    return InvalidArgument("--trace ", options.trace_file, ": with --place ", name,
                           " there is nothing to trace on this device; leave it out");
  }
  if (options.tokenizer.empty() && !options.draft.is_model()) {
    return InvalidArgument(
        drafts_here ? Concat("--draft ", options.draft.model) : Concat("--place ", name),
        ": brings no tokenizer, and a server does not hand out its own; give "
        "--tokenizer, a model of the same family or its tokenizer's file");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Open(DeviceOptions options) {
  if (options.model.empty() == options.server.empty()) {
    return InvalidArgument("a device has a model or a server, and not both");
  }
  OUTRIDER_RETURN_IF_ERROR(CheckDry(options.draft));
  OUTRIDER_RETURN_IF_ERROR(CheckObjective(options.draft));
  if (options.model.empty()) OUTRIDER_RETURN_IF_ERROR(CheckPlacement(options));
  std::unique_ptr<ChromeTrace> trace;
  if (!options.trace_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(trace, ChromeTrace::Create(options.trace_file));
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                            options.model.empty() ? RemoteDevice::Open(std::move(options))
                                                  : LocalDevice::Open(std::move(options)));
  device->trace_ = std::move(trace);
  return device;
}

absl::Status Device::WriteTrace() {
  return trace_ == nullptr ? absl::OkStatus() : trace_->Write();
}

absl::Status Device::Check(const ConversationOptions& asked) const {
  OUTRIDER_RETURN_IF_ERROR(asked.sampling.Validate(tokenizer_->vocabulary_size()));
  return StopConditions::Create(asked.stops, *tokenizer_).status();
}

absl::StatusOr<std::unique_ptr<Draft>> Device::LoadDraft(uint32_t context, uint32_t thread_count,
                                                         const LoadProgress& progress) const {
  const Draft::Limits limits = DraftLimits(context);
  if (!options_.draft.is_model()) {
    return std::make_unique<Draft>(limits, tokenizer_->vocabulary_size());
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ThreadPool> pool, ThreadPool::Create(thread_count));
  return Draft::Load(options_.draft.model, options_.draft.engine, limits, KernelsFor(options_.isa),
                     std::move(pool), progress);
}

absl::StatusOr<std::unique_ptr<Conversation>> Device::Drafted(const ConversationOptions& asked,
                                                              Draft& draft, uint32_t context,
                                                              std::unique_ptr<Verifier> verifier,
                                                              const ControlSetup& setup) const {
  OUTRIDER_RETURN_IF_ERROR(Check(asked));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, draft.NewDrafter(asked.sampling));
  SessionOptions session;
  session.sampling = asked.sampling;
  session.stops = asked.stops;
  session.length_max = context;
  session.tokenizer_fingerprint = FingerprintDigits(tokenizer_->fingerprint());
  session.frame_bytes = options_.security.frame_bytes;
  session.dry_policy = options_.draft.dry;
  session.sketch.node_count_max = options_.draft.sketch_nodes;
  session.sketch.hint_belief = options_.draft.hint_belief;
  session.sketch.pass_node_count_max = options_.draft.pass_nodes;
  session.sketch.takes_turns = draft.on_host_processor() && verifier->Forecast({}).shares_processor;
  const PriceFile prices(options_.price_file);
  const uint64_t key = PriceKey(draft);
  ControlSetup known_setup = setup;
  known_setup.objective = options_.draft.objective;
  CostModel::Assumed assumed = AssumedOf(*verifier);
  if (const std::optional<Prices> known = prices.Find(key)) {
    known_setup.before = known->findings;
    assumed.pass_ms = known->pass_ms;
    assumed.pass_node_ms = known->row_ms;
    assumed.knows_rows = true;
    assumed.draft_ms = known->draft_ms;
    assumed.draft_node_ms = known->draft_node_ms;
  }
  return std::make_unique<DraftedConversation>(
      std::move(session),
      DraftedConversation::Parts{
          .tokenizer = *tokenizer_,
          .verifier = std::move(verifier),
          .drafter = std::move(drafter),
          .draft_vocabulary_size = draft.vocabulary_size(),
          .controller = MakeController(options_.draft.policy, known_setup),
          .assumed = assumed,
          .trace = trace_ == nullptr
                       ? nullptr
                       : std::make_unique<SessionTrace>(*trace_, setup.target_is_here),
          .keep = [prices, key](const Prices& paid) { prices.Keep(key, paid); }});
}

// Whatever they depend on: the machine and what of it computes, its memory, both models, whether
// the target is here. Not which server has it: addresses change, and a model is mostly served by machines alike.
uint64_t Device::PriceKey(const Draft& draft) const {
  std::array<char, HOST_NAME_MAX + 1> host = {};
  gethostname(host.data(), host.size() - 1);
  const std::string text = Concat(
      host.data(), "\n", Name(options_.isa), "\n", options_.threads, "\n", options_.engine, "\n",
      options_.memory_bytes, "\n", options_.draft.engine, "\n", options_.server.empty(), "\n",
      info_.numerics_id, "\n", draft.content_hash(), "\n", PolicyName(options_.draft.policy.kind));
  return HashBytes(std::as_bytes(std::span(text)), /*seed=*/0);
}

}  // namespace outrider
