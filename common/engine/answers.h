// What a run is asked about its rows' logits, answered: walks, rankings, and copies. The part of an
// engine that is the same on every device whose logits come to the host.
//
//   answers.Begin(run);
//   for (;;) {
//     const std::span<const uint32_t> rows = answers.NextBand();
//     if (rows.empty()) break;
//     answers.Answer(transformer.Project(rows, *head));       // one row of logits for each
//   }
//
// Rows that nobody asks about are in no band, and a row that several ask about is in one. Bands are
// as large as there is room for logits: the head, a good part of a small model, is read once for
// each. A walk is in one band as a whole, since only walking tells which of its rows it needs.
//
// Memory:  taken when it is made; besides, the first chooser of another vocabulary than the model's
//          takes what choosing among it needs.
// Threads: one call at a time. Walks and rankings of a band are shared out over the pool, each to
//          one thread: what is chosen does not depend on which.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/engine/shortlist.h"
#include "common/model/transformer.h"
#include "common/tokens/chooser.h"

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

  // `run` stays where it is until it is answered.
  void Begin(EngineRun& run);
  // Ascending; none when everything is answered.
  std::span<const uint32_t> NextBand();
  // `logits` are those of the band.
  void Answer(const LogitRows& logits);

  // What choosers want to know of each row of the band, where all of them want little
  // (engine/shortlist.h); otherwise nothing. Then whoever knows that much may answer with it.
  std::span<const Wish> Wishes();
  // False: it does not tell all that was asked. The band is still to be answered.
  bool Answer(std::span<const Shortlist> lists);

 private:
  // The part of each of a run's lists that a band is about.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  struct Worker {
    ChoosingRoom room;
    std::vector<TokenId> path;
    std::vector<Ranked> ranked;
  };

  std::span<const float> LogitsOf(uint32_t row, const LogitRows& logits) const;
  void TakeWalk(TreeWalk& walk, const LogitRows& logits, Worker& worker) const;
  template <typename Choose>
  void WalkBy(const Choose& choose, TreeWalk& walk, Worker& worker) const;
  void TakeRanking(Ranking& ranking, const LogitRows& logits, Worker& worker) const;

  std::span<TreeWalk> BandWalks() const;
  std::span<Ranking> BandRankings() const;
  bool AddWish(const Chooser& chooser, size_t count, size_t index);
  bool TakeWalkByLists(TreeWalk& walk, std::span<const Shortlist> lists, Worker& worker) const;
  bool TakeRankingByList(Ranking& ranking, std::span<const Shortlist> lists, Worker& worker) const;

  const EngineInfo& info_;
  const uint32_t band_row_count_max_;
  ThreadPool& pool_;

  EngineRun* run_ = nullptr;
  Range walks_, rankings_, logits_;  // of the band
  std::vector<uint32_t> band_;       // its rows
  std::vector<uint32_t> places_;     // of a row of the run in the band
  std::vector<Wish> wishes_;         // of each of its rows
  std::vector<uint32_t> depths_;     // of a walk's nodes
  std::vector<Worker> workers_;
};

}  // namespace outrider
