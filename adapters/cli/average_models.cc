// outrider-adapters average-models: one model of several that began as one.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/averaging/model_mean.h"
#include "adapters/cli/command.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/formats/models/model_file.h"

namespace outrider {
namespace {

struct Flags {
  std::vector<std::string> models;
  std::string out;
};

absl::Status AverageModels(const Flags& flags) {
  std::vector<std::unique_ptr<ModelFile>> files;
  std::vector<NamedModel> models;
  for (const std::string& path : flags.models) {
    std::error_code ignored;
    if (std::filesystem::equivalent(path, flags.out, ignored)) {
      return InvalidArgument(flags.out, ": is one of the models; choose another --out");
    }
    OUTRIDER_ASSIGN_OR_RETURN(files.emplace_back(), ModelFile::Open(path));
    models.push_back({path, files.back().get()});
  }
  ProgressBar bar("averaging", files[0]->file_bytes());
  OUTRIDER_RETURN_IF_ERROR(
      WriteMean(models, flags.out,
                [&bar](uint64_t bytes, std::string_view tensor) { bar.Advance(bytes, tensor); }));
  bar.Finish();
  std::printf("%s: %s\n", flags.out.c_str(),
              HumanBytes(std::filesystem::file_size(flags.out)).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddAverageModelsCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("average-models", "Take the mean of models that began as one");
  command->footer(
      "A model that goes on learning from little text, read often, gets it by heart. The mean of "
      "what it was and what it became keeps most of what was learned and less of what was "
      "memorised: it often has the lower loss on unseen text, and a draft foresees it better. A "
      "model that is named twice counts twice.\n"
      "  outrider-adapters train-lm books.txt.gz --tokenizer tokenizer.gguf --out begun.gguf\n"
      "  outrider-adapters train-lm stories.txt.gz --init begun.gguf --out taught.gguf\n"
      "  outrider-adapters average-models begun.gguf taught.gguf taught.gguf --out target.gguf");
  command->add_option("models", flags->models, "Models of one shape, in f32, f16 or bf16")
      ->required()
      ->expected(2, 1000);
  command->add_option("--out", flags->out, "Where to write the mean, a GGUF file")
      ->required()
      ->envname("OUTRIDER_OUT");
  command->callback([flags, &chosen] { chosen = [flags] { return AverageModels(*flags); }; });
}

}  // namespace outrider
