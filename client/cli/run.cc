// outrider run: text from a model, on this machine or at a server, alone or with a draft beside it.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "client/cli/generator.h"
#include "client/cli/run_chat.h"
#include "client/cli/speculation_flags.h"
#include "client/cli/speculative_generator.h"
#include "client/cli/target_generator.h"
#include "client/verifier/local_verifier.h"
#include "client/verifier/remote_verifier.h"
#include "common/base/interrupt.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/model/cpu_target.h"
#include "common/model/model_spec.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"
#include "common/tokens/stop_conditions.h"

namespace outrider {
namespace {

constexpr uint32_t kDefaultContext = 4096;

struct RunFlags {
  std::string model;  // empty: the target is at the server
  std::string server;
  std::string tokenizer;  // of a target at a server; empty: the draft's
  SpeculationFlags speculation;
  std::optional<std::string> prompt;
  bool chat = false;
  std::string system;
  SamplingOptions sampling;
  std::optional<uint32_t> max_tokens;
  std::vector<std::string> stop;
  std::optional<uint32_t> context;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
  std::optional<std::string> isa;
  bool verbose = false;
};

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// What the kernel has counted at most.
std::string PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    constexpr std::string_view kPeak = "VmHWM:";
    if (line.starts_with(kPeak)) return HumanBytes(std::stoull(line.substr(kPeak.size())) * 1024);
  }
  return "unknown";
}

std::string Rate(uint64_t tokens, double seconds) {
  return Fixed(seconds > 0 ? static_cast<double>(tokens) / seconds : 0, 1) + " tokens/s";
}

void PrintSummary(const Generator& generator) {
  const GenerationTimes& times = generator.times();
  std::string text = Concat("prompt: ", times.prompt_tokens, " tokens");
  if (times.computed_tokens > 0) {
    text += Concat(", ", Rate(times.computed_tokens, times.prompt_seconds));
  }
  text += Concat("; generated: ", times.generated_tokens, " tokens, ",
                 Rate(times.generated_tokens, times.generation_seconds),
                 "; peak memory: ", PeakMemory(), "\n");
  if (const std::string details = generator.Details(); !details.empty()) {
    text += Concat(details, "\n");
  }
  std::fputs(text.c_str(), stderr);
}

void PrintDetails(const TargetInfo& info, Isa isa, const RunFlags& flags) {
  std::fprintf(stderr, "%s: numerics id %s, kernels %s, %u threads, context %u\n",
               info.model_name.c_str(), info.numerics_id.ToString().c_str(),
               std::string(Name(isa)).c_str(), flags.threads, info.context_length);
}

absl::StatusOr<std::unique_ptr<CpuTarget>> LoadTarget(const ModelFile& model, const RunFlags& flags,
                                                      Isa isa, uint32_t node_count_max,
                                                      ThreadPool& pool) {
  CpuTargetOptions options;
  const uint32_t trained = model.hyperparameters().context_length;
  options.context_length = flags.context.value_or(std::min(trained, kDefaultContext));
  options.node_count_max = node_count_max;
  std::optional<ProgressBar> bar;
  uint64_t reported = 0;
  const auto progress = [&](uint64_t done, uint64_t total, std::string_view tensor) {
    if (!bar) bar.emplace("loading", total);
    bar->Advance(done - reported, tensor);
    reported = done;
  };
  absl::StatusOr<std::unique_ptr<CpuTarget>> target =
      CpuTarget::Load(model, flags.model, options, KernelsFor(isa), pool, progress);
  if (bar) bar->Finish();
  return target;
}

// A sentence before a model is loaded for nothing.
absl::Status CheckInput(const RunFlags& flags) {
  if (!flags.prompt && !flags.chat && isatty(STDIN_FILENO) == 1) {
    return InvalidArgument(
        "nothing to continue: give --prompt TEXT, --chat, or a text on standard input");
  }
  if (!flags.server.empty() && flags.tokenizer.empty() && !flags.speculation.draft_is_model()) {
    return InvalidArgument("--draft ", flags.speculation.draft,
                           ": brings no tokenizer, and a server does not hand out its own; give "
                           "--tokenizer, a model of the same family or its tokenizer's file");
  }
  return CheckSpeculation(flags.speculation);
}

// Whose tokenizer is used: a server tells its own only by fingerprint.
const std::string& TokenizerPath(const RunFlags& flags) {
  if (!flags.model.empty()) return flags.model;
  return flags.tokenizer.empty() ? flags.speculation.draft : flags.tokenizer;
}

absl::Status RunPrompt(const RunFlags& flags, const Tokenizer& tokenizer, Generator& generator) {
  const std::string text =
      flags.prompt ? *flags.prompt : std::string(std::istreambuf_iterator<char>(std::cin), {});
  const std::vector<TokenId> tokens = tokenizer.Encode(text);
  if (tokens.empty()) {
    return InvalidArgument(TokenizerPath(flags),
                           ": begins no text of its own, and the prompt is empty; give it a word");
  }
  const absl::Status status = generator.Continue(tokens, /*is_reply=*/false, Print);
  if (status.ok() || generator.times().generated_tokens > 0) Print("\n");
  return status;
}

absl::Status Write(const RunFlags& flags, const Tokenizer& tokenizer, Generator& generator) {
  OUTRIDER_RETURN_IF_ERROR(
      flags.chat ? RunChat(TokenizerPath(flags), flags.system, tokenizer, generator, Print)
                 : RunPrompt(flags, tokenizer, generator));
  PrintSummary(generator);
  if (!generator.context_is_full()) return absl::OkStatus();
  return ResourceExhausted("the context of ", generator.context_length(),
                           " tokens is full before the text has ended; give a larger --context, or "
                           "say with --max-tokens how much is enough");
}

StopOptions StopsOf(const RunFlags& flags) {
  return {.strings = flags.stop, .max_tokens = flags.max_tokens};
}

absl::Status RunAlone(const RunFlags& flags, const Tokenizer& tokenizer, Target& target) {
  OUTRIDER_ASSIGN_OR_RETURN(const StopConditions stops,
                            StopConditions::Create(StopsOf(flags), tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(
      const Chooser chooser,
      Chooser::Create(flags.sampling, static_cast<int32_t>(target.info().vocabulary_size)));
  TargetGenerator generator(target, chooser, stops);
  OUTRIDER_RETURN_IF_ERROR(generator.Open());
  return Write(flags, tokenizer, generator);
}

absl::StatusOr<std::unique_ptr<Draft>> LoadDraft(const RunFlags& flags, Isa isa,
                                                 const Tokenizer& tokenizer, uint32_t context,
                                                 ThreadPool& pool) {
  if (!flags.speculation.draft_is_model()) return Draft::OfText(tokenizer, context);
  return Draft::Load(flags.speculation, flags.sampling, context, KernelsFor(isa), pool);
}

// With a draft beside the verifier's target.
absl::Status RunSession(const RunFlags& flags, Isa isa, const Tokenizer& tokenizer,
                        uint32_t context, uint32_t draft_threads, Verifier& verifier) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(draft_threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Draft> draft,
                            LoadDraft(flags, isa, tokenizer, context, *pool));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<TreePolicy> policy,
                            MakePolicy(flags.speculation));
  SessionOptions options;
  options.sampling = flags.sampling;
  options.stops = StopsOf(flags);
  options.length_max = context;
  options.tokenizer_fingerprint = FingerprintDigits(tokenizer.fingerprint());
  SetSession(flags.speculation, options);
  SpeculativeGenerator generator(
      options, {tokenizer, draft->drafter(), draft->vocabulary_size(), *policy, verifier});
  return Write(flags, tokenizer, generator);
}

absl::Status RunAtServer(const RunFlags& flags, Isa isa) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<RemoteVerifier> verifier,
                            RemoteVerifier::Connect(flags.server));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                            OpenTokenizer(TokenizerPath(flags)));
  OUTRIDER_RETURN_IF_ERROR(flags.sampling.Validate(tokenizer->vocabulary_size()));
  if (!flags.tokenizer.empty()) {
    OUTRIDER_RETURN_IF_ERROR(CheckFamily(flags.speculation, *tokenizer));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const v1::DescribeResponse server, verifier->Describe());
  if (flags.context.value_or(0) > server.context_length()) {
    return InvalidArgument("--context ", *flags.context, " is more than the ",
                           server.context_length(), " that the verifier at ", flags.server,
                           " has; ask for that at most");
  }
  if (flags.verbose) {
    std::fprintf(stderr, "%s at %s: numerics id %s, context %u\n", server.model_name().c_str(),
                 flags.server.c_str(), server.numerics_id().c_str(), server.context_length());
  }
  CatchInterrupt();
  const uint32_t context =
      flags.context.value_or(std::min(server.context_length(), kDefaultContext));
  const uint32_t draft_threads = flags.speculation.draft_is_model() ? flags.threads : 1;
  return RunSession(flags, isa, *tokenizer, context, draft_threads, *verifier);
}

absl::Status RunHere(const RunFlags& flags, Isa isa) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> model, ModelFile::Open(flags.model));
  OUTRIDER_RETURN_IF_ERROR(ModelSpec::From(*model, flags.model).status());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.model));
  OUTRIDER_RETURN_IF_ERROR(flags.sampling.Validate(tokenizer->vocabulary_size()));
  // Before a model is loaded for nothing.
  OUTRIDER_RETURN_IF_ERROR(StopConditions::Create(StopsOf(flags), *tokenizer).status());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(flags.threads));
  CatchInterrupt();
  const bool drafts = flags.speculation.drafts();
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<CpuTarget> target,
      LoadTarget(*model, flags, isa, drafts ? flags.speculation.pass_nodes : 0, *pool));
  model.reset();  // all of it is in the target's memory now
  if (flags.verbose) PrintDetails(target->info(), isa, flags);
  if (!drafts) return RunAlone(flags, *tokenizer, *target);

  OUTRIDER_RETURN_IF_ERROR(CheckFamily(flags.speculation, *tokenizer));
  LocalVerifier verifier(*target, *tokenizer, flags.speculation.sketch_nodes);
  // The draft works while the target does: it has a processor of its own at most.
  return RunSession(flags, isa, *tokenizer, target->info().context_length, /*draft_threads=*/1,
                    verifier);
}

absl::Status Run(const RunFlags& flags) {
  OUTRIDER_RETURN_IF_ERROR(CheckInput(flags));
  OUTRIDER_ASSIGN_OR_RETURN(
      const Isa isa,
      SelectIsa(flags.isa ? std::optional<std::string_view>(*flags.isa) : std::nullopt));
  return flags.model.empty() ? RunAtServer(flags, isa) : RunHere(flags, isa);
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
      .add_option("--context", flags.context,
                  "Tokens of prompt and reply together; by default the model's, at most 4096")
      ->check(CLI::PositiveNumber)
      ->envname("OUTRIDER_CONTEXT");
  command.add_option("--threads", flags.threads, "Threads; by default one for each processor")
      ->capture_default_str()
      ->envname("OUTRIDER_THREADS");
  command
      .add_option("--isa", flags.isa,
                  "Instruction set of the kernels (scalar, avx2, avx512, amx, dotprod, i8mm); the "
                  "text does not depend on it")
      ->envname("OUTRIDER_ISA");
  command
      .add_flag("--verbose", flags.verbose,
                "Say what runs: numerics id, kernels, threads, context (standard error)")
      ->envname("OUTRIDER_VERBOSE");
}

}  // namespace

void AddRunCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<RunFlags>();
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
      "  outrider run --model model.gguf --draft ngram --prompt \"one, two, three, one, two,\"\n"
      "With --draft a small model of the same family guesses ahead, or ngram, which says again "
      "what the\n"
      "text has said before; the target checks whole trees of its tokens at once: the text is the "
      "same,\n"
      "only sooner. A file called ngram is ./ngram.");
  CLI::Option_group* const target = command->add_option_group("Target", "One of these");
  target->add_option("--model", flags->model, "A .gguf file or a Hugging Face directory")
      ->envname("OUTRIDER_MODEL");
  CLI::Option* const server =
      target
          ->add_option("--server", flags->server, "An outrider-server, as host:port; needs --draft")
          ->envname("OUTRIDER_SERVER");
  target->require_option(1);
  command
      ->add_option(
          "--tokenizer", flags->tokenizer,
          "Of a target at a server: a model of its family, or its tokenizer's own file; by "
          "default the draft's")
      ->needs(server)
      ->envname("OUTRIDER_TOKENIZER");
  AddSpeculationFlags(*command, flags->speculation, *server);
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
      ->add_option("--max-tokens", flags->max_tokens,
                   "The most tokens of a reply; by default until it ends (a context that is full "
                   "before that is a failure)")
      ->check(CLI::PositiveNumber)
      ->envname("OUTRIDER_MAX_TOKENS");
  command
      ->add_option("--stop", flags->stop,
                   "A text that ends the reply, and is not printed; may be given several times")
      ->envname("OUTRIDER_STOP");
  AddSamplingFlags(*command, flags->sampling);
  AddMachineFlags(*command, *flags);
  command->callback([flags, &chosen] { chosen = [flags] { return Run(*flags); }; });
}

}  // namespace outrider
