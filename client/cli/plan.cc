// outrider plan: what of a device's memory would go where, and how fast a target on flash would be.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "client/cli/model_notices.h"
#include "client/cli/speculation_flags.h"
#include "client/device/device.h"
#include "client/device/price_file.h"
#include "client/planner/flash_forecast.h"
#include "client/planner/machine_probe.h"
#include "common/base/program.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

constexpr Duration kFlashTime = std::chrono::seconds(3);
constexpr Duration kKernelTime = std::chrono::milliseconds(1500);  // of each model

struct PlanFlags {
  DeviceOptions device;
  SpeculationFlags speculation;
};

void PrintLine(const std::string& what, uint64_t bytes, const std::string& why = "") {
  std::printf("  %-40s %10s%s%s\n", what.c_str(), HumanBytes(bytes).c_str(),
              why.empty() ? "" : "  ", why.c_str());
}

std::string ExpertsText(const MemoryPlan& plan) {
  const uint32_t count = plan.needs.weights.experts.count;
  if (count == 0) return "";
  return Concat("; ", plan.stream.expert_place_count, " of ", count, " experts at a time");
}

std::string PinnedText(const MemoryPlan& plan) {
  return Concat(plan.stream.pinned_layer_count, " of ", plan.needs.weights.layer_count(),
                " layers stay", plan.stream.pins_head ? ", the head, " : ", ",
                plan.stream.slot_count, " slots for the others", ExpertsText(plan));
}

std::string RowsText(const PassReads& reads) {
  if (reads.expert_bytes == 0) return "";
  return Concat(" of one row, about ", HumanBytes(static_cast<uint64_t>(reads.Bytes(4))),
                " of four: each brings experts of its own");
}

// Exits that nobody has asked for stay away where they do not fit.
uint64_t Least(MemoryNeeds needs, const DraftOptions& draft) {
  if (!draft.asks_for_exits()) needs.exits_bytes = 0;
  return LeastBytes(needs);
}

void PrintMemory(const MemoryPlan& plan, const DraftOptions& draft) {
  const MemoryNeeds& needs = plan.needs;
  std::printf("memory: %s, of which\n", HumanBytes(plan.budget_bytes).c_str());
  PrintLine("the program, tokenizers, sessions", needs.process_bytes);
  if (needs.draft_weight_bytes > 0) {
    PrintLine("the draft's weights", needs.draft_weight_bytes);
    PrintLine("its keys and values, scratch", needs.draft.kv_bytes + needs.draft.scratch_bytes);
  }
  PrintLine("the target's keys and values", needs.target.kv_bytes);
  PrintLine("its scratch", needs.target.scratch_bytes);
  if (needs.exits_bytes > 0) PrintLine("its exits", needs.exits_bytes);
  PrintLine("its weights", plan.weight_bytes, PinnedText(plan));
  PrintLine("left over", plan.budget_bytes - plan.planned_bytes);
  // Rounded up: a budget of so much is to be taken.
  std::printf("the least that works: %lluMiB\n",
              static_cast<unsigned long long>((Least(needs, draft) + (1 << 20) - 1) >> 20));
  std::printf("a pass reads: %s of flash%s\n", HumanBytes(plan.bytes_per_pass).c_str(),
              RowsText(plan.reads()).c_str());
}

// Of 512 tokens, or of as many as a context has.
void PrintPrompt(const FlashSetting& setting, uint32_t rows, uint32_t context_length) {
  const uint32_t tokens = std::min(512u, context_length);
  const uint32_t runs = (tokens + rows - 1) / rows;
  std::printf("a prompt of %u tokens: %u %s of up to %u rows, the first token after about %s s\n",
              tokens, runs, runs == 1 ? "run" : "runs", rows,
              Fixed(PromptSeconds(setting, tokens, rows), 2).c_str());
}

// What this draft has come to before, at this target. Of a target that has no record of its content hash
// nothing is known: all of it would have to be read.
absl::StatusOr<std::optional<Accepted>> AcceptedBefore(const DeviceOptions& device) {
  if (!device.draft.is_model()) return std::nullopt;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> target, ModelFile::Open(device.model));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> draft,
                            ModelFile::Open(device.draft.model));
  const std::optional<uint64_t> of_target = target->RecordedContentHash();
  if (!of_target) return std::nullopt;
  std::optional<uint64_t> of_draft = draft->RecordedContentHash();
  if (!of_draft) {
    OUTRIDER_ASSIGN_OR_RETURN(of_draft, HashContent(*draft));
  }
  return PriceFile(device.price_file).FindAccepted(*of_target, *of_draft);
}

absl::StatusOr<FlashSetting> Probe(const PlanFlags& flags, const MemoryPlan& plan) {
  const Kernels& kernels = KernelsFor(flags.device.isa);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(flags.device.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> target,
                            ModelFile::Open(flags.device.model));
  FlashSetting setting = SettingOf(plan, flags.device.threads);
  setting.pass_nodes_max = flags.device.draft.pass_nodes;
  ProgressBar bar("looking at flash and kernels", target->file_bytes());
  OUTRIDER_ASSIGN_OR_RETURN(
      const FlashSpeed flash,
      ProbeFlash(*target, kFlashTime, [&](uint64_t bytes) { bar.AdvanceTo(bytes, ""); }));
  setting.flash_bytes_per_second = flash.bytes_per_second;
  OUTRIDER_ASSIGN_OR_RETURN(
      setting.target, ProbeKernels(*target, flags.device.model, kernels, *pool, {kKernelTime}));
  if (flags.device.draft.is_model()) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> draft,
                              ModelFile::Open(flags.device.draft.model));
    OUTRIDER_ASSIGN_OR_RETURN(setting.draft, ProbeKernels(*draft, flags.device.draft.model, kernels,
                                                          *pool, {kKernelTime}));
    setting.draft_bytes = plan.needs.draft_weight_bytes;
  }
  bar.Finish();
  std::printf("this flash: %s GB/s by %s\n", Fixed(flash.bytes_per_second / 1e9, 2).c_str(),
              flash.backend.c_str());
  const double pack_seconds = setting.reads.Bytes(1) * setting.target.pack_seconds;
  if (pack_seconds >= 1e-3) {
    std::printf(
        "packing what is read: %s ms of a core for a pass; a file that `outrider convert "
        "--flash` writes needs none\n",
        Fixed(1e3 * pack_seconds, 0).c_str());
  }
  PrintPrompt(setting, plan.needs.run_rows,
              flags.device.ContextOf(target->hyperparameters().context_length));
  return setting;
}

// Drafts are right as often as the text lets them be: as often as they were, where that is known.
void PrintForecast(FlashSetting setting, const std::optional<Accepted>& accepted) {
  std::string known = "assumed";
  if (accepted) {
    const auto verdicts = static_cast<double>(accepted->verdicts);
    setting.acceptance = AcceptanceOf(static_cast<double>(accepted->tokens) / verdicts,
                                      static_cast<double>(accepted->nodes) / verdicts);
    known = Concat("measured on this machine in ", accepted->verdicts, " verdicts");
  }
  const FlashForecast forecast = Forecast(setting);
  std::printf("a pass takes: %s ms", Fixed(1e3 * forecast.alone_seconds, 0).c_str());
  if (forecast.hidden_nodes > 0) {
    std::printf(", and as long with %u drafted tokens, whose products its reads hide",
                forecast.hidden_nodes);
  }
  std::printf("\nexpected: ");
  if (forecast.nodes > 0) {
    std::printf("%s tokens/s, by %u drafted tokens a pass if %s of 100 are right (%s); ",
                Fixed(forecast.tokens_per_second, 1).c_str(), forecast.nodes,
                Fixed(100 * setting.acceptance, 0).c_str(), known.c_str());
  }
  std::printf("%s tokens/s of the target alone\n", Fixed(1 / forecast.alone_seconds, 2).c_str());
}

absl::Status Plan(PlanFlags flags) {
  OUTRIDER_ASSIGN_OR_RETURN(flags.device.draft, DraftOf(flags.speculation));
  OUTRIDER_ASSIGN_OR_RETURN(flags.device.isa, SelectIsa(std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, Device::Open(flags.device));
  TellOfModels(flags.device);
  const MemoryPlan plan = *device->plan();
  PrintMemory(plan, flags.device.draft);
  if (const std::optional<ExitsLeftOut> exits = device->exits_left_out()) {
    std::printf("exits: %s\n", exits->why.c_str());
  }
  OUTRIDER_ASSIGN_OR_RETURN(const FlashSetting setting, Probe(flags, plan));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Accepted> accepted, AcceptedBefore(flags.device));
  PrintForecast(setting, accepted);
  return absl::OkStatus();
}

}  // namespace

void AddPlanCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<PlanFlags>();
  flags->device.threads = std::max(1u, std::thread::hardware_concurrency());
  flags->device.price_file = PriceFile::DefaultPath();
  CLI::App* command = app.add_subcommand(
      "plan",
      "Say what of a memory budget would go where, and how fast a target on flash would be");
  command->footer(
      "The plan is the one that `outrider run --memory` goes by. A few seconds are spent on "
      "looking\n"
      "at this flash and these kernels.\n"
      "  outrider plan --target target.gguf --draft draft.gguf --memory 900MiB");
  command
      ->add_option("--target,--model", flags->device.model,
                   "A .gguf file, best one written by `outrider convert --flash`")
      ->required()
      ->envname("OUTRIDER_MODEL");
  command
      ->add_option("--memory", flags->device.memory_bytes,
                   "What the whole process may take, as in 900MiB")
      ->required()
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(AboveZero())
      ->envname("OUTRIDER_MEMORY");
  command
      ->add_option("--context", flags->device.context,
                   "Tokens of prompt and reply together; by default the model's, at most 4096")
      ->check(AboveZero())
      ->envname("OUTRIDER_CONTEXT");
  command
      ->add_option("--threads", flags->device.threads, "Threads; by default one for each processor")
      ->capture_default_str()
      ->envname("OUTRIDER_THREADS");
  command
      ->add_option("--price-file", flags->device.price_file,
                   "Where `outrider run` has written down how much of drafts was accepted; empty: "
                   "nowhere, and a common share is assumed")
      ->capture_default_str()
      ->envname("OUTRIDER_PRICE_FILE");
  AddSpeculationFlags(*command, flags->speculation);
  command->callback([command, flags, &chosen] {
    PassOverEnvironment(*command, /*is_target_here=*/true, flags->speculation);
    chosen = [flags] { return Plan(*flags); };
  });
}

}  // namespace outrider
