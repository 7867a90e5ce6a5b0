// record_acceptance: what a draft would have proposed along a text of its target.
#include <string>

#include "CLI/CLI.hpp"
#include "bench/recorder/record_acceptance.h"
#include "common/base/atomic_file.h"
#include "common/base/program.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr const char* kFooter =
    "The target writes the text alone; then the draft is asked at each of its places, with the "
    "same\n"
    "noise, and the target's exits, if a file of them is given. What comes out holds tokens' "
    "numbers and confidences, and no text. Models that were\n"
    "inflated say what they said before, so a recording of small ones holds for them.\n\n"
    "  record_acceptance --target target.gguf --draft draft.gguf --prompt \"Once upon a time\" \\\n"
    "    --tokens 200 --temperature 0.8 --out once.trace\n"
    "  simulate run --trace once.trace --rtt 60 --policy auto";

absl::Status Record(const RecordingAsked& asked, const std::string& out) {
  OUTRIDER_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(out));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string trace, RecordAcceptance(asked));
  OUTRIDER_RETURN_IF_ERROR(file.Append(trace));
  return file.Commit();
}

int Main(int argc, char** argv) {
  CLI::App app("Records how right a draft is along a text of its target, for the simulator",
               "record_acceptance");
  app.footer(kFooter);
  RecordingAsked asked;
  std::string out;
  app.add_option("--target", asked.target, "The model that writes")->required();
  app.add_option("--draft", asked.draft, "The model that would have drafted")->required();
  app.add_option("--exits", asked.exits, "The target's exits, asked at every place too");
  app.add_option("--prompt", asked.prompt, "What the text goes on from")->required();
  app.add_option("--tokens", asked.tokens, "Of the text, at the most")->capture_default_str();
  app.add_option("--temperature", asked.sampling.temperature, "As of outrider run")
      ->capture_default_str();
  app.add_option("--seed", asked.sampling.seed, "As of outrider run")->capture_default_str();
  app.add_option("--threads", asked.threads, "Threads that compute")->capture_default_str();
  app.add_option("--out", out, "The trace to write")->required();
  return RunProgram(app, argc, argv, [&] { return Record(asked, out); });
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  return outrider::Main(argc, argv);
}
