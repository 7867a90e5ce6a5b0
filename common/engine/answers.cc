#include "common/engine/answers.h"

#include <algorithm>
#include <limits>
#include <numeric>
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
      indices_(info.row_count_max),
      chosen_(info.row_count_max),
      places_(info.row_count_max, kNoRow) {
  progress_.reserve(info.row_count_max);
  band_walks_.reserve(band_row_count_max);
  band_.reserve(band_row_count_max);
  band_rows_.reserve(band_row_count_max);
  for (uint32_t i = 0; i < pool.thread_count(); ++i) {
    // Not emplace_back(): clang 14 cannot make an aggregate of parentheses.
    workers_.push_back({ChoosingRoom(info.vocabulary_size), {}});
    workers_.back().path.reserve(info.node_count_max);
  }
}

void Answers::Begin(EngineRun& run) {
  run_ = &run;
  by_path_ = false;
  std::iota(indices_.begin(), indices_.end(), 0);
  progress_.assign(run.walks.size(), {});
  std::ranges::fill(chosen_, std::nullopt);
  ClearBand();
  rankings_ = logits_ = {};
  walks_begun_ = 0;
}

void Answers::Begin(EngineRun& run, std::span<const uint32_t> rows, bool by_path) {
  Begin(run);
  by_path_ = by_path;
  std::ranges::fill(indices_, kNoRow);
  for (uint32_t i = 0; i < rows.size(); ++i) indices_[rows[i]] = i;
}

bool Answers::IsThere(uint32_t row) const {
  return indices_[row] != kNoRow;
}

std::span<const uint32_t> Answers::NextBand() {
  ClearBand();
  FillWithRows();
  if (by_path_ && band_.empty()) FillWithPaths();
  return band_;
}

void Answers::ClearBand() {
  for (const uint32_t row : band_rows_) places_[row] = kNoRow;
  band_.clear();
  band_rows_.clear();
  band_walks_.clear();
  for (Range* const range : {&rankings_, &logits_}) range->begin = range->end;
}

void Answers::AddRow(uint32_t row) {
  places_[row] = static_cast<uint32_t>(band_.size());
  band_.push_back(indices_[row]);
  band_rows_.push_back(row);
}

// Whatever is asked by rising row: copies, rankings, and walks that are in a band as a whole.
void Answers::FillWithRows() {
  uint32_t end_row = 0;  // of the rows in the band, all that was asked about before it is
  for (;;) {
    const bool walks_left = !by_path_ && walks_begun_ < run_->walks.size();
    const uint32_t root = walks_left ? run_->walks[walks_begun_].root_row : kNoRow;
    uint32_t row = root;
    if (rankings_.end < run_->rankings.size()) {
      row = std::min(row, run_->rankings[rankings_.end].row);
    }
    if (logits_.end < run_->logits.size()) row = std::min(row, run_->logits[logits_.end].row);
    if (row == kNoRow) break;
    OUTRIDER_CHECK(row >= end_row, "what is asked of rows is given by rising row");
    const bool is_walk = row == root;
    const auto rows =
        is_walk ? static_cast<uint32_t>(1 + run_->walks[walks_begun_].nodes.size()) : 1u;
    OUTRIDER_CHECK(rows <= band_row_count_max_, "a walk is no larger than an engine's trees");
    if (band_.size() + rows > band_row_count_max_) break;

    end_row = row + rows;
    OUTRIDER_CHECK(end_row <= places_.size(), "only rows of the run are asked about");
    OUTRIDER_CHECK(IsThere(row), "what is asked of a row is asked of one that is there");
    for (; row < end_row; ++row) {
      if (IsThere(row)) AddRow(row);
    }
    if (is_walk) band_walks_.push_back(walks_begun_++);
    while (rankings_.end < run_->rankings.size() && run_->rankings[rankings_.end].row < end_row) {
      ++rankings_.end;
    }
    while (logits_.end < run_->logits.size() && run_->logits[logits_.end].row < end_row) {
      ++logits_.end;
    }
  }
}

// Of every walk that has not come to its end.
void Answers::FillWithPaths() {
  for (size_t i = 0; i < progress_.size() && band_.size() < band_row_count_max_; ++i) {
    if (progress_[i].is_over) continue;
    band_walks_.push_back(i);
    AddPath(run_->walks[i], progress_[i].node);
  }
}

// The row at which a walk stands, and those of first children from there on.
void Answers::AddPath(const TreeWalk& walk, uint32_t node) {
  OUTRIDER_CHECK(IsThere(RowOf(walk, node)), "a walk comes to rows that are there");
  for (;;) {
    AddRow(RowOf(walk, node));
    if (band_.size() == band_row_count_max_) return;
    uint32_t child = 0;
    while (child < walk.nodes.size() &&
           !(walk.nodes[child].parent == node && IsThere(RowOf(walk, child)))) {
      ++child;
    }
    if (child == walk.nodes.size()) return;
    node = child;
  }
}

void Answers::Answer(const LogitRows& logits) {
  for (size_t i = logits_.begin; i < logits_.end; ++i) {
    const LogitsOfRow& asked = run_->logits[i];
    std::ranges::copy(LogitsOf(asked.row, logits), asked.out.begin());
  }
  const size_t walk_count = band_walks_.size();
  const size_t ranking_count = rankings_.end - rankings_.begin;
  pool_.ParallelRanges(walk_count + ranking_count, [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) {
      if (i < walk_count) {
        TakeWalk(band_walks_[i], logits, workers_[worker]);
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
  return std::ranges::all_of(band_walks_, [&](size_t index) {
    const Chooser& chooser = *run_->walks[index].chooser;
    return chooser.options().takes_largest() &&
           static_cast<uint32_t>(chooser.vocabulary_size()) >= info_.vocabulary_size;
  });
}

void Answers::Answer(std::span<const TokenId> largest) {
  for (const size_t index : band_walks_) {
    const auto choose = [&](uint32_t row, std::span<const TokenId>) -> absl::StatusOr<TokenId> {
      return largest[places_[row]];
    };
    WalkBy(choose, index, workers_.front());
  }
}

// --- choices ---

// choose(row, above), for rows in the band. From the root down each time, by what was chosen
// before.
template <typename Choose>
void Answers::WalkBy(const Choose& choose, size_t index, Worker& worker) {
  TreeWalk& walk = run_->walks[index];
  Progress& progress = progress_[index];
  progress.is_over = true;
  const auto choose_at = [&](uint32_t node,
                             std::span<const TokenId> above) -> absl::StatusOr<TokenId> {
    const uint32_t row = RowOf(walk, node);
    if (chosen_[row]) return *chosen_[row];
    if (places_[row] == kNoRow) {
      progress = {.is_over = false, .node = node};
      return absl::CancelledError();
    }
    OUTRIDER_ASSIGN_OR_RETURN(chosen_[row], choose(row, above));
    return *chosen_[row];
  };
  const auto is_there = [&](uint32_t node) { return IsThere(RowOf(walk, node)); };
  const absl::StatusOr<Outcome> outcome = WalkDown(walk.nodes, worker.path, choose_at, is_there);
  if (!progress.is_over) return;  // the next band has what it wants
  walk.status = outcome.status();
  if (outcome.ok()) walk.outcome = *outcome;
}

void Answers::TakeWalk(size_t index, const LogitRows& logits, Worker& worker) {
  const TreeWalk& walk = run_->walks[index];
  const Chooser& chooser = *walk.chooser;
  ChooserScratch& scratch = worker.room.ScratchFor(chooser);
  const auto choose = [&](uint32_t row, std::span<const TokenId> above) -> absl::StatusOr<TokenId> {
    const NodeHistory history = {*walk.history, above};
    const auto position = static_cast<uint32_t>(history.size());
    absl::StatusOr<TokenId> chosen =
        chooser.Choose(worker.room.Fit(LogitsOf(row, logits), chooser), position, history, scratch);
    if (!chosen.ok()) {
      return FailedPrecondition(ModelOf(info_), ": no token can be chosen for position ", position,
                                ": ", Message(chosen.status()));
    }
    return chosen;
  };
  WalkBy(choose, index, worker);
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
