// outrider-adapters evaluate-draft: how many tokens of a draft its target accepts.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "adapters/agreement/agreement.h"
#include "adapters/cli/command.h"
#include "adapters/generation/continuations.h"
#include "adapters/generation/prompts.h"
#include "adapters/text/tokenized.h"
#include "common/base/atomic_file.h"
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
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"
#include "common/speculation/drafting/lm_drafter.h"
#include "common/text/tokenizer_source.h"
#include "common/tokens/chooser.h"

namespace outrider {
namespace {

using Texts = std::vector<std::vector<TokenId>>;

constexpr uint32_t kTextsSideBySide = 16;
constexpr std::array<uint32_t, 3> kChains = {2, 4, 8};
// A text that says more than this again goes round in circles.
constexpr double kRepetitionMax = 0.2;

struct Flags {
  std::vector<std::string> texts;
  std::string target;
  std::string draft;
  std::string csv;
  PromptOptions prompts = {.count = 200, .length = 32};
  uint32_t reply_tokens = 96;
  double temperature = 0.8;
  uint64_t seed = 1;
  uint32_t threads = std::max(1u, std::thread::hardware_concurrency());
};

// A target and its draft, loaded.
struct Family {
  const Kernels& kernels = KernelsFor(BestIsa());
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<EngineTarget> target;
  std::unique_ptr<CpuEngine> draft;
};

absl::StatusOr<std::unique_ptr<Family>> Open(const Flags& flags) {
  auto family = std::make_unique<Family>();
  OUTRIDER_ASSIGN_OR_RETURN(family->tokenizer, OpenTokenizer(flags.target));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> others, OpenTokenizer(flags.draft));
  if (others->fingerprint() != family->tokenizer->fingerprint()) {
    return InvalidArgument(flags.draft, ": has another vocabulary than ", flags.target,
                           "; a draft needs its target's tokens");
  }
  OUTRIDER_ASSIGN_OR_RETURN(family->pool, ThreadPool::Create(flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.target));
  OUTRIDER_ASSIGN_OR_RETURN(
      family->target, LoadCpuTarget(*model, flags.target,
                                    {.sequence_count_max = kTextsSideBySide, .node_count_max = 1},
                                    family->kernels, *family->pool, nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> draft, ModelFile::Open(flags.draft));
  OUTRIDER_ASSIGN_OR_RETURN(family->draft, LoadCpuEngine(*draft, flags.draft, {}, family->kernels,
                                                         *family->pool, nullptr));
  return family;
}

absl::StatusOr<Texts> Write(const Flags& flags, Family& family,
                            std::span<const Texts::value_type> prompts,
                            const SamplingOptions& sampling) {
  ContinuationOptions options = {.sampling = sampling, .token_count = flags.reply_tokens};
  if (family.tokenizer->spec().eos) options.ends = {*family.tokenizer->spec().eos};
  ProgressBar bar(sampling.greedy() ? "writing greedily" : "writing sampled text",
                  uint64_t{prompts.size()} * flags.reply_tokens, ProgressUnit::kTokens);
  absl::StatusOr<Texts> texts =
      ContinueTexts(*family.target, prompts, options, [&bar](uint32_t written) {
        bar.Advance(written, "");
        return !Interrupted();
      });
  bar.Finish();
  return texts;
}

// What a draft that chooses by `sampling` would have said. Text i is sample i.
absl::StatusOr<std::vector<Agreement>> Foresee(Family& family, const Texts& texts,
                                               std::span<const Texts::value_type> prompts,
                                               SamplingOptions sampling) {
  const TargetInfo& info = family.target->info();
  const auto vocabulary_size = static_cast<int32_t>(info.vocabulary_size);
  std::vector<Agreement> agreements;
  ProgressBar bar("drafting", texts.size(), ProgressUnit::kPasses);
  for (size_t i = 0; i < texts.size(); ++i) {
    if (Interrupted()) return absl::CancelledError("stopped by Ctrl-C");
    sampling.sample = static_cast<uint32_t>(i);
    OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create(sampling, vocabulary_size));
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LmDrafter> drafter,
                              LmDrafter::Create(*family.draft, chooser));
    OUTRIDER_ASSIGN_OR_RETURN(agreements.emplace_back(),
                              Compare(*drafter, vocabulary_size, texts[i], prompts[i].size()));
    bar.Advance(1, "");
  }
  bar.Finish();
  return agreements;
}

// Of the texts that do not go round in circles.
std::vector<Agreement> WithoutLoops(const std::vector<Agreement>& agreements, const Texts& texts,
                                    std::span<const Texts::value_type> prompts) {
  std::vector<Agreement> kept;
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto reply = std::span(texts[i]).subspan(prompts[i].size());
    if (Repetition(reply) < kRepetitionMax) kept.push_back(agreements[i]);
  }
  return kept;
}

// The report, a line at a time: on the screen and as CSV.
class Report {
 public:
  Report() {
    std::printf("%-34s %6s %8s %8s", "", "texts", "tokens", "agreed");
    for (const uint32_t chain : kChains) std::printf("  of %u", chain);
    std::printf("\n");
    for (const uint32_t chain : kChains) csv_ += Concat(",accepted_of_", chain);
    csv_ += '\n';
  }

  void Add(const std::string& name, const std::vector<Agreement>& agreements) {
    size_t tokens = 0;
    for (const Agreement& one : agreements) tokens += one.size();
    const double rate = FirstChoiceRate(agreements);
    std::printf("%-34s %6zu %8zu %6s %%", name.c_str(), agreements.size(), tokens,
                Fixed(100 * rate, 1).c_str());
    csv_ += Concat('"', name, "\",", agreements.size(), ',', tokens, ',', rate);
    for (const uint32_t chain : kChains) {
      const double accepted = MeanAccepted(agreements, chain);
      std::printf("  %s", Fixed(accepted, 2).c_str());
      csv_ += Concat(',', accepted);
    }
    std::printf("\n");
    csv_ += '\n';
  }

  absl::Status WriteCsv(const std::string& path) const {
    return path.empty() ? absl::OkStatus() : WriteAtomically(path, csv_);
  }

 private:
  std::string csv_ = "text,texts,tokens,agreed";
};

absl::Status EvaluateDraft(Flags flags) {
  if (!flags.csv.empty()) OUTRIDER_RETURN_IF_ERROR(AtomicFile::Create(flags.csv).status());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Family> family, Open(flags));
  OUTRIDER_ASSIGN_OR_RETURN(const Texts documents, Tokenized(flags.texts, *family->tokenizer));
  flags.prompts.begin = family->tokenizer->spec().bos;
  flags.prompts.seed = flags.seed;
  const Texts prompts = CutPrompts(documents, flags.prompts);
  const SamplingOptions sampled = {.temperature = flags.temperature, .seed = flags.seed};
  SamplingOptions own_noise = sampled;
  own_noise.seed = ~flags.seed;
  CatchInterrupt();

  OUTRIDER_ASSIGN_OR_RETURN(const Texts greedy_texts, Write(flags, *family, prompts, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const Texts sampled_texts, Write(flags, *family, prompts, sampled));
  OUTRIDER_ASSIGN_OR_RETURN(const auto greedy, Foresee(*family, greedy_texts, prompts, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const auto shared, Foresee(*family, sampled_texts, prompts, sampled));
  OUTRIDER_ASSIGN_OR_RETURN(const auto own, Foresee(*family, sampled_texts, prompts, own_noise));

  const std::string temperature = Concat("temperature ", flags.temperature);
  Report report;
  report.Add("greedy", greedy);
  report.Add("greedy, texts that do not repeat", WithoutLoops(greedy, greedy_texts, prompts));
  report.Add(temperature + ", the same noise", shared);
  report.Add(temperature + ", noise of its own", own);
  std::printf("texts that do not repeat: less than %s %% of their 4-grams occur twice\n",
              Fixed(100 * kRepetitionMax, 0).c_str());
  return report.WriteCsv(flags.csv);
}

}  // namespace

void AddEvaluateDraftCommand(CLI::App& app, CommandBody& chosen) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("evaluate-draft", "Measure how many tokens of a draft its target accepts");
  command->footer(
      "The target goes on from pieces of the texts, greedily and sampled, and at each token the\n"
      "draft is asked what it would have said. The table tells for how many tokens they agree, "
      "and\n"
      "how many of 2, 4 and 8 tokens drafted in a row the target accepts on the mean. Sampled "
      "text\n"
      "is compared twice: with the draft sharing the target's noise, as Outrider's drafts do, and\n"
      "with noise of its own. Small models repeat themselves when greedy, which is easily "
      "foreseen:\n"
      "a line of its own leaves such texts out.\n"
      "  outrider-adapters evaluate-draft other_books.txt.gz --target target.gguf \\\n"
      "      --draft draft.gguf --csv agreement.csv");
  command->add_option("texts", flags->texts, "Text files, plain or gzip'd, to take prompts from")
      ->required();
  command->add_option("--target", flags->target, "The model to foresee")
      ->required()
      ->envname("OUTRIDER_TARGET");
  command->add_option("--draft", flags->draft, "The model that foresees")
      ->required()
      ->envname("OUTRIDER_DRAFT");
  command
      ->add_option("--prompts", flags->prompts.count, "Texts that the target writes of each kind")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_PROMPTS");
  command->add_option("--prompt-tokens", flags->prompts.length, "Tokens of text it goes on from")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_PROMPT_TOKENS");
  command->add_option("--reply-tokens", flags->reply_tokens, "Tokens of each")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_REPLY_TOKENS");
  command->add_option("--temperature", flags->temperature, "Of the sampled text")
      ->check(CLI::Range(SamplingOptions::kTemperatureMin, SamplingOptions::kTemperatureMax))
      ->capture_default_str()
      ->envname("OUTRIDER_TEMPERATURE");
  command->add_option("--seed", flags->seed, "Decides the prompts and the noise")
      ->capture_default_str()
      ->envname("OUTRIDER_SEED");
  command->add_option("--csv", flags->csv, "Where to write the table")->envname("OUTRIDER_CSV");
  command->add_option("--threads", flags->threads, "Threads; by default one for each processor")
      ->check(CLI::Range(1u, ThreadPool::kThreadsMax))
      ->capture_default_str()
      ->envname("OUTRIDER_THREADS");
  command->callback([flags, &chosen] { chosen = [flags] { return EvaluateDraft(*flags); }; });
}

}  // namespace outrider
