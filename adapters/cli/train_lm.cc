// outrider-adapters train-lm: text to a small language model.
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/cli/command.h"
#include "adapters/cli/new_model.h"
#include "adapters/cli/training_flags.h"
#include "adapters/text/tokenized.h"
#include "adapters/training/training_run.h"
#include "common/base/status.h"
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

absl::Status TrainLm(const Flags& flags) {
  OUTRIDER_RETURN_IF_ERROR(PrepareToTrain(flags.training));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                            OpenTokenizer(flags.init.empty() ? flags.tokenizer : flags.init));
  OUTRIDER_ASSIGN_OR_RETURN(
      NewModel model,
      BeginModel(flags.init, flags.shape, static_cast<uint32_t>(tokenizer->vocabulary_size()),
                 flags.training));
  TorchTransformer& transformer = model.transformer;
  OUTRIDER_ASSIGN_OR_RETURN(const auto documents, Tokenized(flags.texts, *tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(const auto held_out, Tokenized(flags.validation, *tokenizer));
  const size_t row_length = transformer.spec().context_length;
  TokenRows rows = Packed(documents, *tokenizer, row_length, flags.training.seed);
  TokenRows validation = Packed(held_out, *tokenizer, row_length, 0);

  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(ThreadsOf(flags.training)));
  TrainingRun run{flags.training.out, {}, OptionsOf(flags.training, rows, *pool)};
  run.asked = AskedOf(model, run.options, flags.training);
  run.asked.push_back(Concat("tokenizer: ", tokenizer->fingerprint()));
  run.asked.push_back(Concat("text: ", HashOf(documents)));
  run.asked.push_back(Concat("validation text: ", HashOf(held_out)));
  TellPlan(model, run.options, rows);
  OUTRIDER_RETURN_IF_ERROR(Train(run, transformer.parameters(), transformer.device(), rows,
                                 held_out.empty() ? nullptr : &validation,
                                 LanguageLoss(transformer)));
  return FinishModel(model, tokenizer->spec(), flags.training);
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
