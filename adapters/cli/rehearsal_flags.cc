#include "adapters/cli/rehearsal_flags.h"

#include <utility>

#include "CLI/CLI.hpp"
#include "adapters/generation/prompts.h"
#include "adapters/text/tokenized.h"
#include "common/base/interrupt.h"
#include "common/base/program.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kPromptTokens = 48;
// A prompt for so many tokens of text: with more, replies would begin alike.
constexpr size_t kTextTokensPerPrompt = 64;

absl::StatusOr<std::vector<std::vector<TokenId>>> ReadPrompts(const RehearsalFlags& flags,
                                                              const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(const auto documents, Tokenized(flags.texts, tokenizer));
  size_t token_count = 0;
  for (const std::vector<TokenId>& document : documents) token_count += document.size();
  return CutPrompts(documents, {.count = token_count / kTextTokensPerPrompt,
                                .length = kPromptTokens,
                                .begin = tokenizer.spec().bos});
}

absl::StatusOr<GuessLog> Replies(const RehearsalFlags& flags, Rehearsal& rehearsal,
                                 std::span<const std::vector<TokenId>> prompts,
                                 const SamplingOptions& sampling, size_t pass_count_min) {
  OUTRIDER_ASSIGN_OR_RETURN(GuessLog log, rehearsal.Replies(prompts, sampling, flags.passes));
  if (log.pass_count() >= pass_count_min) return log;
  return InvalidArgument(flags.texts[0], flags.texts.size() > 1 ? " and the others" : "",
                         ": too little text: ", prompts.size(), " replies to it took ",
                         log.pass_count(), sampling.greedy() ? " passes" : " sampled passes",
                         ", and ", pass_count_min, " are needed; give more of it");
}

}  // namespace

absl::StatusOr<Rehearsed> Rehearse(const RehearsalFlags& flags, size_t pass_count_min) {
  if (flags.passes < pass_count_min) {
    return InvalidArgument("--passes ", flags.passes, ": at least ", pass_count_min, " are needed");
  }
  const SamplingOptions sampling = {.temperature = flags.temperature, .seed = 1};
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Rehearsal> rehearsal,
                            Rehearsal::Open(flags.files, flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::vector<TokenId>> prompts,
                            ReadPrompts(flags, rehearsal->tokenizer()));
  CatchInterrupt();
  OUTRIDER_ASSIGN_OR_RETURN(GuessLog greedy,
                            Replies(flags, *rehearsal, prompts, {}, pass_count_min));
  OUTRIDER_ASSIGN_OR_RETURN(GuessLog sampled,
                            Replies(flags, *rehearsal, prompts, sampling, pass_count_min));
  return Rehearsed{std::move(rehearsal), std::move(greedy), std::move(sampled)};
}

void AddRehearsalFlags(CLI::App& command, RehearsalFlags& flags) {
  command.add_option("texts", flags.texts, "Text files, plain or gzip'd")->required();
  command.add_option("--target", flags.files.target, "The model that the exits were trained for")
      ->required()
      ->envname("OUTRIDER_TARGET");
  command
      .add_option("--draft", flags.files.draft,
                  "A small model of its family, to propose what passes check")
      ->required()
      ->envname("OUTRIDER_DRAFT");
  command.add_option("--exits", flags.files.exits, "What train-exits has written")
      ->required()
      ->envname("OUTRIDER_EXITS");
  command.add_option("--passes", flags.passes, "Greedy passes, and as many sampled ones")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_PASSES");
  command.add_option("--temperature", flags.temperature, "Of the sampled text")
      ->check(CLI::Range(SamplingOptions::kTemperatureMin, SamplingOptions::kTemperatureMax))
      ->capture_default_str()
      ->envname("OUTRIDER_TEMPERATURE");
  command.add_option("--threads", flags.threads, "Threads; by default one for each processor")
      ->check(CLI::Range(1u, ThreadPool::kThreadsMax))
      ->capture_default_str()
      ->envname("OUTRIDER_THREADS");
}

}  // namespace outrider
