// outrider inspect: what a model is, before anything is loaded.
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "client/cli/model_summary.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/formats/models/exits_file.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

struct InspectFlags {
  std::string model;
  bool weights = false;
  bool json = false;
};

// As ASCII, since a terminal may obey other bytes of a file's.
std::string Dump(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) + "\n";
}

void Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void Print(const InspectFlags& flags, const ModelSummary& summary) {
  Print(flags.json ? Dump(ToJson(summary)) : ToTable(summary));
}

absl::Status Inspect(const InspectFlags& flags) {
  // Exits are no model, but lie beside models under names like theirs.
  if (const auto exits = ReadExits(flags.model); exits.ok()) {
    if (flags.weights) {
      return InvalidArgument(flags.model,
                             ": holds exits of a model; --weights reads those of a model itself");
    }
    Print(flags.json ? Dump(ToJson(*exits, flags.model)) : ToTable(*exits, flags.model));
    return absl::OkStatus();
  }
  const absl::StatusOr<std::unique_ptr<ModelFile>> opened = ModelFile::Open(flags.model);
  // What is sound but cannot be run is described as far as it can be.
  if (absl::IsUnimplemented(opened.status()) && !flags.weights) {
    OUTRIDER_ASSIGN_OR_RETURN(const ModelSummary summary,
                              SummarizeRefused(flags.model, opened.status()));
    Print(flags, summary);
    return absl::OkStatus();
  }
  if (!opened.ok()) return opened.status();
  const ModelFile& model = **opened;
  ModelSummary summary = Summarize(model, flags.model);
  if (flags.weights) {
    ProgressBar bar("reading", summary.memory.weight_bytes);
    OUTRIDER_ASSIGN_OR_RETURN(
        summary.unsound,
        FindUnsoundTensors(model, flags.model, [&bar](uint64_t done, std::string_view tensor) {
          bar.AdvanceTo(done, tensor);
        }));
    bar.Finish();
  }
  Print(flags, summary);
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Say what a model is: shape, sizes by type and layer, tokenizer, memory; and whether it runs "
      "here, how fast, and with which drafts and exits of its folder");
  command->footer(
      "Only metadata is read, so this takes a second for a file of any size, but with --weights. A "
      "file of exits is described too.\n"
      "  outrider inspect qwen2.5-0.5b-q4_k_m.gguf\n"
      "  outrider inspect ./Llama-3.2-1B --json | jq .memory");
  command->add_option("model", flags->model, "A .gguf file or a Hugging Face directory")
      ->required();
  command
      ->add_flag("--weights", flags->weights,
                 "Also read all weights, and name the tensors in which some are no numbers")
      ->envname("OUTRIDER_WEIGHTS");
  command->add_flag("--json", flags->json, "Print JSON instead of a table")
      ->envname("OUTRIDER_JSON");
  command->callback([flags, &chosen] { chosen = [flags] { return Inspect(*flags); }; });
}

}  // namespace outrider
