#include "client/device/device.h"

#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <thread>
#include <utility>

#include "client/device/drafted_conversation.h"
#include "client/device/flash_turns.h"
#include "client/device/local_target.h"
#include "client/device/price_file.h"
#include "client/device/server_conversation.h"
#include "client/device/target_conversation.h"
#include "client/planner/flash_forecast.h"
#include "client/verifier/fallback_verifier.h"
#include "client/verifier/remote_verifier.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/content_hash.h"
#include "common/kernels/kernels.h"
#include "common/speculation/control/controllers.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"

namespace outrider {
namespace {

// What the process takes besides models and what it has when they are planned: code that has not
// run yet, threads, sessions, what parsing a draft's header takes for a while.
constexpr uint64_t kGrowthBytes = uint64_t{16} << 20;

double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

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

// What only a target here does.
absl::Status CheckTargetIsHere(const DeviceOptions& options) {
  if (!options.draft.provisional && options.model.empty()) {
    return InvalidArgument(
        "--spec-provisional off: the target is at a server, and a draft that rests while a pass "
        "runs there only loses time; leave it out");
  }
  if (!options.model.empty() || !options.fallback.empty()) return absl::OkStatus();
  if (options.draft.names_exits()) {
    return InvalidArgument("--exits ", options.draft.exits,
                           ": the target is at a server, which has its own; leave it out");
  }
  if (options.draft.pruning == PruningWay::kOn) {
    return InvalidArgument(
        "--spec-prune on: the target is at a server, which keeps all rows of a pass; leave it out");
  }
  if (options.draft.projection == Projection::kPath) {
    return InvalidArgument(
        "--spec-projection path: the target is at a server, which asks its head as it likes; leave "
        "it out");
  }
  return absl::OkStatus();
}

// What is of use to a draft alone.
absl::Status CheckSomethingIsDrafted(const DraftOptions& draft) {
  if (!draft.model.empty() || !draft.asks_for_exits()) return absl::OkStatus();
  const std::string flag = draft.names_exits() ? "--exits " + draft.exits : "--spec-prune on";
  return InvalidArgument(flag,
                         ": exits say what becomes of drafted tokens, and nothing is drafted; give "
                         "--draft, or leave it out");
}

// What only a target on the host's processor does.
absl::Status CheckPassWays(const DeviceOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(CheckTargetIsHere(options));
  OUTRIDER_RETURN_IF_ERROR(CheckSomethingIsDrafted(options.draft));
  if (options.engine == "cpu") return absl::OkStatus();
  if (options.draft.pruning == PruningWay::kOn) {
    return InvalidArgument("--spec-prune on: ", options.engine,
                           " keeps all rows of a pass; take --device cpu, or leave it out");
  }
  if (options.draft.projection == Projection::kPath) {
    return InvalidArgument(
        "--spec-projection path: ", options.engine,
        " asks its head for all rows at once; take --device cpu, or leave it out");
  }
  return absl::OkStatus();
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

// The target is in this process.
class LocalDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(DeviceOptions options) {
    OUTRIDER_RETURN_IF_ERROR(LocalTarget::Check(options.model));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(options.model));
    OUTRIDER_RETURN_IF_ERROR(CheckFamily(options.draft, *tokenizer));
    OUTRIDER_ASSIGN_OR_RETURN(
        std::unique_ptr<LocalTarget> target,
        LocalTarget::Open(options, {.path = options.model, .growth_bytes = kGrowthBytes}));
    return std::unique_ptr<Device>(
        new LocalDevice(std::move(options), std::move(tokenizer), std::move(target)));
  }

  absl::Status Load(const LoadProgress& progress) override {
    OUTRIDER_RETURN_IF_ERROR(target_->Load(trace_.get(), progress));
    const TargetInfo& info = target_->info();
    info_ = {info.model_name, info.numerics_id.ToString(), info.context_length};
    if (options_.draft.model.empty()) return absl::OkStatus();
    OUTRIDER_ASSIGN_OR_RETURN(draft_, LoadDraft(info.context_length, target_.get(), progress));
    target_->Serve(*tokenizer_);
    return absl::OkStatus();
  }

  const MemoryPlan* plan() const override { return target_->plan(); }
  std::optional<ExitsLeftOut> exits_left_out() const override { return target_->exits_left_out(); }
  std::optional<FlashUse> flash_use() const override { return target_->flash_use(); }
  std::optional<PruningUse> pruning_use() const override { return target_->pruning_use(); }

  absl::StatusOr<std::unique_ptr<Conversation>> Converse(
      const ConversationOptions& asked) override {
    if (draft_ == nullptr) return Alone(asked);
    std::unique_ptr<Verifier> verifier = target_->NewVerifier();
    const Start start = StartAt(*target_, *draft_, *verifier);
    return Drafted(asked, *draft_, info_.context_length, std::move(verifier), start);
  }

 private:
  LocalDevice(DeviceOptions options, std::unique_ptr<Tokenizer> tokenizer,
              std::unique_ptr<LocalTarget> target)
      : Device(std::move(options), std::move(tokenizer)), target_(std::move(target)) {}

  absl::StatusOr<std::unique_ptr<Conversation>> Alone(const ConversationOptions& asked) {
    OUTRIDER_ASSIGN_OR_RETURN(StopConditions stops,
                              StopConditions::Create(asked.stops, *tokenizer_));
    OUTRIDER_ASSIGN_OR_RETURN(
        Chooser chooser,
        Chooser::Create(asked.sampling, static_cast<int32_t>(target_->info().vocabulary_size)));
    return TargetConversation::Create(target_->target(), turn_, std::move(chooser),
                                      std::move(stops));
  }

  const std::unique_ptr<LocalTarget> target_;
  Mutex turn_;                    // at a target that writes alone
  std::unique_ptr<Draft> draft_;  // null: it does
};

// Whether a session may go on from it.
absl::Status CheckFallbackTokens(const std::string& path, const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> fallback, OpenTokenizer(path));
  if (fallback->fingerprint() == tokenizer.fingerprint()) return absl::OkStatus();
  return FailedPrecondition("--fallback ", path, ": its tokenizer has fingerprint ",
                            FingerprintDigits(fallback->fingerprint()), " and the server's ",
                            FingerprintDigits(tokenizer.fingerprint()),
                            "; take a copy of the server's model");
}

// A name without what files and directories write differently.
std::string Plain(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return plain;
}

// Another model of the same family would go on with another text. A copy may be quantised
// otherwise, and say so in its name.
absl::Status CheckFallbackModel(const DeviceOptions& options, const LocalTarget& fallback,
                                const v1::DescribeResponse& server) {
  const std::string here = Plain(fallback.model_name()), there = Plain(server.model_name());
  const bool is_copy =
      here.find(there) != std::string::npos || there.find(here) != std::string::npos;
  if (is_copy && fallback.vocabulary_size() == server.vocabulary_size()) return absl::OkStatus();
  return FailedPrecondition(
      "--fallback ", options.fallback, ": is ", Quote(fallback.model_name()), " with ",
      fallback.vocabulary_size(), " tokens, and the verifier at ", options.server, " has ",
      Quote(server.model_name()), " with ", server.vocabulary_size(),
      "; take a copy of the server's model, which may be quantised otherwise");
}

// The target is at a server.
class RemoteDevice final : public Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(DeviceOptions options) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<RemoteVerifier> verifier,
                              RemoteVerifier::Connect(options.server, options.security));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer,
                              OpenTokenizer(options.tokenizer_path()));
    if (!options.tokenizer.empty()) {
      OUTRIDER_RETURN_IF_ERROR(CheckFamily(options.draft, *tokenizer));
    }
    absl::StatusOr<v1::DescribeResponse> server = verifier->Describe();
    if (!server.ok() && !(absl::IsUnavailable(server.status()) && !options.fallback.empty())) {
      return server.status();
    }
    verifier.reset();
    if (server.ok() && options.context.value_or(0) > server->context_length()) {
      return InvalidArgument("--context ", *options.context, " is more than the ",
                             server->context_length(), " that the verifier at ", options.server,
                             " has; ask for that at most");
    }
    std::unique_ptr<LocalTarget> fallback;
    if (!options.fallback.empty()) {
      OUTRIDER_RETURN_IF_ERROR(CheckFallbackTokens(options.fallback, *tokenizer));
      OUTRIDER_ASSIGN_OR_RETURN(
          fallback, LocalTarget::Open(options, {.path = options.fallback,
                                                .growth_bytes = kGrowthBytes + kLinkBytes,
                                                .is_fallback = true}));
      if (server.ok()) OUTRIDER_RETURN_IF_ERROR(CheckFallbackModel(options, *fallback, *server));
    }
    return std::unique_ptr<Device>(new RemoteDevice(std::move(options), std::move(tokenizer),
                                                    std::move(fallback),
                                                    server.ok() ? &*server : nullptr));
  }

  absl::Status Load(const LoadProgress& progress) override {
    if (options_.placement != Placement::kSplit) return absl::OkStatus();
    if (fallback_ != nullptr) {
      OUTRIDER_RETURN_IF_ERROR(fallback_->Load(trace_.get(), progress));
      if (!is_there_) info_ = InfoOf(fallback_->info());
    }
    OUTRIDER_ASSIGN_OR_RETURN(draft_, LoadDraft(context_, fallback_.get(), progress));
    if (fallback_ != nullptr) fallback_->Serve(*tokenizer_);
    return absl::OkStatus();
  }

  const MemoryPlan* plan() const override { return fallback_ ? fallback_->plan() : nullptr; }
  std::optional<ExitsLeftOut> exits_left_out() const override {
    return fallback_ ? fallback_->exits_left_out() : std::nullopt;
  }
  std::optional<FlashUse> flash_use() const override {
    return fallback_ ? fallback_->flash_use() : std::nullopt;
  }
  std::optional<PruningUse> pruning_use() const override {
    return fallback_ ? fallback_->pruning_use() : std::nullopt;
  }

  // A connection each: a verifier counts the streams of one session.
  absl::StatusOr<std::unique_ptr<Conversation>> Converse(
      const ConversationOptions& asked) override {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<RemoteVerifier> verifier,
                              RemoteVerifier::Connect(options_.server, options_.security));
    if (options_.placement != Placement::kSplit) return Written(asked, std::move(verifier));
    const ControlSetup setup = {.server_drafts = server_drafts_};
    if (fallback_ == nullptr) {
      const Start start = {.setup = setup, .assumed = AssumedOf(*verifier)};
      return Drafted(asked, *draft_, context_, std::move(verifier), start);
    }
    auto both = std::make_unique<FallbackVerifier>(
        std::move(verifier), fallback_->NewVerifier(),
        FallbackVerifier::Options{.device_pass = fallback_->pass_forecast(),
                                  .begins_at_device = !is_there_});
    return DraftedWithFallback(asked, *draft_, context_, std::move(both), setup, *fallback_);
  }

 private:
  // `server` may be null: it was not there.
  RemoteDevice(DeviceOptions options, std::unique_ptr<Tokenizer> tokenizer,
               std::unique_ptr<LocalTarget> fallback, const v1::DescribeResponse* server)
      : Device(std::move(options), std::move(tokenizer)),
        fallback_(std::move(fallback)),
        context_(ContextOf(server)),
        is_there_(server != nullptr),
        server_drafts_(is_there_ && server->drafts()) {
    if (!is_there_) return;
    info_ = {Printable(server->model_name()), Printable(server->numerics_id()),
             server->context_length()};
  }

  static DeviceInfo InfoOf(const TargetInfo& target) {
    return {target.model_name, target.numerics_id.ToString(), target.context_length};
  }

  // As many as both targets have.
  uint32_t ContextOf(const v1::DescribeResponse* server) const {
    uint32_t context = options_.context.value_or(DeviceOptions::kContextDefault);
    if (server != nullptr) context = std::min(context, server->context_length());
    return fallback_ ? std::min(context, fallback_->context_length()) : context;
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

  // Of gRPC's threads and connections.
  static constexpr uint64_t kLinkBytes = uint64_t{16} << 20;

  const std::unique_ptr<LocalTarget> fallback_;  // null: there is none
  const uint32_t context_;                       // of a conversation
  const bool is_there_;                          // the server was, when it was opened
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
  if (!drafts_here && !options.fallback.empty()) {
    return InvalidArgument("--fallback ", options.fallback, ": with --place ", name,
                           " the text is written at the server, and cannot go on here; take "
                           "--place device with a --draft");
  }
  if (options.memory_bytes > 0 && options.fallback.empty()) {
    return InvalidArgument(
        "--memory: with --server there is no target here whose memory could be planned; give "
        "--fallback, or leave it out");
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
  OUTRIDER_RETURN_IF_ERROR(CheckPassWays(options));
  if (options.model.empty()) OUTRIDER_RETURN_IF_ERROR(CheckPlacement(options));
  if (options.server.empty() && !options.fallback.empty()) {
    return InvalidArgument("--fallback ", options.fallback,
                           ": there is no --server that could fail; leave it out");
  }
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

absl::StatusOr<std::unique_ptr<Draft>> Device::LoadDraft(uint32_t context, LocalTarget* target,
                                                         const LoadProgress& progress) const {
  const Draft::Limits limits = {context, options_.draft.sketch_nodes,
                                options_.conversation_count_max};
  if (!options_.draft.is_model()) {
    return std::make_unique<Draft>(limits, tokenizer_->vocabulary_size());
  }
  const Kernels& kernels = KernelsFor(options_.isa);
  std::shared_ptr<ThreadPool> pool;
  if (target != nullptr && target->needs_all_cores()) {
    pool = target->pool();
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(pool, ThreadPool::Create(DraftThreads(target)));
  }
  if (target != nullptr && target->turns() != nullptr) {
    return Draft::Load(options_.draft.model, limits, kernels, std::move(pool), *target->turns(),
                       progress);
  }
  return Draft::Load(options_.draft.model, options_.draft.engine, limits, kernels, std::move(pool),
                     progress);
}

// Not the target's own, and as many at the most.
uint32_t Device::DraftThreads(const LocalTarget* target) const {
  if (target == nullptr || !target->info().on_host_processor) return options_.threads;
  return std::min(options_.threads, std::thread::hardware_concurrency() - options_.threads);
}

// Where passes on flash begin, as nothing is known yet: rows cost little beside what is read, and
// next to nothing beside most of a model; but for rows that each bring experts to be read.
Device::Start Device::StartAt(const LocalTarget& target, const Draft& draft,
                              const Verifier& verifier) {
  constexpr uint32_t kFlashPassNodes = 15;
  constexpr uint32_t kHiddenNodes = 23;
  Start start = {.setup = {.target_is_here = true,
                           .shares_cores = target.needs_all_cores() && draft.on_host_processor()},
                 .assumed = AssumedOf(verifier),
                 .flash_meter = target.flash_meter(),
                 .target_content_hash = target.content_hash(),
                 .drafts_in_waits = target.lends_waits()};
  if (!target.reads_flash()) return start;
  const PassReads reads = target.plan()->reads();
  ControlSetup& setup = start.setup;
  setup.target_streams = target.plan()->ReadsMost();
  setup.before = Findings{
      .pass_nodes = setup.target_streams ? kHiddenNodes : NodesForReads(reads, kFlashPassNodes)};
  if (reads.expert_bytes == 0) return start;
  // A line through passes of one row and of four, as they read.
  CostModel::Assumed& assumed = start.assumed;
  assumed.experts = reads.experts;
  assumed.pass_ms = Milliseconds(target.pass_forecast());
  assumed.pass_node_ms = assumed.pass_ms * (reads.Bytes(4) / reads.Bytes(1) - 1) / 3;
  return start;
}

absl::StatusOr<SessionOptions> Device::SessionFor(const ConversationOptions& asked,
                                                  const Draft& draft, uint32_t context,
                                                  const Verifier& verifier) const {
  OUTRIDER_RETURN_IF_ERROR(Check(asked));
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
  const bool shares_processor = draft.on_host_processor() && verifier.Forecast({}).shares_processor;
  session.sketch.takes_turns = shares_processor || !options_.draft.provisional;
  return session;
}

DraftedConversation::Control Device::ControlFor(const Draft& draft, Start start,
                                                const std::string& numerics_id) const {
  ControlSetup& setup = start.setup;
  CostModel::Assumed& assumed = start.assumed;
  const PriceFile prices(options_.price_file);
  const uint64_t key = PriceKey(draft, setup.target_is_here, numerics_id);
  setup.objective = options_.draft.objective;
  if (const std::optional<Prices> known = prices.Find(key)) {
    setup.before = known->findings;
    assumed.pass_ms = known->pass_ms;
    assumed.pass_node_ms = known->row_ms;
    assumed.knows_rows = known->knows_rows;
    assumed.passes = known->passes;
    assumed.draft_ms = known->draft_ms;
    assumed.draft_node_ms = known->draft_node_ms;
  }
  DraftedConversation::Control control = {
      .controller = MakeController(options_.draft.policy, setup),
      .assumed = assumed,
      .keep = [prices, key](const Prices& paid) { prices.Keep(key, paid); },
      .flash_meter = start.flash_meter};
  if (draft.content_hash() != 0 && start.target_content_hash != 0) {
    control.keep_accepted = [prices, target = start.target_content_hash,
                             drafts = draft.content_hash()](const Accepted& accepted) {
      prices.Add(target, drafts, accepted);
    };
  }
  return control;
}

absl::StatusOr<std::unique_ptr<Conversation>> Device::Drafted(const ConversationOptions& asked,
                                                              Draft& draft, uint32_t context,
                                                              std::unique_ptr<Verifier> verifier,
                                                              const Start& start) const {
  OUTRIDER_ASSIGN_OR_RETURN(SessionOptions session, SessionFor(asked, draft, context, *verifier));
  session.sketch.drafts_in_waits = start.drafts_in_waits;
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, draft.NewDrafter(asked.sampling));
  DraftedConversation::Control control = ControlFor(draft, start, info_.numerics_id);
  return std::make_unique<DraftedConversation>(
      std::move(session),
      DraftedConversation::Parts{.tokenizer = *tokenizer_,
                                 .verifier = std::move(verifier),
                                 .drafter = std::move(drafter),
                                 .draft_vocabulary_size = draft.vocabulary_size(),
                                 .control = std::move(control),
                                 .trace = NewSessionTrace(start.setup.target_is_here)});
}

absl::StatusOr<std::unique_ptr<Conversation>> Device::DraftedWithFallback(
    const ConversationOptions& asked, Draft& draft, uint32_t context,
    std::unique_ptr<FallbackVerifier> verifier, const ControlSetup& setup,
    const LocalTarget& fallback) const {
  using Place = FallbackVerifier::Place;
  OUTRIDER_ASSIGN_OR_RETURN(SessionOptions session, SessionFor(asked, draft, context, *verifier));
  // How soon a stream is asked for again is how soon the session is where it is to go on; and what
  // may be written here is waited for.
  session.link.backoff_max = std::chrono::milliseconds(250);
  session.link.first_patience = session.link.patience;
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Drafter> drafter, draft.NewDrafter(asked.sampling));
  Start here = StartAt(fallback, draft, verifier->verifier_at(Place::kDevice));
  here.assumed.pass_ms = Milliseconds(fallback.pass_forecast());
  const Start there = {.setup = setup, .assumed = AssumedOf(verifier->verifier_at(Place::kServer))};
  DraftedConversation::Control at_server = ControlFor(draft, there, info_.numerics_id);
  DraftedConversation::Control at_device =
      ControlFor(draft, here, fallback.info().numerics_id.ToString());
  FallbackVerifier& both = *verifier;
  return std::make_unique<DraftedConversation>(
      std::move(session), DraftedConversation::Parts{
                              .tokenizer = *tokenizer_,
                              .verifier = std::move(verifier),
                              .drafter = std::move(drafter),
                              .draft_vocabulary_size = draft.vocabulary_size(),
                              .control = std::move(at_server),
                              .fallback = DraftedConversation::Fallback{both, std::move(at_device)},
                              .trace = NewSessionTrace(/*target_is_here=*/false)});
}

std::unique_ptr<SessionTrace> Device::NewSessionTrace(bool target_is_here) const {
  if (trace_ == nullptr) return nullptr;
  return std::make_unique<SessionTrace>(*trace_, target_is_here);
}

// Whatever they depend on: the machine and what of it computes, its memory, both models, whether
// the target is here. Not which server has it: addresses change, and a model is mostly served by machines alike.
uint64_t Device::PriceKey(const Draft& draft, bool target_is_here,
                          const std::string& numerics_id) const {
  std::array<char, HOST_NAME_MAX + 1> host = {};
  gethostname(host.data(), host.size() - 1);
  const std::string text = Concat(
      host.data(), "\n", Name(options_.isa), "\n", options_.threads, "\n", options_.engine, "\n",
      target_is_here ? options_.memory_bytes : 0, "\n", options_.draft.engine, "\n", target_is_here,
      "\n", numerics_id, "\n", draft.content_hash(), "\n", PolicyName(options_.draft.policy.kind),
      "\n", options_.draft.exits == "none", static_cast<int>(options_.draft.pruning),
      static_cast<int>(options_.draft.projection), options_.draft.provisional ? "" : "\nby turns");
  return HashBytes(std::as_bytes(std::span(text)), /*seed=*/0);
}

}  // namespace outrider
