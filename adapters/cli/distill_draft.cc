// outrider-adapters distill-draft: a target's own words to a small model that foresees them.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "adapters/cli/new_model.h"
#include "adapters/cli/training_flags.h"
#include "adapters/generation/continuations.h"
#include "adapters/generation/prompts.h"
#include "adapters/generation/texts_file.h"
#include "adapters/text/tokenized.h"
#include "adapters/training/distillation.h"
#include "adapters/training/torch_setup.h"
#include "adapters/training/training_run.h"
#include "common/base/interrupt.h"
#include "common/base/program.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/base/units.h"
#include "common/engine/cpu_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/text/tokenizer_source.h"
#include "common/torch/torch_transformer.h"

namespace outrider {
namespace {

using Texts = std::vector<std::vector<TokenId>>;

constexpr uint32_t kTextsSideBySide = 16;
constexpr uint32_t kHeldOutShare = 20;  // of the texts, one in so many

struct Flags {
  std::vector<std::string> texts;
  std::string target;
  std::string init;
  PromptOptions prompts = {.count = 2000};
  ContinuationOptions continuations = {.sampling = {.temperature = 0.8}};
  ShapeFlags shape = {.embedding_length = 128, .layer_count = 3, .head_count = 2};
  TrainingFlags training;
};

// What the target writes after prompts from the text, by our own core.
absl::StatusOr<Texts> Write(const Flags& flags, const ModelFile& file,
                            std::span<const std::vector<TokenId>> prompts) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(ThreadsOf(flags.training)));
  const EngineOptions options = {.sequence_count_max = kTextsSideBySide, .node_count_max = 1};
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<EngineTarget> target,
      LoadCpuTarget(file, flags.target, options, KernelsFor(BestIsa()), *pool, nullptr));
  CatchInterrupt();
  ProgressBar bar("writing", uint64_t{prompts.size()} * flags.continuations.token_count,
                  ProgressUnit::kTokens);
  absl::StatusOr<Texts> texts =
      ContinueTexts(*target, prompts, flags.continuations, [&bar](uint32_t written) {
        bar.Advance(written, "");
        return !Interrupted();
      });
  bar.Finish();
  return texts;
}

// The texts of an earlier run that asked for the same, or new ones.
absl::StatusOr<Texts> WrittenTexts(const Flags& flags, const ModelFile& file,
                                   const TorchTransformer& target, const Tokenizer& tokenizer) {
  OUTRIDER_ASSIGN_OR_RETURN(const Texts documents, Tokenized(flags.texts, tokenizer));
  PromptOptions prompt_options = flags.prompts;
  prompt_options.begin = tokenizer.spec().bos;
  prompt_options.seed = flags.training.seed;
  const Texts prompts = CutPrompts(documents, prompt_options);
  const SamplingOptions& sampling = flags.continuations.sampling;
  const std::vector<std::string> asked = {
      Concat("target: ", target.content_hash()), Concat("prompts: ", HashOf(prompts)),
      Concat("tokens: ", flags.continuations.token_count),
      Concat("temperature: ", sampling.temperature), Concat("seed: ", sampling.seed)};
  const std::string path = flags.training.out + ".texts";
  OUTRIDER_ASSIGN_OR_RETURN(std::optional<Texts> kept, ReadTexts(path, asked));
  if (kept) return *std::move(kept);
  OUTRIDER_ASSIGN_OR_RETURN(Texts texts, Write(flags, file, prompts));
  OUTRIDER_RETURN_IF_ERROR(WriteTexts(path, asked, texts));
  return texts;
}

absl::Status CheckVocabulary(const Flags& flags, const Tokenizer& target_tokenizer) {
  if (flags.init.empty()) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer, OpenTokenizer(flags.init));
  if (tokenizer->fingerprint() == target_tokenizer.fingerprint()) return absl::OkStatus();
  return InvalidArgument(flags.init, ": has another vocabulary than ", flags.target,
                         "; a draft needs its target's tokens");
}

absl::Status DistillDraft(Flags flags) {
  OUTRIDER_RETURN_IF_ERROR(PrepareToTrain(flags.training));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                            OpenTokenizer(flags.target));
  OUTRIDER_RETURN_IF_ERROR(CheckVocabulary(flags, *tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(flags.target));
  OUTRIDER_ASSIGN_OR_RETURN(const TorchTransformer target,
                            TorchTransformer::Load(*file, flags.target, TrainingDevice()));
  OUTRIDER_ASSIGN_OR_RETURN(
      NewModel draft,
      BeginModel(flags.init, flags.shape, target.spec().vocabulary_size, flags.training));
  if (draft.transformer.spec().context_length > target.spec().context_length) {
    return InvalidArgument("a draft with a context of ", draft.transformer.spec().context_length,
                           " tokens cannot learn from a target with one of ",
                           target.spec().context_length, "; choose a smaller --context");
  }
  if (tokenizer->spec().eos) flags.continuations.ends = {*tokenizer->spec().eos};
  OUTRIDER_ASSIGN_OR_RETURN(const Texts texts, WrittenTexts(flags, *file, target, *tokenizer));

  // Prompts begin as texts do, so nothing goes in front of them.
  const size_t held_out_count = std::max<size_t>(1, texts.size() / kHeldOutShare);
  const size_t row_length = draft.transformer.spec().context_length;
  const auto pack = [&](std::span<const std::vector<TokenId>> part) {
    return TokenRows(part, std::nullopt, tokenizer->spec().eos, row_length, flags.training.seed);
  };
  TokenRows held_out = pack(std::span(texts).first(held_out_count));
  TokenRows rows = pack(std::span(texts).subspan(held_out_count));
  if (rows.row_count() == 0) return InvalidArgument("--prompts must be 2 at least");

  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(ThreadsOf(flags.training)));
  TrainingRun run{flags.training.out, {}, OptionsOf(flags.training, rows, *pool)};
  run.asked = AskedOf(draft, run.options, flags.training);
  run.asked.push_back(Concat("target: ", target.content_hash()));
  run.asked.push_back(Concat("texts: ", HashOf(texts)));
  const double written_at = flags.continuations.sampling.temperature;
  const double temperature = written_at == 0 ? 1 : written_at;
  run.asked.push_back(Concat("temperature: ", temperature));
  TellPlan(draft, run.options, rows);
  OUTRIDER_RETURN_IF_ERROR(Train(run, draft.transformer.parameters(), draft.transformer.device(),
                                 rows, &held_out,
                                 DistillationLoss(draft.transformer, target, temperature)));
  OUTRIDER_ASSIGN_OR_RETURN(const double agreement,
                            FirstChoiceAgreement(draft.transformer, target, held_out));
  OUTRIDER_RETURN_IF_ERROR(FinishModel(draft, tokenizer->spec(), flags.training));
  std::error_code ignored;
  std::filesystem::remove(flags.training.out + ".texts", ignored);
  std::printf("draft and target have the same first choice for %s %% of %zu held-out tokens\n",
              Fixed(100 * agreement, 1).c_str(), held_out.target_count());
  return absl::OkStatus();
}

}  // namespace

void AddDistillDraftCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("distill-draft", "Train a draft on what its target says");
  command->footer(
      "The target goes on from pieces of the text, by Outrider's own core, and the draft learns "
      "the "
      "target's distribution at every token of that. One text in twenty is held out. What the "
      "target wrote is kept in OUT.texts until the draft is done; a run that ends early goes on "
      "from there and from OUT.checkpoint.\n"
      "  outrider-adapters distill-draft books.txt.gz --target target.gguf --prompts 4000 \\\n"
      "      --embedding 128 --layers 3 --heads 2 --steps 2000 --out draft.gguf");
  command->add_option("texts", flags->texts, "Text files to take prompts from")->required();
  command->add_option("--target", flags->target, "The model to foresee")
      ->required()
      ->envname("OUTRIDER_TARGET");
  command->add_option("--prompts", flags->prompts.count, "Texts that the target writes")
      ->check(CLI::Range(2, 10'000'000))
      ->capture_default_str()
      ->envname("OUTRIDER_PROMPTS");
  command->add_option("--prompt-tokens", flags->prompts.length, "Tokens of text it goes on from")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_PROMPT_TOKENS");
  command
      ->add_option("--continuation-tokens", flags->continuations.token_count,
                   "Tokens it writes after each")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_CONTINUATION_TOKENS");
  command
      ->add_option(
          "--temperature", flags->continuations.sampling.temperature,
          "How freely it writes, and what the draft foresees it at; 0 is greedy, foreseen at 1")
      ->check(CLI::Range(0.0, SamplingOptions::kTemperatureMax))
      ->capture_default_str()
      ->envname("OUTRIDER_TEMPERATURE");
  CLI::Option* const init =
      command
          ->add_option("--init", flags->init,
                       "A draft whose weights and shape to begin with, as train-lm makes one")
          ->envname("OUTRIDER_INIT");
  for (CLI::Option* const shape : AddShapeFlags(*command, flags->shape)) init->excludes(shape);
  AddTrainingFlags(*command, flags->training);
  command->callback([flags, &chosen] { chosen = [flags] { return DistillDraft(*flags); }; });
}

}  // namespace outrider
