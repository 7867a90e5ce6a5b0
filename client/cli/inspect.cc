// outrider inspect: what a model is, before anything is loaded.
#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "client/cli/command.h"
#include "client/cli/model_summary.h"
#include "common/base/status.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

struct InspectFlags {
  std::string model;
  bool json = false;
};

absl::Status Inspect(const InspectFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.model));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSummary summary, Summarize(*model, flags.model));
  const std::string text =
      flags.json
          ? ToJson(summary).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"
          : ToTable(summary);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return absl::OkStatus();
}

}  // namespace

void AddInspectCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app.add_subcommand(
      "inspect",
      "Say what a model is: shape, sizes by type and layer, tokenizer, estimated memory");
  command->footer(
      "Only metadata is read, so this is instant for a file of any size.\n"
      "  outrider inspect qwen2.5-0.5b-q4_k_m.gguf\n"
      "  outrider inspect ./Llama-3.2-1B --json | jq .memory");
  command->add_option("model", flags->model, "A .gguf file or a Hugging Face directory")
      ->required();
  command->add_flag("--json", flags->json, "Print JSON instead of a table")
      ->envname("OUTRIDER_JSON");
  command->callback([flags, &chosen] { chosen = [flags] { return Inspect(*flags); }; });
}

}  // namespace outrider
