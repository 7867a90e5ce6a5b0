// What a prompt costs beside the passes of others: in one run with them, against by itself.
//
//   mixed_runs MODEL.gguf THREADS [ROUNDS]
//
// Every round reads a prompt of 300 tokens by itself, those beside the passes of four sequences (of
// their roots alone, and of a root and four nodes each), and the passes by themselves, in turn.
// Printed are medians over rounds: of times, and of ratios to the prompt by itself in the same round.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bench/median.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

constexpr uint32_t kPromptLength = 300;
constexpr uint32_t kContext = 128;  // of the others
constexpr size_t kOthers = 4;
constexpr std::array kNodeCounts = {0u, 4u};  // of a pass

class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(const std::string& path,
                                                       uint32_t thread_count) {
    std::unique_ptr<Bench> bench(new Bench);
    OUTRIDER_ASSIGN_OR_RETURN(bench->pool_, ThreadPool::Create(thread_count));
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
    OUTRIDER_ASSIGN_OR_RETURN(
        bench->target_,
        LoadCpuTarget(*file, path,
                      {.context_length = kPromptLength, .sequence_count_max = kOthers + 1},
                      KernelsFor(BestIsa()), *bench->pool_, nullptr));
    const auto vocabulary_size = static_cast<int32_t>(bench->target_->info().vocabulary_size);
    OUTRIDER_ASSIGN_OR_RETURN(Chooser chooser, Chooser::Create({}, vocabulary_size));
    bench->chooser_ = std::make_unique<Chooser>(std::move(chooser));
    for (size_t i = 0; i < kOthers; ++i) OUTRIDER_RETURN_IF_ERROR(bench->AddOther());
    return bench;
  }

  absl::Status Measure(uint32_t node_count, uint32_t rounds) {
    const std::vector<DraftedNode> nodes = RandomNodes(node_count);
    std::vector<Pass> passes;
    for (const Other& other : others_) {
      passes.push_back({other.sequence, nodes, chooser_.get(), &other.history});
    }
    const std::vector<TokenId> prompt = RandomTokens(kPromptLength);
    std::vector<double> alone, beside, others, ratio;
    for (uint32_t round = 0; round <= rounds; ++round) {  // the first warms up
      OUTRIDER_ASSIGN_OR_RETURN(const double prompt_seconds, Time(prompt, {}));
      OUTRIDER_ASSIGN_OR_RETURN(const double both_seconds, Time(prompt, passes));
      OUTRIDER_ASSIGN_OR_RETURN(const double pass_seconds, Time({}, passes));
      if (round == 0) continue;
      alone.push_back(1e3 * prompt_seconds);
      beside.push_back(1e3 * both_seconds);
      others.push_back(1e3 * pass_seconds);
      ratio.push_back(both_seconds / prompt_seconds);
    }
    std::printf(
        "%zu passes of %u rows: prompt alone %.1f ms, passes alone %.1f ms, together %.1f ms, "
        "%.3f of the prompt alone (%.3f to %.3f)\n",
        kOthers, 1 + node_count, Median(alone), Median(others), Median(beside), Median(ratio),
        *std::ranges::min_element(ratio), *std::ranges::max_element(ratio));
    return absl::OkStatus();
  }

 private:
  struct Other {
    SequenceId sequence;
    TokenHistory history;
  };

  Bench() = default;

  absl::Status AddOther() {
    OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, target_->CreateSequence());
    const std::vector<TokenId> tokens = RandomTokens(kContext);
    OUTRIDER_RETURN_IF_ERROR(target_->Prefill(sequence, tokens, nullptr));
    TokenHistory history({.vocabulary_size = chooser_->vocabulary_size(), .capacity = kContext});
    OUTRIDER_RETURN_IF_ERROR(history.Append(tokens));
    others_.push_back({sequence, std::move(history)});
    return absl::OkStatus();
  }

  // Seconds of one call of the target. No prompt: the passes alone.
  absl::StatusOr<double> Time(std::span<const TokenId> prompt, std::span<const Pass> passes) {
    std::vector<Reading> readings;
    if (!prompt.empty()) {
      OUTRIDER_ASSIGN_OR_RETURN(const SequenceId sequence, target_->CreateSequence());
      readings.push_back({sequence, prompt});
    }
    std::vector<PassResult> results(passes.size());
    const auto started = std::chrono::steady_clock::now();
    target_->Run(readings, passes, results);
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    for (const PassResult& result : results) OUTRIDER_RETURN_IF_ERROR(result.status);
    for (const Reading& reading : readings) {
      OUTRIDER_RETURN_IF_ERROR(reading.status);
      OUTRIDER_RETURN_IF_ERROR(target_->Close(reading.sequence));
    }
    return seconds;
  }

  std::vector<TokenId> RandomTokens(uint32_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random_() % target_->info().vocabulary_size);
    }
    return tokens;
  }

  // A chain.
  std::vector<DraftedNode> RandomNodes(uint32_t count) {
    std::vector<DraftedNode> nodes;
    for (const TokenId token : RandomTokens(count)) {
      nodes.push_back(
          {token, nodes.empty() ? DraftedNode::kRoot : static_cast<uint32_t>(nodes.size() - 1)});
    }
    return nodes;
  }

  std::mt19937 random_{1};
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<EngineTarget> target_;
  std::unique_ptr<Chooser> chooser_;
  std::vector<Other> others_;
};

absl::StatusOr<uint32_t> Number(std::string_view text, std::string_view what) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number > 0) return number;
  return InvalidArgument(what, " is a number above 0, not '", text, "'");
}

absl::Status Run(std::span<char* const> arguments) {
  const ScopedIeeeMode ieee_mode;
  OUTRIDER_ASSIGN_OR_RETURN(const uint32_t thread_count, Number(arguments[1], "THREADS"));
  uint32_t rounds = 9;
  if (arguments.size() > 2) {
    OUTRIDER_ASSIGN_OR_RETURN(rounds, Number(arguments[2], "ROUNDS"));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Bench> bench,
                            Bench::Create(arguments[0], thread_count));
  std::printf("%s, %u threads, a prompt of %u tokens beside passes after %u, %u rounds\n",
              arguments[0], thread_count, kPromptLength, kContext, rounds);
  for (const uint32_t node_count : kNodeCounts) {
    OUTRIDER_RETURN_IF_ERROR(bench->Measure(node_count, rounds));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fputs("usage: mixed_runs MODEL.gguf THREADS [ROUNDS]\n", stderr);
    return 2;
  }
  const absl::Status status = outrider::Run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  std::fprintf(stderr, "mixed_runs: %s\n", std::string(outrider::Message(status)).c_str());
  return 1;
}
