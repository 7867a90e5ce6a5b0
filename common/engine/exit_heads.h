// Exit heads at work: they watch an engine's walks and say, layer by layer, which outcome each is
// heading for.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ExitHeads> exits,
//                             ExitHeads::Create(trained, path, place, {}, sink));
//   exits->BeginRun(run);
//   transformer.Forward(batch, exits.get());          // sink.OnGuess() for walks, at every exit
//
// After a layer with an exit the rows of all walks are scored together (exit_scorer.h); then every
// walk goes down its tree by the exit's choices, made by its own chooser with the target's own
// noise, and the outcome is weighed (exit_guess.h). An exit sees the tokens of that walk's nodes, its
// candidates and the frequent set, and none of what is in the run beside it. Candidates are the one
// thing that walks share: there are ExitOptions::candidate_count_max of them in a run. A walk that
// wants more than an even share of that has what the others leave, its most probable ones; those who
// want less have all of theirs. Rows of no walk are left alone.
//
// A walk may be pruned, guessed or not: after every layer with an exit the rows are taken out of
// its nodes that look to be worth no more of it (tree_pruning.h), by what the exit makes of the
// tokens after each node, with the noise of the position as everywhere. Or it is only watched what
// that would come to. A walk is scored where it is guessed, or something of it could still go.
//
// Rows may be dropped on the way (layer_observer.h): a node that was counts as never drafted, as it
// does in the end; a walk whose root was, and one whose logits are no numbers, is not guessed.
//
// Exits advise. They change no bit of what the engine says, and need not be sure: an exit that does
// not earn its time is switched off, and guesses nothing then (pruning is switched walk by walk).
//
// All of it is done inline, on the threads that run the layers, and the pass waits for it: 1.3 to
// 3 % of its time (bench/README.md). On a processor that is what it costs anywhere: the scores are
// work for the same cores and the same memory, and a thread beside the pass would take its share of
// both while its guess comes later. What must not delay a pass is the way out, so the sink only
// leaves a guess in a queue (VerifierDriver::Tell), and the machine's thread sends it. A GPU scores
// rows by itself while it goes on with later layers (cuda/device_exits.h), and what comes of that
// is heard here:
//
//   exits->BeginRun(run);
//   ... somebody scores round().rows after every layer with an exit, and for each
//   exits->Hear(layer, scores);
//
// Memory:  taken in Create(); nothing allocates afterwards, but for the first sampled rows.
// Threads: the engine's; the sink is called on the thread that runs the layers, in the middle of
//          it, and had better be quick.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/base/thread_pool.h"
#include "common/engine/answers.h"
#include "common/engine/engine.h"
#include "common/engine/tree_pruning.h"
#include "common/formats/models/exits_file.h"
#include "common/kernels/kernels.h"
#include "common/model/exits/exit_guess.h"
#include "common/model/exits/exit_ranking.h"
#include "common/model/exits/exit_scorer.h"
#include "common/model/layer_observer.h"
#include "common/model/weights/layer_weights.h"
#include "common/tokens/chooser.h"

namespace outrider {

class ExitHeads final : public LayerObserver {
 public:
  // Rows scored at once: the largest walk, and a good band of small ones.
  static uint32_t ScoredRows(uint32_t node_count_max) {
    constexpr uint32_t kBand = 32;
    return std::max(kBand, node_count_max + 1);
  }
  // What is kept by row of a run, but for what is ranked there; at the most.
  static constexpr uint64_t kRowBytes = 256;

  // Of the run's candidates and nodes: the most tokens that are scored besides the frequent ones.
  static uint32_t RoundTokens(uint32_t row_count_max, const ExitOptions& options) {
    return row_count_max + options.candidate_count_max;
  }

  // The engine they are attached to. All of it outlives them.
  struct Place {
    const ModelSpec& spec;
    const EngineInfo& info;
    const HeadWeights* head;  // null: rows are scored elsewhere
    const Kernels& kernels;
    ThreadPool& pool;
  };

  // InvalidArgument, starting with `path`, for exits of another model. The sink outlives the heads.
  static absl::StatusOr<std::unique_ptr<ExitHeads>> Create(const TrainedExits& exits,
                                                           const std::string& path,
                                                           const Place& place,
                                                           const ExitOptions& options,
                                                           ExitSink& sink);

  // Between runs. All are on at first.
  void Switch(uint32_t exit, bool on) { exits_[exit].on = on; }
  // Which of the exits stands after that layer, if it is on: nobody else need be told of it, where
  // no rows can be taken out.
  std::optional<uint32_t> ExitAfter(uint32_t layer) const;

  // The walks of the run that begins, which stay where they are until it is over. Those that are
  // neither to be guessed nor to be pruned are left alone.
  void BeginRun(std::span<const TreeWalk> walks);
  void AfterLayer(uint32_t layer, LayerView& view) override;

  // What whoever scores elsewhere is to score in the run that has begun.
  struct Round {
    std::span<const TokenId> tokens;  // besides the frequent ones: of the columns behind theirs
    std::span<const uint32_t> rows;   // of the run
    std::span<const ExitCandidates> candidates;  // of each of those
    std::span<const uint32_t> own_columns;
  };
  const Round& round() const { return round_; }
  // In the order of round().rows. What is ranked needs no logits.
  struct Scores {
    ExitLogits logits;
    std::span<const ExitRanking> rankings = {};
  };
  // While no row of the run has been taken out.
  void Hear(uint32_t layer, const Scores& scores);
  // The run is over, and the same walks have outcomes: what came of pruning them.
  void Conclude(std::span<TreeWalk> walks) const;

 private:
  static constexpr uint32_t kGone = UINT32_MAX;   // as a place
  static constexpr uint32_t kNever = UINT32_MAX;  // as a layer

  struct Exit {
    uint32_t layer;
    bool on = true;
    std::optional<ExitCalibration> greedy;
    std::optional<ExitCalibration> sampled;
  };

  // What is known of a walk of the run.
  struct Watched {
    const TreeWalk* walk;
    std::span<const uint32_t> columns;  // of the logits, of its own tokens, these rising
    uint32_t frequent_count;            // those of the frequent tokens that it can choose
    std::optional<Outcome> previous;    // what the exit before guessed
    ExitGuess guess;
    bool guessed;  // at this exit
    bool weighed;  // there, too: whether nodes of it are to go

    bool is_pruned() const { return walk->pruning != Pruning::kOff && !walk->nodes.empty(); }
    uint32_t root_row() const { return walk->root_row; }
    uint32_t row_count() const { return static_cast<uint32_t>(1 + walk->nodes.size()); }
  };

  // Working memory of one thread.
  struct Worker {
    Worker(uint32_t vocabulary_size, const TreePruning::Options& options, uint32_t node_count_max)
        : room(vocabulary_size), pruning(options, node_count_max) {}

    ChoosingRoom room;
    TreePruning pruning;
    std::vector<TokenId> path;
    std::vector<Ranked> ranked;
    std::vector<TokenId> tokens;  // that have logits
    std::vector<float> logits;
    std::vector<float> weights;
  };

  ExitHeads(const TrainedExits& exits, const Place& place, std::unique_ptr<ExitScorer> scorer,
            const ExitOptions& options, ExitSink& sink);
  void TakeMemory(const EngineInfo& info);

  void CollectRound();
  size_t EvenShare() const;
  void CollectTokens(const TreeWalk& walk, size_t candidate_count_max);
  uint32_t FrequentCount(const TreeWalk& walk) const;
  bool AreRanked(const TreeWalk& walk) const;
  void DescribeRound();
  void FindRows(std::span<const uint32_t> rows);
  bool IsScored(uint32_t exit, Watched& watched) const;
  void ScoreBand(uint32_t exit, std::span<Watched> band, LayerView& view);
  void Judge(uint32_t exit, std::span<Watched> band, const Scores& scores);
  bool IsThere(uint32_t row) const { return places_[row] != kGone && gone_after_[row] == kNever; }
  bool CanBePruned(const Watched& watched) const;
  void Guess(uint32_t exit, Watched& watched, const Scores& scores, Worker& worker);
  const std::optional<ExitCalibration>& CalibrationOf(uint32_t exit, const TreeWalk& walk) const;
  void Prune(uint32_t exit, const Watched& watched, const Scores& scores, Worker& worker);
  void WeighChildren(uint32_t exit, const Watched& watched, uint32_t node, const Scores& scores,
                     Worker& worker);
  absl::Status RankRow(const Watched& watched, uint32_t row, const Scores& scores,
                       const NodeHistory& history, Worker& worker) const;
  absl::Status RankByLogits(const Watched& watched, std::span<const float> logits,
                            const NodeHistory& history, Worker& worker) const;
  float LargestSoftmax(const Watched& watched, uint32_t row, const Scores& scores,
                       Worker& worker) const;

  const int32_t vocabulary_size_;
  const uint32_t layer_count_;
  std::vector<Exit> exits_;
  const RowKernels& kernels_;
  ThreadPool& pool_;
  const std::unique_ptr<ExitScorer> scorer_;    // null: rows are scored elsewhere
  const std::vector<TokenId> frequent_tokens_;  // that are scored in any round
  const ExitOptions options_;
  ExitSink& sink_;

  // Of the present run.
  std::span<const TreeWalk> walks_;
  std::vector<Watched> watched_;
  std::vector<TokenId> own_tokens_;    // of one walk after the other
  std::vector<size_t> own_ends_;       // of each walk's in those
  std::vector<uint32_t> own_columns_;  // of those
  std::vector<TokenId> round_tokens_;  // of all
  std::vector<uint32_t> round_rows_;   // where they are scored elsewhere
  std::vector<ExitCandidates> round_candidates_;
  Round round_;
  Duration preparation_{};  // what BeginRun() took
  // A walk has no more nodes than its rows: by row of the run, those of a walk in a row.
  std::vector<Ranked> ranked_;                     // kRankedMax places for each
  std::vector<std::span<const Ranked>> rankings_;  // what is in them
  bool prunes_ = false;                            // some walk
  std::vector<uint32_t> gone_after_;  // by row: the layer after which pruning took it out, or would

  // Of the present layer and band, by row of the run.
  std::vector<uint32_t> places_;  // in the layer's view, kGone for those that were dropped
  std::vector<uint32_t> scored_;  // among the rows scored together
  std::vector<std::optional<float>> chances_;  // of edges, at the row of the node they lead to
  std::vector<const float*> hidden_;
  std::vector<Worker> workers_;
};

}  // namespace outrider
