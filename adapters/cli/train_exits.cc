// outrider-adapters train-exits: early exits for a target whose weights stay as they are.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "adapters/cli/training_flags.h"
#include "adapters/exits/exit_layers.h"
#include "adapters/exits/exits_training.h"
#include "adapters/generation/continuations.h"
#include "adapters/generation/prompts.h"
#include "adapters/text/tokenized.h"
#include "adapters/training/torch_setup.h"
#include "adapters/training/training_run.h"
#include "common/base/interrupt.h"
#include "common/base/program.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/engine/cpu_target.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/model/exits/exit_scorer.h"
#include "common/text/fingerprint.h"
#include "common/text/tokenizer_source.h"

namespace outrider {
namespace {

constexpr uint32_t kRowLength = 256;
constexpr uint32_t kPromptLength = 32;
constexpr uint32_t kTextsSideBySide = 16;
constexpr size_t kHeldOut = 20;  // of the texts, one in so many

struct Flags {
  std::vector<std::string> texts;
  std::string target;
  std::string draft;
  std::vector<uint32_t> layers;
  bool every_layer = false;
  uint32_t rank = 64;
  uint64_t tokens = 500'000;
  double temperature = 0.8;
  uint32_t frequent_count = 256;
  int64_t candidate_count = 8;
  TrainingFlags training;
};

// The target's file, and what is known before its weights are read.
struct OpenedTarget {
  std::unique_ptr<ModelFile> file;
  ModelSpec spec;
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<uint32_t> exit_layers;
  uint32_t row_length;

  std::optional<TokenId> begin() const {
    return tokenizer->spec().add_bos ? tokenizer->spec().bos : std::nullopt;
  }
};

absl::StatusOr<std::vector<uint32_t>> ExitLayers(const Flags& flags, uint32_t layer_count) {
  if (flags.every_layer) return EveryExitLayer(layer_count);
  if (flags.layers.empty()) return DefaultExitLayers(layer_count);
  OUTRIDER_RETURN_IF_ERROR(CheckExitLayers(flags.layers, layer_count));
  return flags.layers;
}

absl::StatusOr<OpenedTarget> Open(const Flags& flags) {
  OpenedTarget target;
  OUTRIDER_ASSIGN_OR_RETURN(target.file, ModelFile::Open(flags.target));
  OUTRIDER_ASSIGN_OR_RETURN(target.spec, ModelSpec::From(*target.file, flags.target));
  OUTRIDER_ASSIGN_OR_RETURN(target.tokenizer, OpenTokenizer(flags.target));
  absl::StatusOr<std::vector<uint32_t>> layers = ExitLayers(flags, target.spec.layer_count());
  if (!layers.ok()) return Annotate(layers.status(), flags.target);
  target.exit_layers = *std::move(layers);
  target.row_length = std::min(kRowLength, target.spec.context_length);
  if (flags.tokens < kHeldOut * target.row_length) {
    return InvalidArgument("--tokens ", flags.tokens, " is too little to learn from and to hold ",
                           "some of it out; ask for ", kHeldOut * target.row_length, " or more");
  }
  if (flags.rank > target.spec.embedding_length) {
    return InvalidArgument("--rank ", flags.rank, " is more than the embedding of ", flags.target,
                           " is long, ", target.spec.embedding_length);
  }
  return target;
}

// Of the same tokens as the target, or nothing.
absl::StatusOr<std::optional<TorchTransformer>> OpenDraft(const Flags& flags,
                                                          OpenedTarget& target) {
  if (flags.draft.empty()) return std::nullopt;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.draft));
  if (tokenizer->fingerprint() != target.tokenizer->fingerprint()) {
    return InvalidArgument(flags.draft, ": its tokens (",
                           FingerprintDigits(tokenizer->fingerprint()), ") are not those of ",
                           flags.target, " (", FingerprintDigits(target.tokenizer->fingerprint()),
                           "); a draft needs the target's tokenizer");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(flags.draft));
  OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer draft,
                            TorchTransformer::Load(*file, flags.draft, TrainingDevice()));
  target.row_length = std::min(target.row_length, draft.spec().context_length);
  return draft;
}

std::vector<TokenId> EndsOf(const TokenizerSpec& spec) {
  std::vector<TokenId> ends;
  for (const std::optional<TokenId>& end : {spec.eos, spec.eot, spec.eom}) {
    if (end) ends.push_back(*end);
  }
  return ends;
}

// Prompts cut from the texts, each with what the target says after it, without the begin token.
absl::StatusOr<std::vector<std::vector<TokenId>>> WriteTexts(const Flags& flags,
                                                             const OpenedTarget& target,
                                                             ThreadPool& pool) {
  OUTRIDER_ASSIGN_OR_RETURN(const auto documents, Tokenized(flags.texts, *target.tokenizer));
  const uint32_t prompt_length = std::min(kPromptLength, target.row_length / 4);
  const uint32_t begin_count = target.begin() ? 1 : 0;
  ContinuationOptions options;
  options.sampling = {.temperature = flags.temperature, .seed = flags.training.seed};
  options.token_count = target.row_length - prompt_length - begin_count;
  options.ends = EndsOf(target.tokenizer->spec());
  const auto prompts = CutPrompts(documents, {.count = flags.tokens / target.row_length + 1,
                                              .length = prompt_length,
                                              .begin = target.begin(),
                                              .seed = flags.training.seed});
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<EngineTarget> writer,
      LoadCpuTarget(*target.file, flags.target,
                    {.context_length = target.row_length, .sequence_count_max = kTextsSideBySide},
                    KernelsFor(BestIsa()), pool, nullptr));
  ProgressBar bar("the target writes", prompts.size() * options.token_count, ProgressUnit::kTokens);
  auto texts = ContinueTexts(*writer, prompts, options, [&bar](uint32_t written) {
    bar.Advance(written, "");
    return !Interrupted();
  });
  bar.Finish();
  OUTRIDER_RETURN_IF_ERROR(texts.status());
  for (std::vector<TokenId>& text : *texts) text.erase(text.begin(), text.begin() + begin_count);
  return texts;
}

// The tokens that occur most often, rising.
std::vector<TokenId> FrequentTokens(std::span<const std::vector<TokenId>> texts,
                                    uint32_t vocabulary_size, uint32_t count) {
  std::vector<uint64_t> occurrences(vocabulary_size);
  for (const std::vector<TokenId>& text : texts) {
    for (const TokenId token : text) ++occurrences[static_cast<size_t>(token)];
  }
  std::vector<TokenId> tokens;
  for (uint32_t token = 0; token < vocabulary_size; ++token) {
    if (occurrences[token] > 0) tokens.push_back(static_cast<TokenId>(token));
  }
  const auto more_frequent = [&](TokenId a, TokenId b) {
    return occurrences[static_cast<size_t>(a)] > occurrences[static_cast<size_t>(b)];
  };
  std::ranges::stable_sort(tokens, more_frequent);
  tokens.resize(std::min<size_t>(tokens.size(), count));
  std::ranges::sort(tokens);
  return tokens;
}

TokenRows Rows(std::span<const std::vector<TokenId>> texts, const OpenedTarget& target,
               uint64_t seed) {
  return TokenRows(texts, target.begin(), std::nullopt, target.row_length, seed);
}

// Everything a result depends on.
std::vector<std::string> Asked(const Flags& flags, const StateRecorder& recorder,
                               std::span<const uint32_t> layers, const TorchTransformer* draft,
                               std::span<const std::vector<TokenId>> texts,
                               const TrainerOptions& options) {
  std::string after;
  for (const uint32_t layer : layers) after += Concat(" ", layer);
  return {Concat("target: ", recorder.content_hash()),
          Concat("draft: ", draft == nullptr ? 0 : draft->content_hash()),
          Concat("texts: ", HashOf(texts)),
          Concat("exits after:", after),
          Concat("rank: ", flags.rank),
          Concat("candidates: ", flags.candidate_count),
          Concat("steps: ", options.schedule.steps),
          Concat("batch: ", options.rows_per_step),
          Concat("learning rate: ", options.schedule.peak),
          Concat("seed: ", flags.training.seed)};
}

void PrintScores(const std::vector<ExitScore>& before, const std::vector<ExitScore>& after,
                 uint32_t layer_count) {
  std::printf("exit after layer   depth   match rate (untrained)   nats from the target\n");
  for (size_t i = 0; i < after.size(); ++i) {
    const double depth = (after[i].layer + 1.0) / layer_count;
    std::printf("%16u   %4.0f %%   %8.1f %% (%5.1f %%)   %8.3f (%.3f)\n", after[i].layer,
                100 * depth, 100 * after[i].match_rate, 100 * before[i].match_rate,
                after[i].divergence, before[i].divergence);
  }
}

absl::Status Write(const Flags& flags, const OpenedTarget& target, const StateRecorder& recorder,
                   const ExitAdapters& adapters, std::span<const std::vector<TokenId>> texts) {
  TrainedExits exits;
  exits.target = DescribeForExits(target.spec, recorder.content_hash());
  exits.exits = adapters.Trained();
  exits.frequent_tokens = FrequentTokens(texts, target.spec.vocabulary_size, flags.frequent_count);
  exits.type = TypeOf(flags.training);
  OUTRIDER_RETURN_IF_ERROR(WriteExits(exits, flags.training.out));
  RemoveCheckpoint(flags.training.out);
  return absl::OkStatus();
}

absl::Status TrainExits(const Flags& flags) {
  OUTRIDER_RETURN_IF_ERROR(PrepareToTrain(flags.training));
  OUTRIDER_ASSIGN_OR_RETURN(OpenedTarget target, Open(flags));
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<TorchTransformer> draft, OpenDraft(flags, target));
  const TorchTransformer* const proposer = draft ? &*draft : nullptr;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(ThreadsOf(flags.training)));
  CatchInterrupt();
  OUTRIDER_ASSIGN_OR_RETURN(const auto texts, WriteTexts(flags, target, *pool));
  const size_t held_out = std::max<size_t>(1, texts.size() / kHeldOut);
  const auto learned = std::span(texts).first(texts.size() - held_out);
  TokenRows rows = Rows(learned, target, flags.training.seed);
  TokenRows others = Rows(std::span(texts).last(held_out), target, 0);

  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<StateRecorder> recorder,
                            StateRecorder::Load(*target.file, flags.target, target.exit_layers,
                                                KernelsFor(BestIsa()), *pool, nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(const FrozenHead head,
                            FrozenHead::Load(*target.file, flags.target, TrainingDevice()));
  ExitAdapters adapters(target.spec, target.exit_layers, flags.rank, flags.training.seed,
                        TrainingDevice());
  ExitTeacher teacher(*recorder, adapters.exit_count(), proposer, flags.candidate_count);
  const std::vector<ExitScore> before = ScoreExits(adapters, head, teacher, others);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> trainers,
                            ThreadPool::Create(ThreadsOf(flags.training)));
  const TrainerOptions options = OptionsOf(flags.training, rows, *trainers);
  OUTRIDER_RETURN_IF_ERROR(
      Train({flags.training.out,
             Asked(flags, *recorder, target.exit_layers, proposer, texts, options), options},
            adapters.parameters(), adapters.device(), rows, &others,
            ExitsLoss(adapters, head, teacher, {})));
  OUTRIDER_RETURN_IF_ERROR(Write(flags, target, *recorder, adapters, learned));
  PrintScores(before, ScoreExits(adapters, head, teacher, others), target.spec.layer_count());
  return absl::OkStatus();
}

}  // namespace

void AddTrainExitsCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("train-exits", "Train early exits for a target");
  command->footer(
      "The target writes on from pieces of the texts, and exits learn to say early what it says in "
      "the end. Its weights stay as they are; hidden states come from the same core that serves "
      "them. The exits are of no other target, not even of a quantised copy of this one.\n"
      "Train, then calibrate-exits on other text, then evaluate-exits on yet other text.\n"
      "  outrider-adapters train-exits books.txt.gz --target target.gguf --draft draft.gguf \\\n"
      "      --out target.exits.gguf");
  command->add_option("texts", flags->texts, "Text files, plain or gzip'd, to cut prompts from")
      ->required();
  command->add_option("--target", flags->target, "GGUF file or Hugging Face directory")
      ->required()
      ->envname("OUTRIDER_TARGET");
  command
      ->add_option("--draft", flags->draft,
                   "A draft model of the same tokens, whose proposals exits learn to rank; the "
                   "target's own likeliest tokens when absent")
      ->envname("OUTRIDER_DRAFT");
  CLI::Option* const layers =
      command
          ->add_option("--layers", flags->layers,
                       "After which layers exits stand, counted from 0; up to five between 50 % "
                       "and 90 % of the depth when absent")
          ->delimiter(',')
          ->envname("OUTRIDER_LAYERS");
  command->add_flag("--every-layer", flags->every_layer, "After every layer, as in the FSD paper")
      ->excludes(layers);
  command->add_option("--rank", flags->rank, "Width of the adapters' bottleneck")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_RANK");
  command->add_option("--tokens", flags->tokens, "How much text the target writes, in tokens")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_TOKENS");
  command->add_option("--temperature", flags->temperature, "At which it does; 0: greedily")
      ->check(CLI::Range(0.0, SamplingOptions::kTemperatureMax))
      ->capture_default_str()
      ->envname("OUTRIDER_TEMPERATURE");
  command
      ->add_option("--frequent", flags->frequent_count,
                   "How many of the most frequent tokens exits score besides a pass's own")
      ->capture_default_str()
      ->envname("OUTRIDER_FREQUENT");
  AddTrainingFlags(*command, flags->training);
  command->callback([flags, &chosen] { chosen = [flags] { return TrainExits(*flags); }; });
}

}  // namespace outrider
