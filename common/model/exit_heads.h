// Exit heads at work: they watch a target's passes and say, layer by layer, which outcome each is
// heading for.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const TrainedExits trained, ReadExits(path));
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ExitHeads> exits,
//                             ExitHeads::Create(trained, path, *target, kernels, pool, {}, hint));
//   target->Observe(exits.get());
//   target->Run(passes, results);              // hint(guess) for every pass at every exit
//
// After a layer with an exit the rows of all passes are scored together (exit_scorer.h); then every
// pass's tree is walked by the exit's choices, made by the pass's own chooser with the target's own
// noise, and the outcome is weighed (exit_guess.h). What a pass is told does not depend on the
// others in the run: an exit sees the tokens of that pass's nodes, its candidates and the frequent
// set. A pass whose logits are no numbers is told nothing.
//
// Exits advise. They change no bit of the target's, and need not be sure: an exit that does not
// earn its time is switched off.
//
// Memory:  taken in Create(); nothing allocates afterwards, but for the first sampled rows.
// Threads: the target's; the listener is called on the thread that called Run(), in the middle of
//          it, and had better be quick.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/kernels.h"
#include "common/model/cpu_target.h"
#include "common/model/exit_guess.h"
#include "common/model/exit_scorer.h"
#include "common/model/pass_observer.h"
#include "common/tokens/chooser.h"

namespace outrider {

struct ExitHeadsOptions {
  ExitScope scope = ExitScope::kCandidates;
  // Of Pass::candidates, of all passes of a run together; more are left out.
  uint32_t candidate_count_max = 256;
};

class ExitHeads final : public PassObserver {
 public:
  using Listener = std::function<void(const ExitGuess&)>;

  // InvalidArgument, starting with `path`, for exits of another target. Kernels and pool are the
  // target's, and all that is passed but `exits` outlives the heads.
  static absl::StatusOr<std::unique_ptr<ExitHeads>> Create(
      const TrainedExits& exits, const std::string& path, const CpuTarget& target,
      const Kernels& kernels, ThreadPool& pool, const ExitHeadsOptions& options, Listener listener);

  uint32_t exit_count() const { return static_cast<uint32_t>(exits_.size()); }
  uint32_t layer_of(uint32_t exit) const { return exits_[exit].layer; }

  // Between runs. All are on at first.
  void Switch(uint32_t exit, bool on) { exits_[exit].on = on; }

  void BeginRun(std::span<const RunningPass> passes) override;
  void AfterLayer(uint32_t layer, LayerView& view) override;

 private:
  struct Exit {
    uint32_t layer;
    bool on = true;
    std::optional<ExitCalibration> greedy;
    std::optional<ExitCalibration> sampled;
  };

  // What is known of a pass of the run.
  struct Watched {
    const RunningPass* running;
    std::span<const uint32_t> columns;  // of the logits, of its own tokens, these rising
    std::optional<Outcome> previous;    // what the exit before guessed
    ExitGuess guess;
    bool guessed;  // at this exit
  };

  // Working memory of one thread.
  struct Worker {
    explicit Worker(int32_t vocabulary_size) : chooser(vocabulary_size) {}

    ChooserScratch chooser;
    std::vector<TokenId> path;
    std::vector<Ranked> ranked;
    std::vector<TokenId> tokens;  // that have logits
    std::vector<float> logits;
    std::vector<float> weights;
  };

  ExitHeads(const TrainedExits& exits, const RowKernels& kernels, ThreadPool& pool,
            std::unique_ptr<ExitScorer> scorer, const ExitHeadsOptions& options, Listener listener);
  void TakeMemory(const CpuTarget& target);

  void CollectTokens(const Pass& pass);
  void ScoreBand(uint32_t exit, std::span<Watched> band, const LayerView& view);
  void Guess(uint32_t exit, Watched& watched, const ExitLogits& logits, size_t root_row,
             Worker& worker);
  absl::Status RankRow(const Watched& watched, std::span<const float> logits, uint32_t position,
                       const NodeHistory& history, Worker& worker) const;
  float LargestSoftmax(Worker& worker) const;

  std::vector<Exit> exits_;
  const RowKernels& kernels_;
  ThreadPool& pool_;
  const std::unique_ptr<ExitScorer> scorer_;
  const ExitHeadsOptions options_;
  const Listener listener_;

  // Of the present run.
  std::vector<Watched> watched_;
  std::vector<TokenId> own_tokens_;    // of one pass after the other
  std::vector<size_t> own_ends_;       // of each pass's in those
  std::vector<uint32_t> own_columns_;  // of those
  std::vector<TokenId> round_tokens_;  // of all
  size_t candidate_count_ = 0;
  // A walk has no more nodes than its pass has rows: by row of the run, those of a pass in a row.
  std::vector<Ranked> ranked_;                     // kRankedMax places for each
  std::vector<std::span<const Ranked>> rankings_;  // what is in them

  std::vector<const float*> hidden_;  // of a band
  std::vector<Worker> workers_;
};

}  // namespace outrider
