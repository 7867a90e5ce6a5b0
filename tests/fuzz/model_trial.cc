#include "tests/fuzz/model_trial.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "client/cli/model_summary.h"
#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/text/tokenizer.h"
#include "common/tokens/chooser.h"

namespace outrider {
namespace {

constexpr uint32_t kTokens = 3;
constexpr uint32_t kContext = 64;

// Counted as sanitizers make it, so of the product it is a fraction.
constexpr double kSecondsMax = 2;
constexpr long kKilobytesMax = 1 << 20;

struct Tally {
  uint64_t refused = 0, not_inspected = 0, not_run = 0, ran = 0;

  ~Tally() {
    std::fprintf(stderr, "outcomes: %lu refused, %lu opened, %lu inspected, %lu ran\n", refused,
                 not_inspected, not_run, ran);
  }
};

Tally& Outcomes() {
  static Tally tally;
  return tally;
}

struct Deaf final : ExitSink {
  void OnGuess(const ExitGuess&) override {}
};

void CheckSaysWhy(const absl::Status& status) {
  OUTRIDER_CHECK(!Message(status).empty(), "a refusal says why");
}

// No text at all where the model has no tokenizer, or one for other tokens.
absl::StatusOr<std::vector<TokenId>> Prompt(const ModelFile& model, uint32_t vocabulary) {
  std::vector<TokenId> tokens;
  absl::StatusOr<TokenizerSpec> spec = model.ReadTokenizer();
  if (spec.ok()) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> tokenizer,
                              Tokenizer::Create(*std::move(spec)));
    tokens = tokenizer->Encode("Once upon a time\n 123 é語");
    (void)tokenizer->Decode(tokens);
  } else if (!absl::IsNotFound(spec.status())) {
    return spec.status();
  }
  std::erase_if(tokens, [&](TokenId token) { return static_cast<uint32_t>(token) >= vocabulary; });
  tokens.resize(kTokens, static_cast<TokenId>(vocabulary - 1));
  return tokens;
}

absl::Status AttachExits(const std::string& path, CpuEngine& engine) {
  static Deaf sink;
  const ExitsChoice choice = ChooseExits("", path);
  if (choice.path.empty()) return absl::OkStatus();
  OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits exits, ReadExits(choice.path));
  return engine.AttachExits(exits, choice.path, {}, sink);
}

absl::Status RunTokens(const ModelFile& model, const std::string& path) {
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<CpuEngine> engine, LoadForTrial(model, path));
  // Those of another model are left where they lie, as they are on a device.
  if (const absl::Status status = AttachExits(path, *engine); !status.ok()) CheckSaysWhy(status);
  const uint32_t vocabulary = engine->info().vocabulary_size;
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> given, Prompt(model, vocabulary));
  OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser,
                            Chooser::Create({}, static_cast<int32_t>(vocabulary)));
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, engine->Open());
  TokenHistory history(
      {.vocabulary_size = static_cast<int32_t>(vocabulary), .capacity = size_t{4} * kTokens});
  for (uint32_t i = 0; i < kTokens; ++i) {
    const auto count = static_cast<uint32_t>(given.size());
    if (history.size() + count > engine->info().context_length) {
      return ResourceExhausted("the context of ", engine->info().context_length, " tokens is full");
    }
    OUTRIDER_RETURN_IF_ERROR(engine->Reserve(sequence, count, 0));
    OUTRIDER_RETURN_IF_ERROR(history.Append(given));
    const RunPart part = {.sequence = sequence, .chain = given};
    TreeWalk walk = {.root_row = count - 1, .nodes = {}, .chooser = &chooser, .history = &history};
    EngineRun run = {.parts = {&part, 1}, .walks = {&walk, 1}};
    OUTRIDER_RETURN_IF_ERROR(engine->Run(run));
    OUTRIDER_RETURN_IF_ERROR(walk.status);
    engine->Commit(sequence, count, {});
    given = {walk.outcome.next};
  }
  return absl::OkStatus();
}

// Of this process, which keeps whole models to be spoilt.
long ResidentKilobytes() {
  long size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

// One more where it got to.
void Try(const std::string& path) {
  Tally& outcomes = Outcomes();
  const absl::StatusOr<std::unique_ptr<ModelFile>> model = ModelFile::Open(path);
  if (!model.ok()) {
    CheckSaysWhy(model.status());
    const absl::StatusOr<ModelSummary> summary = SummarizeRefused(path, model.status());
    OUTRIDER_CHECK(!summary.ok() || !ToTable(*summary).empty(), "a model can be told of");
    ++outcomes.refused;
    return;
  }
  const ModelSummary summary = Summarize(**model, path);
  OUTRIDER_CHECK(!ToTable(summary).empty(), "a model can be told of");
  const absl::Status status = RunTokens(**model, path);
  if (!status.ok()) CheckSaysWhy(status);
  const bool is_read = summary.tokenizer_trouble.empty();
  ++(status.ok() ? outcomes.ran : is_read ? outcomes.not_run : outcomes.not_inspected);
}

// Of this thread, whether or not others have the processor. Workers that wait for it count for
// nothing.
double ThreadSeconds() {
  struct timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double SecondsToTry(const std::string& path) {
  const double begin = ThreadSeconds();
  Try(path);
  return ThreadSeconds() - begin;
}

}  // namespace

std::string TrialFolder(const std::string& name) {
  const char* const shared = "/dev/shm";
  const std::string root = std::filesystem::is_directory(shared) ? shared : "/tmp";
  return root + "/outrider_" + name + "." + std::to_string(getpid());
}

absl::StatusOr<std::unique_ptr<CpuEngine>> LoadForTrial(const ModelFile& model,
                                                        const std::string& path) {
  static const auto& pool = *new absl::StatusOr<std::unique_ptr<ThreadPool>>(ThreadPool::Create(2));
  OUTRIDER_RETURN_IF_ERROR(pool.status());
  const uint32_t context = std::min(model.hyperparameters().context_length, kContext);
  return LoadCpuEngine(model, path,
                       {.context_length = context, .node_count_max = 0, .row_count_max = kTokens},
                       KernelsFor(BestIsa()), **pool, nullptr);
}

void TryModel(const std::string& path) {
  const long before = ResidentKilobytes();
  double seconds = SecondsToTry(path);
  // The first of all measures how fast memory is, which may be slow for a while, and all with it.
  for (int again = 0; seconds > kSecondsMax && again < 3; ++again) seconds = SecondsToTry(path);
  OUTRIDER_CHECK(seconds <= kSecondsMax, "a spoilt file takes no longer than a whole one");
  struct rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  OUTRIDER_CHECK(usage.ru_maxrss - before <= kKilobytesMax, "a spoilt file takes no more memory");
}

}  // namespace outrider
