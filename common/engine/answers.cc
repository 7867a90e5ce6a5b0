#include "common/engine/answers.h"

#include <algorithm>
#include <limits>
#include <string>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

constexpr uint32_t kNoRow = UINT32_MAX;

// As messages call it: by its file, since names in files are what somebody thought of.
std::string ModelOf(const EngineInfo& info) {
  if (info.model_file.empty() || info.model_file == info.model_name) return info.model_name;
  return Concat(info.model_file, " (", info.model_name, ")");
}

}  // namespace

// --- choosing in any vocabulary ---

ChoosingRoom::ChoosingRoom(uint32_t vocabulary_size) {
  const auto size = static_cast<int32_t>(vocabulary_size);
  scratches_.push_back({size, std::make_unique<ChooserScratch>(size)});
}

ChooserScratch& ChoosingRoom::ScratchFor(const Chooser& chooser) {
  const int32_t size = chooser.vocabulary_size();
  const auto found = std::ranges::find(scratches_, size, &Scratch::vocabulary_size);
  if (found != scratches_.end()) return *found->scratch;
  scratches_.push_back({size, std::make_unique<ChooserScratch>(size)});
  return *scratches_.back().scratch;
}

std::span<const float> ChoosingRoom::Fit(std::span<const float> logits, const Chooser& chooser) {
  const auto size = static_cast<size_t>(chooser.vocabulary_size());
  if (size <= logits.size()) return logits.first(size);
  padded_.assign(logits.begin(), logits.end());
  padded_.resize(size, -std::numeric_limits<float>::infinity());
  return padded_;
}

// --- bands ---

Answers::Answers(const EngineInfo& info, uint32_t band_row_count_max, ThreadPool& pool)
    : info_(info),
      band_row_count_max_(band_row_count_max),
      pool_(pool),
      places_(info.row_count_max) {
  band_.reserve(band_row_count_max);
  for (uint32_t i = 0; i < pool.thread_count(); ++i) {
    // Not emplace_back(): clang 14 cannot make an aggregate of parentheses.
    workers_.push_back({ChoosingRoom(info.vocabulary_size), {}});
    workers_.back().path.reserve(info.node_count_max);
  }
}

void Answers::Begin(EngineRun& run) {
  run_ = &run;
  walks_ = rankings_ = logits_ = {};
}

std::span<const uint32_t> Answers::NextBand() {
  band_.clear();
  for (Range* const range : {&walks_, &rankings_, &logits_}) range->begin = range->end;
  uint32_t end_row = 0;  // of the rows in the band, all that was asked about before it is
  for (;;) {
    const bool walks_left = walks_.end < run_->walks.size();
    const uint32_t root = walks_left ? run_->walks[walks_.end].root_row : kNoRow;
    uint32_t row = root;
    if (rankings_.end < run_->rankings.size()) {
      row = std::min(row, run_->rankings[rankings_.end].row);
    }
    if (logits_.end < run_->logits.size()) row = std::min(row, run_->logits[logits_.end].row);
    if (row == kNoRow) break;
    OUTRIDER_CHECK(row >= end_row, "what is asked of rows is given by rising row");
    const bool is_walk = row == root;
    const auto rows =
        is_walk ? static_cast<uint32_t>(1 + run_->walks[walks_.end].nodes.size()) : 1u;
    OUTRIDER_CHECK(rows <= band_row_count_max_, "a walk is no larger than an engine's trees");
    if (band_.size() + rows > band_row_count_max_) break;

    end_row = row + rows;
    OUTRIDER_CHECK(end_row <= places_.size(), "only rows of the run are asked about");
    for (; row < end_row; ++row) {
      places_[row] = static_cast<uint32_t>(band_.size());
      band_.push_back(row);
    }
    if (is_walk) ++walks_.end;
    while (rankings_.end < run_->rankings.size() && run_->rankings[rankings_.end].row < end_row) {
      ++rankings_.end;
    }
    while (logits_.end < run_->logits.size() && run_->logits[logits_.end].row < end_row) {
      ++logits_.end;
    }
  }
  return band_;
}

void Answers::Answer(const LogitRows& logits) {
  for (size_t i = logits_.begin; i < logits_.end; ++i) {
    const LogitsOfRow& asked = run_->logits[i];
    std::ranges::copy(LogitsOf(asked.row, logits), asked.out.begin());
  }
  const size_t walk_count = walks_.end - walks_.begin;
  const size_t ranking_count = rankings_.end - rankings_.begin;
  pool_.ParallelRanges(walk_count + ranking_count, [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) {
      if (i < walk_count) {
        TakeWalk(run_->walks[walks_.begin + i], logits, workers_[worker]);
      } else {
        TakeRanking(run_->rankings[rankings_.begin + i - walk_count], logits, workers_[worker]);
      }
    }
  });
}

std::span<const float> Answers::LogitsOf(uint32_t row, const LogitRows& logits) const {
  return logits.row(places_[row]);
}

bool Answers::TakesLargest() const {
  if (rankings_.begin < rankings_.end || logits_.begin < logits_.end) return false;
  const auto walks = run_->walks.subspan(walks_.begin, walks_.end - walks_.begin);
  return std::ranges::all_of(walks, [&](const TreeWalk& walk) {
    const SamplingOptions& options = walk.chooser->options();
    return options.greedy() && !options.penalizes() && options.logit_bias.empty() &&
           static_cast<uint32_t>(walk.chooser->vocabulary_size()) >= info_.vocabulary_size;
  });
}

void Answers::Answer(std::span<const TokenId> largest) {
  for (size_t i = walks_.begin; i < walks_.end; ++i) {
    TreeWalk& walk = run_->walks[i];
    const auto choose = [&](uint32_t row, std::span<const TokenId>) -> absl::StatusOr<TokenId> {
      return largest[places_[row]];
    };
    WalkBy(choose, walk, workers_.front());
  }
}

// --- choices ---

// choose(row, above)
template <typename Choose>
void Answers::WalkBy(const Choose& choose, TreeWalk& walk, Worker& worker) const {
  const auto choose_at = [&](uint32_t node, std::span<const TokenId> above) {
    return choose(walk.root_row + (node == DraftedNode::kRoot ? 0 : 1 + node), above);
  };
  const absl::StatusOr<Outcome> outcome = WalkDown(walk.nodes, worker.path, choose_at);
  walk.status = outcome.status();
  if (outcome.ok()) walk.outcome = *outcome;
}

void Answers::TakeWalk(TreeWalk& walk, const LogitRows& logits, Worker& worker) const {
  const Chooser& chooser = *walk.chooser;
  ChooserScratch& scratch = worker.room.ScratchFor(chooser);
  const auto choose = [&](uint32_t row, std::span<const TokenId> above) -> absl::StatusOr<TokenId> {
    const NodeHistory history = {*walk.history, above};
    const auto index = static_cast<uint32_t>(history.size());
    absl::StatusOr<TokenId> chosen =
        chooser.Choose(worker.room.Fit(LogitsOf(row, logits), chooser), index, history, scratch);
    if (!chosen.ok()) {
      return FailedPrecondition(ModelOf(info_), ": no token can be chosen for position ", index,
                                ": ", Message(chosen.status()));
    }
    return chosen;
  };
  WalkBy(choose, walk, worker);
}

void Answers::TakeRanking(Ranking& ranking, const LogitRows& logits, Worker& worker) const {
  const Chooser& chooser = *ranking.chooser;
  const NodeHistory history = {*ranking.history, ranking.ancestors};
  ranking.status = chooser.Rank(worker.room.Fit(LogitsOf(ranking.row, logits), chooser),
                                static_cast<uint32_t>(history.size()), history, ranking.count,
                                worker.room.ScratchFor(chooser), *ranking.ranked);
  if (ranking.status.ok()) return;
  ranking.status = FailedPrecondition(ModelOf(info_), ": ", Message(ranking.status));
}

}  // namespace outrider
