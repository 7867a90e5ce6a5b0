// outrider convert: any model to one GGUF file.
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "common/base/interrupt.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/formats/models/convert.h"
#include "common/formats/models/model_file.h"

namespace outrider {
namespace {

struct ConvertFlags {
  std::string model;
  std::string out;
  std::string type;
  bool flash = false;
};

// What a file is, by whatever name and through whatever link.
struct FileIdentity {
  dev_t device;
  ino_t number;
  bool operator==(const FileIdentity&) const = default;
};

std::optional<FileIdentity> IdentityOf(const std::filesystem::path& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

// Everything that is read of a model: its file or shards, or all that lies in its directory.
std::vector<std::string> FilesOf(const std::string& path, const ModelFile& model) {
  std::vector<std::string> files = {path};
  for (uint32_t i = 0; i < model.file_count(); ++i) files.push_back(model.file_path(i));
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path, ignored)) {
    files.push_back(entry.path().string());
  }
  return files;
}

// Writing over what one is reading from would destroy it half way through.
absl::Status CheckOutput(const ConvertFlags& flags, const ModelFile& model) {
  const std::optional<FileIdentity> out = IdentityOf(flags.out);
  if (!out) return absl::OkStatus();
  for (const std::string& file : FilesOf(flags.model, model)) {
    if (IdentityOf(file) != out) continue;
    return InvalidArgument(flags.out, ": is ", file == flags.out ? "" : file + ", ",
                           "of the model to be converted; choose another --out");
  }
  return absl::OkStatus();
}

absl::Status RunConvert(const ConvertFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.model));
  OUTRIDER_RETURN_IF_ERROR(CheckOutput(flags, *model));
  for (const std::string& notice : model->Notices()) {
    std::fprintf(stderr, "outrider: %s\n", notice.c_str());
  }
  ConvertOptions options;
  if (!flags.type.empty()) options.type = TensorTypeFromName(flags.type);
  options.flash = flags.flash;
  options.thread_count = std::max(1u, std::thread::hardware_concurrency());

  CatchInterrupt();
  ProgressBar bar("converting", ConvertedBytes(*model, options));
  OUTRIDER_RETURN_IF_ERROR(
      Convert(*model, flags.out, options,
              [&bar](uint64_t bytes, std::string_view tensor) { bar.Advance(bytes, tensor); }));
  bar.Finish();
  std::printf("%s: %s in %zu tensors (was %s)\n", flags.out.c_str(),
              HumanBytes(std::filesystem::file_size(flags.out)).c_str(), model->tensors().size(),
              HumanBytes(model->file_bytes()).c_str());
  return absl::OkStatus();
}

}  // namespace

void AddConvertCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<ConvertFlags>();
  CLI::App* command =
      app.add_subcommand("convert", "Write a model as one GGUF file, quantised if wanted");
  command->footer(
      "The output appears under its name when it is complete; an interrupted run leaves nothing.\n"
      "The quantised types are mixes as llama.cpp makes them (q4_k is its Q4_K_M, q5_k its "
      "Q5_K_M): "
      "norms stay f32, the output matrix is q6_k.\n"
      "  outrider convert ./Qwen2.5-0.5B-Instruct --out qwen.gguf --type q8_0\n"
      "  outrider convert qwen.gguf --out qwen-flash.gguf --type q4_k --flash");
  command->add_option("model", flags->model, "A .gguf file or a Hugging Face directory")
      ->required();
  command->add_option("--out", flags->out, "Where to write the GGUF file")
      ->required()
      ->envname("OUTRIDER_OUT");
  command
      ->add_option(
          "--type", flags->type,
          "f32, f16, bf16, q8_0, q6_k, q5_k, q4_k, q4_0 or iq4_xs; without it tensors keep "
          "their types")
      ->check(
          CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q6_k", "q5_k", "q4_k", "q4_0", "iq4_xs"},
                        CLI::ignore_case))
      ->envname("OUTRIDER_TYPE");
  command
      ->add_flag("--flash", flags->flash,
                 "Lay the weights out for streaming from flash, as the kernels read them and on "
                 "pages; other "
                 "programs refuse such a file, so keep the one it is made from for them")
      ->envname("OUTRIDER_FLASH");
  command->callback([flags, &chosen] { chosen = [flags] { return RunConvert(*flags); }; });
}

}  // namespace outrider
