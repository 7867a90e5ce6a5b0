#include "adapters/cli/new_model.h"

#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "adapters/training/model_writer.h"
#include "adapters/training/torch_setup.h"
#include "adapters/training/training_run.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/formats/models/model_file.h"

namespace outrider {

uint64_t NewModel::parameter_count() const {
  uint64_t count = 0;
  for (const NamedParameter& parameter : transformer.parameters()) {
    count += static_cast<uint64_t>(parameter.value.numel());
  }
  return count;
}

absl::StatusOr<NewModel> BeginModel(const std::string& init, const ShapeFlags& shape,
                                    uint32_t vocabulary_size, const TrainingFlags& training) {
  if (!init.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(init));
    OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer model,
                              TorchTransformer::Load(*file, init, TrainingDevice()));
    return NewModel{file->hyperparameters(), std::move(model)};
  }
  const std::string name = std::filesystem::path(training.out).stem().string();
  OUTRIDER_ASSIGN_OR_RETURN(Hyperparameters numbers, LlamaOf(shape, vocabulary_size, name));
  OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer model,
                            TorchTransformer::Initialise(numbers, training.seed, TrainingDevice()));
  return NewModel{std::move(numbers), std::move(model)};
}

std::vector<std::string> AskedOf(const NewModel& model, const TrainerOptions& options,
                                 const TrainingFlags& training) {
  const ModelSpec& spec = model.transformer.spec();
  const LayerSpec& layer = spec.layers.front();  // as all of a new model's are
  return {Concat("weights to begin with: ", model.transformer.content_hash()),
          Concat("embedding: ", spec.embedding_length),
          Concat("layers: ", spec.layer_count()),
          Concat("heads: ", layer.attention()->head_count),
          Concat("key and value heads: ", layer.attention()->kv_head_count),
          Concat("feed-forward: ", layer.feed_forward.length),
          Concat("context: ", spec.context_length),
          Concat("steps: ", options.schedule.steps),
          Concat("batch: ", options.rows_per_step),
          Concat("learning rate: ", options.schedule.peak),
          Concat("seed: ", training.seed)};
}

void TellPlan(const NewModel& model, const TrainerOptions& options, const TokenRows& rows) {
  std::fprintf(stderr, "%s parameters, %zu tokens of text, %llu steps of %llu tokens\n",
               HumanCount(model.parameter_count()).c_str(), rows.target_count(),
               static_cast<unsigned long long>(options.schedule.steps),
               static_cast<unsigned long long>(options.rows_per_step * rows.row_length()));
}

absl::Status FinishModel(const NewModel& model, const TokenizerSpec& tokenizer,
                         const TrainingFlags& training) {
  OUTRIDER_RETURN_IF_ERROR(WriteModel(training.out, model.hyperparameters, tokenizer,
                                      model.transformer.parameters(), TypeOf(training)));
  RemoveCheckpoint(training.out);
  std::printf("%s: %s\n", training.out.c_str(),
              HumanBytes(std::filesystem::file_size(training.out)).c_str());
  return absl::OkStatus();
}

}  // namespace outrider
