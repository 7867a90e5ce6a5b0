// What exit heads cost a target: passes with five exits, candidates scored or all tokens, against
// the same passes without.
//
//   exits_bench MODEL.gguf THREADS [ISA]
//
// The exits are of random weights (random_exits.h), with 64 candidates of the draft a pass besides
// its nodes. Every round takes a pass without exits, one with candidates and one with all tokens, in
// turn; printed are the medians over rounds of the time of a pass, of the share that the exits take
// of the rest of their pass, by a watch around them, and of how much longer that pass is than the
// one without. Passes differ by more than exits take on a machine that is not quiet; the watch does
// not.
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "bench/median.h"
#include "bench/random_exits.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_target.h"
#include "common/formats/models/exits_file.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

constexpr uint32_t kCandidateCount = 64;
constexpr uint32_t kContext = 64;
constexpr uint32_t kRounds = 15;
constexpr std::array kScopes = {ExitScope::kCandidates, ExitScope::kFull};

class Bench final : private ExitSink {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const std::string& path,
                                                       uint32_t thread_count, Isa isa) {
    std::unique_ptr<Bench> bench(new Bench);
    OUTRIDER_ASSIGN_OR_RETURN(bench->pool_, ThreadPool::Create(thread_count));
    const Kernels& kernels = KernelsFor(isa);
    {
      OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
      OUTRIDER_ASSIGN_OR_RETURN(
          bench->target_, LoadCpuTarget(*file, path, {.context_length = 2 * kContext}, kernels,
                                        *bench->pool_, nullptr));
    }
    bench->exits_ = FiveRandomExits(bench->target_->engine());
    std::printf("%s, %s, %u threads, context %u; exits after layers", path.c_str(),
                std::string(Name(isa)).c_str(), thread_count, kContext);
    for (const TrainedExit& exit : bench->exits_.exits) std::printf(" %u", exit.layer);
    std::printf(" of %u\n", bench->target_->engine().spec().layer_count());
    return bench;
  }

  // Passes of `node_count` drafted nodes and their root.
  absl::Status Measure(uint32_t node_count, const SamplingOptions& sampling) {
    const auto vocabulary_size = static_cast<int32_t>(target_->info().vocabulary_size);
    OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create(sampling, vocabulary_size));
    TokenHistory history({.vocabulary_size = vocabulary_size, .capacity = kContext});
    OUTRIDER_ASSIGN_OR_RETURN(const SequenceId id, target_->CreateSequence());
    const std::vector<TokenId> prompt = RandomTokens(kContext);
    OUTRIDER_RETURN_IF_ERROR(target_->Prefill(id, prompt, nullptr));
    OUTRIDER_RETURN_IF_ERROR(history.Append(prompt));
    std::vector<DraftedNode> nodes;
    for (const TokenId token : RandomTokens(node_count)) {
      nodes.push_back({token, nodes.size() % 3 == 0 ? DraftedNode::kRoot
                                                    : static_cast<uint32_t>(nodes.size() - 1)});
    }
    const std::vector<TokenId> candidates = RandomTokens(kCandidateCount);
    const Pass pass = {id, nodes, &chooser, &history, candidates};

    std::vector<double> alone, taken[2], added[2];
    for (uint32_t round = 0; round <= kRounds; ++round) {  // the first warms up
      OUTRIDER_ASSIGN_OR_RETURN(const Timed without, Time(pass, std::nullopt));
      if (round > 0) alone.push_back(without.seconds);
      for (size_t i = 0; i < kScopes.size(); ++i) {
        OUTRIDER_ASSIGN_OR_RETURN(const Timed with, Time(pass, kScopes[i]));
        if (with.outcome.node != without.outcome.node ||
            with.outcome.next != without.outcome.next) {
          return FailedPrecondition("a pass came out otherwise with exits attached");
        }
        if (guesses_ != exits_.exits.size()) {
          return FailedPrecondition("there were ", guesses_, " guesses of a pass, not one an exit");
        }
        if (round == 0) continue;
        taken[i].push_back(with.exit_seconds / (with.seconds - with.exit_seconds));
        added[i].push_back(with.seconds / without.seconds - 1);
      }
    }
    std::printf(
        "%4u rows, %-8s  pass %7.2f ms   candidates %5.2f %% (in all %+6.2f %%)   all tokens %6.2f "
        "%% (in all %+6.2f %%)\n",
        node_count + 1, chooser.options().greedy() ? "greedy" : "sampled", 1e3 * Median(alone),
        100 * Median(taken[0]), 100 * Median(added[0]), 100 * Median(taken[1]),
        100 * Median(added[1]));
    return target_->Close(id);
  }

 private:
  struct Timed {
    double seconds;
    double exit_seconds;
    Outcome outcome;
  };

  Bench() = default;

  // Without exits when there is no scope.
  absl::StatusOr<Timed> Time(const Pass& pass, std::optional<ExitScope> scope) {
    guesses_ = 0;
    exit_seconds_ = 0;
    if (scope) {
      OUTRIDER_RETURN_IF_ERROR(target_->AttachExits(exits_, "random exits", {.scope = *scope}));
      target_->HearExits(this);
    } else {
      target_->engine().DetachExits();
    }
    PassResult result;
    const auto started = std::chrono::steady_clock::now();
    target_->Run({}, {&pass, 1}, {&result, 1});
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    OUTRIDER_RETURN_IF_ERROR(result.status);
    return Timed{seconds, exit_seconds_, result.outcome};
  }

  void OnGuess(const ExitGuess&) override { ++guesses_; }
  void OnExitTime(uint32_t, Duration time) override {
    exit_seconds_ += std::chrono::duration<double>(time).count();
  }

  std::vector<TokenId> RandomTokens(uint32_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random_() % target_->info().vocabulary_size);
    }
    return tokens;
  }

  std::mt19937 random_{2};
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<EngineTarget> target_;
  TrainedExits exits_;
  uint32_t guesses_ = 0;
  double exit_seconds_ = 0;
};

absl::Status Run(const std::string& path, const std::string& threads,
                 std::optional<std::string_view> isa_name) {
  uint32_t thread_count = 0;
  if (std::from_chars(threads.data(), threads.data() + threads.size(), thread_count).ec !=
      std::errc()) {
    return InvalidArgument("THREADS is a number, not '", threads, "'");
  }
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(const Isa isa, SelectIsa(isa_name));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench,
                            Bench::Create(path, thread_count, isa));
  SamplingOptions sampled;
  sampled.temperature = 0.8;
  for (const uint32_t node_count : {0, 15}) {
    OUTRIDER_RETURN_IF_ERROR(bench->Measure(node_count, {}));
    OUTRIDER_RETURN_IF_ERROR(bench->Measure(node_count, sampled));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fputs("usage: exits_bench MODEL.gguf THREADS [ISA]\n", stderr);
    return 2;
  }
  const absl::Status status = outrider::Run(
      argv[1], argv[2], argc > 3 ? std::optional<std::string_view>(argv[3]) : std::nullopt);
  if (status.ok()) return 0;
  std::fprintf(stderr, "exits_bench: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
