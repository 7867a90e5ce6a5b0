// outrider-adapters train-lm: text to a small language model.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "adapters/cli/training_flags.h"
#include "adapters/training/model_writer.h"
#include "adapters/training/training_run.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/formats/models/model_file.h"
#include "common/text/tokenizer_source.h"
#include "common/torch/torch_transformer.h"

namespace outrider {
namespace {

struct Flags {
  std::vector<std::string> texts;
  std::vector<std::string> validation;
  std::string tokenizer;
  std::string init;
  ShapeFlags shape;
  TrainingFlags training;
};

// A model at its first step, from nothing or from a file.
struct Beginning {
  Hyperparameters hyperparameters;
  TorchTransformer model;
};

absl::StatusOr<Beginning> Begin(const Flags& flags, const Tokenizer& tokenizer) {
  if (!flags.init.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(flags.init));
    OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer model,
                              TorchTransformer::Load(*file, flags.init, at::kCPU));
    return Beginning{file->hyperparameters(), std::move(model)};
  }
  const auto vocabulary_size = static_cast<uint32_t>(tokenizer.vocabulary_size());
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters hyperparameters,
                            LlamaOf(flags.shape, vocabulary_size,
                                    std::filesystem::path(flags.training.out).stem().string()));
  OUTRIDER_ASSIGN_OR_RETURN(
      TorchTransformer model,
      TorchTransformer::Initialise(hyperparameters, flags.training.seed, at::kCPU));
  return Beginning{std::move(hyperparameters), std::move(model)};
}

uint64_t ParameterCount(const TorchTransformer& model) {
  uint64_t count = 0;
  for (const NamedParameter& parameter : model.parameters()) {
    count += static_cast<uint64_t>(parameter.value.numel());
  }
  return count;
}

// Everything a result depends on.
std::vector<std::string> Asked(const Flags& flags, const TrainerOptions& options,
                               const Beginning& beginning, const Tokenizer& tokenizer,
                               uint64_t text_hash, uint64_t validation_hash) {
  const ModelSpec& spec = beginning.model.spec();
  return {Concat("text: ", text_hash),
          Concat("validation text: ", validation_hash),
          Concat("tokenizer: ", tokenizer.fingerprint()),
          Concat("weights to begin with: ", beginning.model.content_hash()),
          Concat("embedding: ", spec.embedding_length),
          Concat("layers: ", spec.layer_count()),
          Concat("heads: ", spec.head_count_max()),
          Concat("key and value heads: ", spec.kv_head_count_max()),
          Concat("feed-forward: ", spec.feed_forward_length),
          Concat("context: ", spec.context_length),
          Concat("steps: ", options.schedule.steps),
          Concat("batch: ", options.rows_per_step),
          Concat("learning rate: ", options.schedule.peak),
          Concat("seed: ", flags.training.seed)};
}

absl::Status TrainLm(const Flags& flags) {
  OUTRIDER_RETURN_IF_ERROR(PrepareToTrain(flags.training));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                            OpenTokenizer(flags.init.empty() ? flags.tokenizer : flags.init));
  OUTRIDER_ASSIGN_OR_RETURN(Beginning beginning, Begin(flags, *tokenizer));
  const size_t row_length = beginning.model.spec().context_length;
  OUTRIDER_ASSIGN_OR_RETURN(const auto documents, Tokenized(flags.texts, *tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const auto validation_documents,
                            Tokenized(flags.validation, *tokenizer));
  TokenRows rows = Packed(documents, *tokenizer, row_length, flags.training.seed);
  TokenRows validation = Packed(validation_documents, *tokenizer, row_length, 0);
  TrainingRun run{flags.training.out, {}, OptionsOf(flags.training, rows)};
  run.asked = Asked(flags, run.options, beginning, *tokenizer, HashOf(documents),
                    HashOf(validation_documents));
  std::fprintf(stderr, "%s parameters, %zu tokens of text, %llu steps of %llu tokens\n",
               HumanCount(ParameterCount(beginning.model)).c_str(), rows.target_count(),
               static_cast<unsigned long long>(run.options.schedule.steps),
               static_cast<unsigned long long>(run.options.rows_per_step * row_length));
  OUTRIDER_RETURN_IF_ERROR(Train(run, beginning.model.parameters(), beginning.model.device(), rows,
                                 flags.validation.empty() ? nullptr : &validation,
                                 LanguageLoss(beginning.model)));
  OUTRIDER_RETURN_IF_ERROR(WriteModel(flags.training.out, beginning.hyperparameters,
                                      tokenizer->spec(), beginning.model.parameters(),
                                      TypeOf(flags.training)));
  RemoveCheckpoint(flags.training.out);
  std::printf("%s: %s\n", flags.training.out.c_str(),
              HumanBytes(std::filesystem::file_size(flags.training.out)).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddTrainLmCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("train-lm", "Train a small Llama from text");
  command->footer(
      "A run that ends early (Ctrl-C, a power cut) is saved in OUT.checkpoint; the same command "
      "goes "
      "on from there, and on a CPU gives the same bits as one that never stopped. Documents are "
      "packed into rows of the context's length and never see each other. A file named twice is "
      "read twice as often.\n"
      "  outrider-adapters train-lm books.txt.gz --validation held-out.txt.gz --tokenizer "
      "tokenizer.gguf \\\n"
      "      --embedding 320 --layers 8 --heads 5 --steps 2000 --out target.gguf");
  command->add_option("texts", flags->texts, "Text files, plain or gzip'd")->required();
  command
      ->add_option("--validation", flags->validation,
                   "Text that is not trained on, to measure the loss of")
      ->envname("OUTRIDER_VALIDATION");
  CLI::Option* const tokenizer = command
                                     ->add_option("--tokenizer", flags->tokenizer,
                                                  "Any model's, or what train-tokenizer wrote")
                                     ->envname("OUTRIDER_TOKENIZER");
  CLI::Option* const init =
      command
          ->add_option("--init", flags->init,
                       "A model whose weights, shape and tokenizer to begin with")
          ->excludes(tokenizer)
          ->envname("OUTRIDER_INIT");
  for (CLI::Option* const shape : AddShapeFlags(*command, flags->shape)) init->excludes(shape);
  AddTrainingFlags(*command, flags->training);
  command->callback([flags, &chosen] {
    if (flags->tokenizer.empty() && flags->init.empty()) {
      throw CLI::RequiredError("--tokenizer, or --init,");
    }
    chosen = [flags] { return TrainLm(*flags); };
  });
}

}  // namespace outrider
