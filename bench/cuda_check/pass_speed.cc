#include "bench/cuda_check/pass_speed.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/cuda_check/speed.h"
#include "bench/cuda_check/the_gpu.h"
#include "bench/median.h"
#include "bench/random_exits.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/cuda/cuda_engine.h"
#include "common/engine/engine_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"

namespace outrider {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kContext = 64;
constexpr uint32_t kNodesMax = 63;
constexpr uint32_t kRounds = 31;

double Since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// All but the embeddings, of which a pass reads a few rows.
uint64_t WeightBytes(const ModelFile& model) {
  uint64_t bytes = 0;
  bool has_head = false;
  for (const ModelTensor& tensor : model.tensors()) {
    has_head |= tensor.name == "output.weight";
    if (tensor.name != "token_embd.weight") bytes += tensor.bytes;
  }
  if (has_head) return bytes;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.name == "token_embd.weight") bytes += tensor.bytes;
  }
  return bytes;
}

class Passes final : private ExitSink {
 public:
  explicit Passes(std::unique_ptr<EngineTarget> target) : target_(std::move(target)) {}

  // Of `node_count` nodes and their root, without exits and with.
  absl::Status Measure(uint32_t node_count, double floor) {
    const auto vocabulary_size = static_cast<int32_t>(target_->info().vocabulary_size);
    OUTRIDER_ASSIGN_OR_RETURN(const Chooser chooser, Chooser::Create({}, vocabulary_size));
    TokenHistory history({.vocabulary_size = vocabulary_size, .capacity = kContext});
    OUTRIDER_ASSIGN_OR_RETURN(const SequenceId id, target_->CreateSequence());
    const std::vector<TokenId> prompt = Tokens(kContext);
    OUTRIDER_RETURN_IF_ERROR(target_->Prefill(id, prompt, nullptr));
    OUTRIDER_RETURN_IF_ERROR(history.Append(prompt));
    std::vector<DraftedNode> nodes;
    for (const TokenId token : Tokens(node_count)) {
      nodes.push_back({token, nodes.size() % 3 == 0 ? DraftedNode::kRoot
                                                    : static_cast<uint32_t>(nodes.size() - 1)});
    }
    const std::vector<TokenId> candidates = Tokens(64);
    const Pass pass = {id, nodes, &chooser, &history, candidates};
    const TrainedExits exits = FiveRandomExits(target_->engine());

    OUTRIDER_ASSIGN_OR_RETURN(const double alone, Time(pass));
    OUTRIDER_RETURN_IF_ERROR(target_->AttachExits(exits, "random exits", {}));
    target_->HearExits(this);
    OUTRIDER_ASSIGN_OR_RETURN(const double with, Time(pass));
    target_->HearExits(nullptr);
    target_->engine().DetachExits();
    std::printf(
        "%4u rows  %8.3f ms  %5.2f  with five exits %+6.2f %%, the first heard at %3.0f %%\n",
        node_count + 1, 1e3 * alone, alone / floor, 100 * (with / alone - 1),
        100 * Median(std::exchange(heard_, {})));
    return target_->Close(id);
  }

 private:
  absl::StatusOr<double> Time(const Pass& pass) {
    std::vector<double> seconds;
    for (uint32_t round = 0; round < kRounds; ++round) {
      PassResult result;
      first_heard_ = 0;
      begin_ = Clock::now();
      target_->Run({}, {&pass, 1}, {&result, 1});
      const double taken = Since(begin_);
      OUTRIDER_RETURN_IF_ERROR(result.status);
      if (round < 3) continue;  // graphs are made
      seconds.push_back(taken);
      if (first_heard_ > 0) heard_.push_back(first_heard_ / taken);
    }
    return Median(seconds);
  }

  void OnGuess(const ExitGuess&) override {
    if (first_heard_ == 0) first_heard_ = Since(begin_);
  }
  void OnExitTime(uint32_t, Duration) override {}

  std::vector<TokenId> Tokens(uint32_t count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random_() % target_->info().vocabulary_size);
    }
    return tokens;
  }

  std::unique_ptr<EngineTarget> target_;
  std::mt19937 random_{2};
  Clock::time_point begin_;
  double first_heard_ = 0;  // seconds into the pass; 0: none was
  std::vector<double> heard_;
};

}  // namespace

absl::Status PrintPassSpeed(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const double bandwidth, CopyBandwidth());
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(std::max(1u, std::thread::hardware_concurrency())));
  OUTRIDER_ASSIGN_OR_RETURN(const Isa isa, SelectIsa(std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, ModelFile::Open(path));
  const EngineOptions options = {.context_length = 2 * kContext + kNodesMax,
                                 .node_count_max = kNodesMax,
                                 .row_count_max = 256};
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Engine> engine,
      LoadCudaEngine(*file, path, GpuOrdinal(), options, KernelsFor(isa), *pool, nullptr));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<EngineTarget> target,
                            EngineTarget::Create(std::move(engine)));
  const auto bytes = static_cast<double>(WeightBytes(*file));
  const double floor = bytes / bandwidth;
  std::printf(
      "%s: %.2f GB of weights, which a copy on the device (%.0f GB/s) would read in %.3f ms\n",
      path.c_str(), bytes / 1e9, bandwidth / 1e9, 1e3 * floor);
  Passes passes(std::move(target));
  for (const uint32_t node_count : {0u, 7u, 15u, 31u, 63u}) {
    OUTRIDER_RETURN_IF_ERROR(passes.Measure(node_count, floor));
  }
  return absl::OkStatus();
}

}  // namespace outrider
