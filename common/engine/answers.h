// What a run is asked about its rows' logits, answered: walks, rankings, and copies. The part of an
// engine that is the same on every device whose logits come to the host.
//
//   answers.Begin(run);                   // or (run, rows that went all the way, by_path)
//   for (;;) {
//     const std::span<const uint32_t> rows = answers.NextBand();
//     if (rows.empty()) break;
//     answers.Answer(transformer.Project(rows, *head));       // one row of logits for each
//   }
//
// Rows that nobody asks about are in no band. Bands are as large as there is room for logits: the
// head, a good part of a small model, is read once for each.
//
// Only walking tells which of its rows a walk needs. Either a walk is in one band as a whole, and a
// row that several ask about is in one band; or walks go down by path: a band has the row that a
// walk stands at, and those it is likely to come to from there (first children, which are what the
// draft would bet on), and a walk that goes another way has its next rows in the next band. What is
// chosen is the same.
//
// Rows may have been taken out of the run (layer_observer.h): nodes of walks then count as never
// drafted, and nothing else may be asked of them.
//
// Memory:  taken when it is made; besides, the first chooser of another vocabulary than the model's
//          takes what choosing among it needs.
// Threads: one call at a time. Walks and rankings of a band are shared out over the pool, each to
//          one thread: what is chosen does not depend on which.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/model/transformer.h"
#include "common/tokens/chooser.h"
#include "common/tokens/outcome.h"

namespace outrider {

// What one thread chooses with, whatever the chooser's vocabulary.
class ChoosingRoom {
 public:
  explicit ChoosingRoom(uint32_t vocabulary_size);

  ChooserScratch& ScratchFor(const Chooser& chooser);
  // The model's logits as the chooser takes them: those it does not know are left out, those that
  // the model lacks cannot be.
  std::span<const float> Fit(std::span<const float> logits, const Chooser& chooser);

 private:
  struct Scratch {
    int32_t vocabulary_size;
    std::unique_ptr<ChooserScratch> scratch;
  };

  std::vector<Scratch> scratches_;  // the model's vocabulary first
  std::vector<float> padded_;
};

class Answers {
 public:
  // At most `band_row_count_max` rows at a time, which is no less than the largest walk has.
  // `info` and `pool` outlive it.
  Answers(const EngineInfo& info, uint32_t band_row_count_max, ThreadPool& pool);

  // `run` stays where it is until it is answered. All its rows went all the way.
  void Begin(EngineRun& run);
  // Or these did, ascending; bands have their places among them.
  void Begin(EngineRun& run, std::span<const uint32_t> rows, bool by_path);
  // None when everything is answered.
  std::span<const uint32_t> NextBand();
  // `logits` are those of the band.
  void Answer(const LogitRows& logits);

  // Whether the band is walks by choosers that want no more of a row than its largest logit, of
  // equal ones the lowest id. Then whoever knows those, all of them numbers, may answer with them.
  bool TakesLargest() const;
  void Answer(std::span<const TokenId> largest);

 private:
  // The part of each of a run's lists that a band is about.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Worker {
    ChoosingRoom room;
    std::vector<TokenId> path;
  };
  // How far a walk has come.
  struct Progress {
    bool is_over = false;
    uint32_t node = DraftedNode::kRoot;  // at which it goes on
  };

  static uint32_t RowOf(const TreeWalk& walk, uint32_t node) {
    return walk.root_row + (node == DraftedNode::kRoot ? 0 : 1 + node);
  }
  bool IsThere(uint32_t row) const;
  void ClearBand();
  void AddRow(uint32_t row);
  void FillWithRows();
  void FillWithPaths();
  void AddPath(const TreeWalk& walk, uint32_t node);

  std::span<const float> LogitsOf(uint32_t row, const LogitRows& logits) const;
  void TakeWalk(size_t index, const LogitRows& logits, Worker& worker);
  template <typename Choose>
  void WalkBy(const Choose& choose, size_t index, Worker& worker);
  void TakeRanking(Ranking& ranking, const LogitRows& logits, Worker& worker) const;

  const EngineInfo& info_;
  const uint32_t band_row_count_max_;
  ThreadPool& pool_;

  EngineRun* run_ = nullptr;
  bool by_path_ = false;
  std::vector<uint32_t> indices_;   // by row of the run: among those that went all the way
  std::vector<Progress> progress_;  // by walk
  std::vector<std::optional<TokenId>> chosen_;  // by row of the run, as far as walks have come

  Range rankings_, logits_;          // of the band
  size_t walks_begun_ = 0;           // that have been in a band, where they are as a whole
  std::vector<size_t> band_walks_;   // those in the band
  std::vector<uint32_t> band_;       // its rows, as indices_
  std::vector<uint32_t> band_rows_;  // the same, as rows of the run
  std::vector<uint32_t> places_;     // of a row of the run in the band
  std::vector<Worker> workers_;
};

}  // namespace outrider
