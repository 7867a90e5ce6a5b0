// outrider run: text from a model, on this machine or at a server, alone or with a draft beside it.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "client/cli/link_flags.h"
#include "client/cli/model_notices.h"
#include "client/cli/run_chat.h"
#include "client/cli/speculation_flags.h"
#include "client/cli/terminal_screen.h"
#include "client/cli/use_report.h"
#include "client/device/device.h"
#include "client/device/price_file.h"
#include "common/base/interrupt.h"
#include "common/base/process_memory.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/base/time_counts.h"
#include "common/base/units.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"

namespace outrider {
namespace {

// Where a text at a server is drafted.
const std::map<std::string, Placement>& Placements() {
  static const auto& placements =
      *new std::map<std::string, Placement>{{"device", Placement::kSplit},
                                            {"server", Placement::kServer},
                                            {"target", Placement::kTargetAlone}};
  return placements;
}

struct RunFlags {
  DeviceOptions device;
  std::string place = "device";
  bool local = false;
  SpeculationFlags speculation;
  ConversationOptions conversation;
  std::optional<std::string> prompt;
  bool chat = false;
  std::string system;
  std::optional<std::string> isa;
  bool verbose = false;
};

// Below ten, as from flash, a tenth would be a large part of it.
std::string Rate(uint64_t tokens, double seconds) {
  const double rate = seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  return Fixed(rate, rate < 10 ? 3 : 1) + " tokens/s";
}

std::string PerPass(uint64_t count, uint64_t passes) {
  return Fixed(passes > 0 ? static_cast<double>(count) / static_cast<double>(passes) : 0, 2);
}

std::string Summary(const SessionStats& session) {
  std::string text =
      Concat("passes: ", session.passes, " (", PerPass(session.tokens, session.passes),
             " tokens each of ", PerPass(session.nodes_passed, session.passes), " drafted); up ",
             HumanBytes(session.bytes_up), ", down ", HumanBytes(session.bytes_down));
  if (session.hints > 0) {
    text += Concat("; ", session.hints, " hints, ", session.hints_right, " right, ",
                   session.roots_grown_after_hint, " of use");
  }
  if (session.passes_drafted_there > 0) {
    text += Concat("; ", session.passes_drafted_there, " over the server's own draft");
  }
  if (session.attachments > 1) text += Concat("; attached ", session.attachments, " times");
  return text;
}

std::string InMs(Duration time, int digits) {
  return Fixed(std::chrono::duration<double, std::milli>(time).count(), digits);
}

// From one to the next.
void PrintTokenTimes(const TimeCounts& times) {
  if (times.count() == 0) return;
  std::fprintf(stderr, "a token took %s ms (median), %s (95 of 100), %s (all)\n",
               InMs(times.Quantile(0.5), 2).c_str(), InMs(times.Quantile(0.95), 2).c_str(),
               InMs(times.max(), 2).c_str());
}

// Of growth that was drafted before its verdict came.
void PrintAnswers(const TimeCounts& answers) {
  if (answers.count() == 0) return;
  const auto ms = [](Duration time) { return InMs(time, 3); };
  std::fprintf(stderr,
               "growth followed its verdict at once %llu times, in %s ms (median), %s (99 of 100), "
               "%s (all)\n",
               static_cast<unsigned long long>(answers.count()), ms(answers.Quantile(0.5)).c_str(),
               ms(answers.Quantile(0.99)).c_str(), ms(answers.max()).c_str());
  // A line an octave, a mark for every fiftieth of them.
  for (size_t n = TimeCounts::kOctaveMin; n <= TimeCounts::kOctaveMax; ++n) {
    const uint64_t count = answers.OfOctave(n);
    if (count == 0) continue;
    const std::string bar((50 * count + answers.count() - 1) / answers.count(), '#');
    std::fprintf(stderr, "  from %9s ms %6llu %s\n", ms(Duration(int64_t{1} << n)).c_str(),
                 static_cast<unsigned long long>(count), bar.c_str());
  }
}

void PrintSummary(const ConversationStats& stats) {
  std::string text = Concat("prompt: ", stats.prompt_tokens, " tokens");
  if (stats.computed_tokens > 0) {
    text += Concat(", ", Rate(stats.computed_tokens, stats.first_token_seconds));
  }
  text += Concat("; generated: ", stats.generated_tokens, " tokens, ",
                 Rate(stats.later_tokens, stats.later_seconds),
                 "; peak memory: ", HumanBytes(PeakResidentBytes()), "\n");
  if (stats.session) text += Concat(Summary(*stats.session), "\n");
  if (stats.moves > 0 || stats.passes_here > 0) {
    text +=
        Concat("fallback: ", stats.passes_here, " of ", stats.session ? stats.session->passes : 0,
               " passes; moved ", stats.moves, " times\n");
  }
  if (!stats.fallback_failure.ok()) {
    text += Concat("fallback: failed: ", Message(stats.fallback_failure), "\n");
  }
  if (stats.passes > 0) {
    text += Concat("passes: ", stats.passes, " at the server",
                   stats.placement == Placement::kServer ? ", over its own draft\n"
                                                         : ", of its target alone\n");
  }
  std::fputs(text.c_str(), stderr);
}

void PrintDetails(const Device& device, const DeviceOptions& options) {
  const DeviceInfo& info = device.info();
  const std::string where =
      options.server.empty() ? Concat(": numerics id ", info.numerics_id, ", kernels ",
                                      Name(options.isa), ", ", options.threads, " threads")
                             : Concat(" at ", options.server, ": numerics id ", info.numerics_id);
  std::fprintf(stderr, "%s%s, context %u\n", info.model_name.c_str(), where.c_str(),
               info.context_length);
  if (const MemoryPlan* const plan = device.plan()) {
    std::fprintf(stderr, "of %s: %u of %u layers stay%s; a pass reads %s of flash\n",
                 HumanBytes(plan->budget_bytes).c_str(), plan->stream.pinned_layer_count,
                 plan->needs.weights.layer_count(), plan->stream.pins_head ? ", and the head" : "",
                 HumanBytes(plan->bytes_per_pass).c_str());
  }
}

// That they are wrong, to everybody; else to those who want to know what runs.
void TellOfExits(const ExitsLeftOut& exits, bool verbose) {
  if (!exits.are_wrong && !verbose) return;
  std::fprintf(stderr, "outrider: %s%s\n", exits.are_wrong ? "exits are not used: " : "",
               exits.why.c_str());
}

// It takes a copy more, and a little memory that nobody has planned.
void WarnOfPageCache(const FlashUse& use) {
  if (use.backend.find("buffered") == std::string::npos) return;
  for (const std::string& refusal : use.refusals) {
    std::fprintf(stderr, "outrider: reading through the page cache: %s\n", refusal.c_str());
  }
}

// What helps where a context of so many tokens is too short: a longer one, if the model has it.
std::string LongerContext(const RunFlags& flags, const Device& device, uint32_t context) {
  uint32_t most = device.info().context_length;  // of a server
  if (flags.device.server.empty()) {
    const auto model = ModelFile::Open(flags.device.model);
    most = model.ok() ? (*model)->hyperparameters().context_length : context;
  }
  if (context >= most) return Concat("the model was made for ", most, " at most");
  return Concat("give a larger --context, of ", most, " at most");
}

absl::StatusOr<Ending> RunPrompt(const RunFlags& flags, const Device& device,
                                 Conversation& conversation, TerminalScreen& screen) {
  const Tokenizer& tokenizer = device.tokenizer();
  const std::string text =
      flags.prompt ? *flags.prompt : std::string(std::istreambuf_iterator<char>(std::cin), {});
  const std::vector<TokenId> tokens = tokenizer.Encode(text);
  if (tokens.empty()) {
    return InvalidArgument(flags.device.tokenizer_path(),
                           ": begins no text of its own, and the prompt is empty; give it a word");
  }
  if (const uint32_t context = conversation.context_length(); tokens.size() > context) {
    return InvalidArgument("the prompt of ", tokens.size(),
                           " tokens does not fit into a context of ", context,
                           "; shorten it: ", LongerContext(flags, device, context));
  }
  const absl::StatusOr<Ending> ending = conversation.Continue(tokens, /*is_reply=*/false, screen);
  screen.EndReply();
  if (ending.ok() || conversation.stats().generated_tokens > 0) screen.OnText("\n");
  return ending;
}

absl::Status Write(const RunFlags& flags, const Device& device, Conversation& conversation) {
  UseReport use;
  TerminalScreen screen(use.energy());
  OUTRIDER_ASSIGN_OR_RETURN(const Ending ending,
                            flags.chat ? RunChat(flags.device.tokenizer_path(), flags.system,
                                                 device.tokenizer(), conversation, screen)
                                       : RunPrompt(flags, device, conversation, screen));
  PrintSummary(conversation.stats());
  if (flags.verbose) {
    PrintTokenTimes(conversation.stats().token_times);
    PrintAnswers(conversation.stats().answers);
    use.Print(conversation.stats(), device.flash_use(), device.pruning_use());
  }
  if (ending != Ending::kContextFull) return absl::OkStatus();
  const uint32_t context = conversation.context_length();
  return ResourceExhausted("the context of ", context,
                           " tokens is full before the text has ended; say with --max-tokens how "
                           "much is enough: ",
                           LongerContext(flags, device, context));
}

absl::Status Run(RunFlags flags) {
  if (!flags.prompt && !flags.chat && isatty(STDIN_FILENO) == 1) {
    return InvalidArgument(
        "nothing to continue: give --prompt TEXT, --chat, or a text on standard input");
  }
  OUTRIDER_ASSIGN_OR_RETURN(flags.device.draft, DraftOf(flags.speculation));
  flags.device.placement = Placements().at(flags.place);
  OUTRIDER_ASSIGN_OR_RETURN(
      flags.device.isa,
      SelectIsa(flags.isa ? std::optional<std::string_view>(*flags.isa) : std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, Device::Open(flags.device));
  OUTRIDER_RETURN_IF_ERROR(device->Check(flags.conversation));
  TellOfModels(flags.device);
  CatchInterrupt();
  {
    LoadingBars bars;
    OUTRIDER_RETURN_IF_ERROR(device->Load(bars.progress()));
  }
  if (flags.verbose) PrintDetails(*device, flags.device);
  if (const auto exits = device->exits_left_out()) TellOfExits(*exits, flags.verbose);
  if (const std::optional<FlashUse> use = device->flash_use()) WarnOfPageCache(*use);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Conversation> conversation,
                            device->Converse(flags.conversation));
  const absl::Status written = Write(flags, *device, *conversation);
  conversation.reset();
  OUTRIDER_RETURN_IF_ERROR(device->WriteTrace());
  return written;
}

// An environment may name a server, and a command a model: who says --local means the model.
void ChooseTarget(bool is_local, DeviceOptions& device) {
  if (is_local) {
    if (device.model.empty()) device.model = device.fallback;
    device.server.clear();
    device.fallback.clear();
    if (device.model.empty()) {
      throw CLI::ValidationError("--local", "there is no target on this machine; give --target");
    }
  }
  if (device.model.empty() == device.server.empty()) {
    throw CLI::ValidationError("--model",
                               "one of --model (or --target) and --server is needed, and not both; "
                               "with --local it is the model, whatever OUTRIDER_SERVER says");
  }
}

void AddSamplingFlags(CLI::App& command, SamplingOptions& sampling) {
  command
      .add_option("--temperature", sampling.temperature,
                  "0: always the most probable token; higher: more variety")
      ->envname("OUTRIDER_TEMPERATURE");
  command.add_option("--top-k", sampling.top_k, "Only the K most probable tokens; 0: all")
      ->envname("OUTRIDER_TOP_K");
  command
      .add_option("--top-p", sampling.top_p, "Only the most probable tokens, up to this much of it")
      ->envname("OUTRIDER_TOP_P");
  command
      .add_option("--min-p", sampling.min_p,
                  "Only tokens at least this probable, relative to the most probable")
      ->envname("OUTRIDER_MIN_P");
  command
      .add_option("--repeat-penalty", sampling.repetition_penalty,
                  "Above 1: tokens of prompt and reply become less probable")
      ->envname("OUTRIDER_REPEAT_PENALTY");
  command
      .add_option("--presence-penalty", sampling.presence_penalty,
                  "Off the logit of every token of the reply")
      ->envname("OUTRIDER_PRESENCE_PENALTY");
  command
      .add_option("--frequency-penalty", sampling.frequency_penalty,
                  "Off the logit for every time the reply has the token")
      ->envname("OUTRIDER_FREQUENCY_PENALTY");
  command
      .add_option(
          "--seed", sampling.seed,
          "Of the noise that samples: the same seed, settings and prompt give the same text")
      ->envname("OUTRIDER_SEED");
}

void AddMachineFlags(CLI::App& command, RunFlags& flags) {
  command
      .add_option("--context", flags.device.context,
                  "Tokens of prompt and reply together; by default the model's, at most 4096")
      ->check(AboveZero())
      ->envname("OUTRIDER_CONTEXT");
  command
      .add_option("--kv-memory", flags.device.kv_bytes,
                  "What keys and values of the target may take, as in 900MiB; by default what the "
                  "whole context needs")
      ->envname("OUTRIDER_KV_MEMORY")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  command
      .add_option("--threads", flags.device.threads, "Threads; by default one for each processor")
      ->capture_default_str()
      ->envname("OUTRIDER_THREADS");
  command
      .add_option("--isa", flags.isa,
                  "Instruction set of the kernels (scalar, avx2, avx512, amx, dotprod, i8mm); the "
                  "text does not depend on it")
      ->envname("OUTRIDER_ISA");
  command
      .add_option(
          "--price-file", flags.device.price_file,
          "Where to write down what passes and drafts take on this machine, so that the next "
          "text begins with the best of them; empty: nowhere")
      ->capture_default_str()
      ->envname("OUTRIDER_PRICE_FILE");
  command
      .add_option("--trace", flags.device.trace_file,
                  "Where to write down what happened when (passes, drafts, messages, text), as a "
                  "trace that chrome://tracing and ui.perfetto.dev draw")
      ->envname("OUTRIDER_TRACE");
  command
      .add_flag("--verbose", flags.verbose,
                "Say what runs (numerics id, kernels, threads, context), how long growth took to "
                "follow its verdicts, and what a token took of passes, flash, disk and energy "
                "(standard error)")
      ->envname("OUTRIDER_VERBOSE");
}

}  // namespace

void AddRunCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<RunFlags>();
  flags->device.threads = std::max(1u, std::thread::hardware_concurrency());
  flags->device.price_file = PriceFile::DefaultPath();
  CLI::App* command = app.add_subcommand("run", "Generate text with a model on this machine");
  command->footer(
      "The text goes to standard output as it is written, progress and a summary to standard\n"
      "error. Without --prompt or --chat the prompt is read from standard input. With --chat "
      "every\n"
      "line of standard input is a message. Ctrl-C ends the text, a second one the program.\n"
      "  outrider run --model model.gguf --prompt \"Once upon a time\"\n"
      "  outrider run --model model.gguf --temperature 0.8 --top-p 0.95 --seed 7 < prompt.txt\n"
      "  outrider run --model model.gguf --chat --system \"Answer in one sentence.\"\n"
      "  outrider run --server host:7373 --draft draft.gguf --prompt \"Once upon a time\"\n"
      "  outrider run --server host:7373 --place target --tokenizer model.gguf --prompt \"Once\"\n"
      "  outrider run --server host:7373 --fallback copy.gguf --memory 512MiB --draft draft.gguf\n"
      "  outrider run --local --target large.gguf --draft draft.gguf --memory 512MiB\n"
      "  outrider run --model model.gguf --draft ngram --prompt \"one, two, three, one, two,\"\n"
      "With --draft a small model of the same family guesses ahead, or ngram, which says again "
      "what the\n"
      "text has said before; the target checks whole trees of its tokens at once: the text is the "
      "same,\n"
      "only sooner. A file called ngram is ./ngram.");
  CLI::Option_group* const target = command->add_option_group("Target", "One of these");
  target
      ->add_option("--model,--target", flags->device.model,
                   "A .gguf file or a Hugging Face directory")
      ->envname("OUTRIDER_MODEL");
  CLI::Option* const server =
      target
          ->add_option("--server", flags->device.server,
                       "An outrider-server, as host:port; with --draft, or a --place")
          ->envname("OUTRIDER_SERVER");
  command
      ->add_option("--fallback", flags->device.fallback,
                   "A copy of the server's model on this machine, from which the text goes on "
                   "while the server cannot be reached, and until it is back; with --memory "
                   "what of it does not fit is read from flash")
      ->needs(server)
      ->envname("OUTRIDER_FALLBACK");
  command
      ->add_flag("--local", flags->local,
                 "All on this machine, whatever --server or OUTRIDER_SERVER say: the target is "
                 "--target, or --fallback where there is none")
      ->envname("OUTRIDER_LOCAL");
  AddLinkFlags(*command, *server, flags->device.security);
  command
      ->add_option(
          "--device", flags->device.engine,
          "What computes --model: cpu, cuda (a GPU; cuda:1 is the second), torch (libtorch "
          "on this processor), or torch:cuda (on a GPU)")
      ->envname("OUTRIDER_DEVICE")
      ->check(DeviceName())
      ->capture_default_str();
  command
      ->add_option("--memory", flags->device.memory_bytes,
                   "What this process may take of memory, as in 512MiB, all of it: what of --model "
                   "or --fallback does not fit is read from flash for every pass (`outrider plan` "
                   "says how fast that is); without it they stay in memory")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->check(AboveZero())
      ->envname("OUTRIDER_MEMORY");
  command
      ->add_option(
          "--tokenizer", flags->device.tokenizer,
          "Of a target at a server: a model of its family, or its tokenizer's own file; by "
          "default the draft's")
      ->needs(server)
      ->envname("OUTRIDER_TOKENIZER");
  command
      ->add_option("--place", flags->place,
                   "Where a text at a server is drafted: on this device (with --draft), by the "
                   "server (which was started with one), or nowhere: the target writes it alone")
      ->check(CLI::IsMember(Placements()))
      ->needs(server)
      ->capture_default_str()
      ->envname("OUTRIDER_PLACE");
  AddSpeculationFlags(*command, flags->speculation);
  CLI::Option* const prompt = command->add_option("--prompt", flags->prompt, "The text to continue")
                                  ->envname("OUTRIDER_PROMPT");
  CLI::Option* const chat =
      command->add_flag("--chat", flags->chat, "Converse, by the model's own chat template")
          ->excludes(prompt)
          ->envname("OUTRIDER_CHAT");
  command->add_option("--system", flags->system, "The conversation's first message")
      ->needs(chat)
      ->envname("OUTRIDER_SYSTEM");
  command
      ->add_option("--max-tokens", flags->conversation.stops.max_tokens,
                   "The most tokens of a reply; by default until it ends (a context that is full "
                   "before that is a failure)")
      ->check(AboveZero())
      ->envname("OUTRIDER_MAX_TOKENS");
  command
      ->add_option("--stop", flags->conversation.stops.strings,
                   "A text that ends the reply, and is not printed; may be given several times")
      ->envname("OUTRIDER_STOP");
  AddSamplingFlags(*command, flags->conversation.sampling);
  AddMachineFlags(*command, *flags);
  command->callback([command, flags, &chosen] {
    ChooseTarget(flags->local, flags->device);
    const DeviceOptions& device = flags->device;
    PassOverEnvironment(*command, !device.model.empty() || !device.fallback.empty(),
                        flags->speculation);
    chosen = [flags] { return Run(*flags); };
  });
}

}  // namespace outrider
