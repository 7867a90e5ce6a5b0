#include "common/engine/exit_heads.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Rows scored at once: the largest walk, and a good band of small ones.
constexpr uint32_t kBandRows = 32;

constexpr uint32_t kGone = UINT32_MAX;

}  // namespace

absl::StatusOr<std::unique_ptr<ExitHeads>> ExitHeads::Create(const TrainedExits& exits,
                                                             const std::string& path,
                                                             const Place& place,
                                                             const ExitOptions& options,
                                                             ExitSink& sink) {
  const EngineInfo& info = place.info;
  const ExitScorerOptions scorer_options = {
      .scope = options.scope,
      .row_count_max = std::max(kBandRows, info.node_count_max + 1),
      .round_token_max = info.row_count_max + options.candidate_count_max};
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<ExitScorer> scorer,
      ExitScorer::Create(exits, path, place.spec, info.content_hash, place.head, place.kernels,
                         place.pool, scorer_options));
  std::unique_ptr<ExitHeads> heads(new ExitHeads(exits, place, std::move(scorer), options, sink));
  heads->TakeMemory(info);
  return heads;
}

ExitHeads::ExitHeads(const TrainedExits& exits, const Place& place,
                     std::unique_ptr<ExitScorer> scorer, const ExitOptions& options, ExitSink& sink)
    : vocabulary_size_(static_cast<int32_t>(place.info.vocabulary_size)),
      kernels_(place.kernels.rows),
      pool_(place.pool),
      scorer_(std::move(scorer)),
      options_(options),
      sink_(sink) {
  for (const TrainedExit& exit : exits.exits) {
    exits_.push_back({.layer = exit.layer, .greedy = exit.greedy, .sampled = exit.sampled});
  }
}

void ExitHeads::TakeMemory(const EngineInfo& info) {
  const uint32_t rows = info.row_count_max;
  const uint32_t own_tokens = rows + options_.candidate_count_max;
  watched_.reserve(rows);
  own_tokens_.reserve(own_tokens);
  own_ends_.reserve(rows);
  own_columns_.reserve(own_tokens);
  round_tokens_.reserve(own_tokens);
  ranked_.resize(rows * ExitEvidence::kRankedMax);
  rankings_.resize(rows);
  places_.resize(rows);
  scored_.resize(rows);
  hidden_.reserve(scorer_->options().row_count_max);
  const bool full = options_.scope == ExitScope::kFull;
  const size_t scored =
      full ? info.vocabulary_size : scorer_->frequent_tokens().size() + size_t{own_tokens};
  for (uint32_t i = 0; i < pool_.thread_count(); ++i) {
    Worker& worker = workers_.emplace_back(info.vocabulary_size);
    worker.path.reserve(info.node_count_max);
    worker.ranked.reserve(ExitEvidence::kRankedMax);
    worker.tokens.reserve(full ? 0 : scored);
    worker.logits.reserve(scored);
    worker.weights.resize(scored);
  }
}

bool ExitHeads::StandAfter(uint32_t layer) const {
  return std::ranges::any_of(exits_,
                             [&](const Exit& exit) { return exit.on && exit.layer == layer; });
}

// --- a run begins: who is scored ---

void ExitHeads::BeginRun(std::span<const TreeWalk> walks) {
  const MonotonicTime begin = RealClock().Now();
  walks_ = walks;
  watched_.clear();
  for (const TreeWalk& walk : walks) {
    if (!walk.is_guessed) continue;
    watched_.push_back(
        {.walk = &walk, .columns = {}, .previous = {}, .guess = {}, .guessed = false});
  }
  if (options_.scope == ExitScope::kCandidates && !watched_.empty()) CollectRound();
  preparation_ = RealClock().Now() - begin;
}

void ExitHeads::CollectRound() {
  own_tokens_.clear();
  own_ends_.clear();
  const size_t share = EvenShare();
  for (const Watched& watched : watched_) CollectTokens(*watched.walk, share);
  round_tokens_.assign(own_tokens_.begin(), own_tokens_.end());
  std::ranges::sort(round_tokens_);
  round_tokens_.erase(std::unique(round_tokens_.begin(), round_tokens_.end()), round_tokens_.end());
  scorer_->SetRound(round_tokens_);

  own_columns_.clear();
  const auto frequent_count = static_cast<uint32_t>(scorer_->frequent_tokens().size());
  for (const TokenId token : own_tokens_) {
    const auto place = std::ranges::lower_bound(round_tokens_, token) - round_tokens_.begin();
    own_columns_.push_back(frequent_count + static_cast<uint32_t>(place));
  }
  for (size_t i = 0, begin = 0; i < watched_.size(); begin = own_ends_[i++]) {
    watched_[i].columns = std::span(own_columns_).subspan(begin, own_ends_[i] - begin);
  }
}

// The most that every walk can have of its candidates when all together have no more than there may
// be.
size_t ExitHeads::EvenShare() const {
  const auto wanted = [&](size_t share) {
    size_t sum = 0;
    for (const Watched& watched : watched_) sum += std::min(share, watched.walk->candidates.size());
    return sum;
  };
  size_t fits = 0;
  size_t share = options_.candidate_count_max;
  if (wanted(share) <= share) return share;
  for (size_t over = share; over - fits > 1;) {
    share = (fits + over) / 2;
    (wanted(share) <= options_.candidate_count_max ? fits : over) = share;
  }
  return fits;
}

// Of its nodes and what the draft thought of besides: rising, each once, none of them frequent.
void ExitHeads::CollectTokens(const TreeWalk& walk, size_t candidate_count_max) {
  const auto begin = static_cast<ptrdiff_t>(own_tokens_.size());
  for (const DraftedNode& node : walk.nodes) own_tokens_.push_back(node.token);
  const int32_t vocabulary_size = std::min(vocabulary_size_, walk.chooser->vocabulary_size());
  for (const TokenId token :
       walk.candidates.first(std::min(candidate_count_max, walk.candidates.size()))) {
    if (token >= 0 && token < vocabulary_size) own_tokens_.push_back(token);
  }
  const auto first = own_tokens_.begin() + begin;
  std::sort(first, own_tokens_.end());
  own_tokens_.erase(std::unique(first, own_tokens_.end()), own_tokens_.end());
  own_tokens_.erase(std::remove_if(own_tokens_.begin() + begin, own_tokens_.end(),
                                   [&](TokenId token) {
                                     return std::ranges::binary_search(scorer_->frequent_tokens(),
                                                                       token);
                                   }),
                    own_tokens_.end());
  own_ends_.push_back(own_tokens_.size());
}

// --- after a layer: what they say ---

void ExitHeads::AfterLayer(uint32_t layer, LayerView& view) {
  const auto exit = std::ranges::find(exits_, layer, &Exit::layer);
  if (exit == exits_.end() || !exit->on || watched_.empty()) return;
  const MonotonicTime begin = RealClock().Now();
  const auto index = static_cast<uint32_t>(exit - exits_.begin());
  FindRows(view.rows());
  const uint32_t rows_max = scorer_->options().row_count_max;
  for (size_t first = 0, end = 0; first < watched_.size(); first = end) {
    uint32_t rows = 0;
    while (end < watched_.size() && rows + watched_[end].row_count() <= rows_max) {
      rows += watched_[end++].row_count();
    }
    ScoreBand(index, std::span(watched_).subspan(first, end - first), view);
  }
  // What is done for all exits together is shared out evenly.
  const auto on = std::ranges::count(exits_, true, &Exit::on);
  sink_.OnExitTime(index, RealClock().Now() - begin + preparation_ / on);
}

void ExitHeads::FindRows(std::span<const uint32_t> rows) {
  std::ranges::fill(places_, kGone);
  for (size_t i = 0; i < rows.size(); ++i) places_[rows[i]] = static_cast<uint32_t>(i);
}

void ExitHeads::ScoreBand(uint32_t exit, std::span<Watched> band, const LayerView& view) {
  hidden_.clear();
  for (const Watched& watched : band) {
    const uint32_t root_row = watched.root_row();
    for (uint32_t row = root_row; row < root_row + watched.row_count(); ++row) {
      scored_[row] = kGone;
      if (places_[root_row] == kGone || places_[row] == kGone) continue;
      scored_[row] = static_cast<uint32_t>(hidden_.size());
      hidden_.push_back(view.hidden(places_[row]).data());
    }
  }
  if (hidden_.empty()) return;
  const ExitLogits logits = scorer_->Score(exit, hidden_);
  pool_.ParallelRanges(band.size(), [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) Guess(exit, band[i], logits, workers_[worker]);
  });
  for (Watched& watched : band) {
    if (!watched.guessed) continue;
    watched.previous = watched.guess.outcome;
    sink_.OnGuess(watched.guess);
  }
}

void ExitHeads::Guess(uint32_t exit, Watched& watched, const ExitLogits& logits, Worker& worker) {
  watched.guessed = false;
  const uint32_t root_row = watched.root_row();
  if (scored_[root_row] == kGone) return;
  const TreeWalk& walk = *watched.walk;
  const std::optional<ExitCalibration>& calibration =
      walk.chooser->options().greedy() ? exits_[exit].greedy : exits_[exit].sampled;
  const float kappa = calibration ? calibration->kappa : 1.0f;
  ExitEvidence evidence;
  size_t ranking_count = 0;
  const auto choose = [&](uint32_t node, std::span<const TokenId> path) -> absl::StatusOr<TokenId> {
    const uint32_t row = node == DraftedNode::kRoot ? root_row : root_row + 1 + node;
    OUTRIDER_RETURN_IF_ERROR(
        RankRow(watched, logits.row(scored_[row]), {*walk.history, path}, worker));
    const size_t place = root_row + ranking_count++;
    const auto copy = ranked_.begin() + static_cast<ptrdiff_t>(place * ExitEvidence::kRankedMax);
    rankings_[place] = {copy, std::ranges::copy(worker.ranked, copy).out};
    evidence.AddChoice(worker.ranked, kappa);
    evidence.largest_softmax = LargestSoftmax(worker);
    return worker.ranked[0].token;
  };
  const auto is_there = [&](uint32_t node) { return scored_[root_row + 1 + node] != kGone; };
  const absl::StatusOr<Outcome> outcome = WalkDown(walk.nodes, worker.path, choose, is_there);
  watched.guessed = outcome.ok();
  if (!outcome.ok()) return;
  evidence.agrees_with_previous = watched.previous && watched.previous->node == outcome->node &&
                                  watched.previous->next == outcome->next;
  evidence.agrees_with_first_draft = FollowsFirstDraft(walk.nodes, outcome->node);
  watched.guess = {.exit = exit,
                   .layer = exits_[exit].layer,
                   .walk = static_cast<size_t>(watched.walk - walks_.data()),
                   .outcome = *outcome,
                   .evidence = evidence,
                   .probability = calibration ? ProbabilityOf(evidence, *calibration)
                                              : UncalibratedProbabilityOf(evidence),
                   .ranked = std::span(rankings_).subspan(root_row, ranking_count)};
}

// Into worker.ranked; the logits scored for this walk into worker.logits.
absl::Status ExitHeads::RankRow(const Watched& watched, std::span<const float> logits,
                                const NodeHistory& history, Worker& worker) const {
  const Chooser& chooser = *watched.walk->chooser;
  ChooserScratch& scratch = worker.room.ScratchFor(chooser);
  const auto index = static_cast<uint32_t>(history.size());
  if (options_.scope == ExitScope::kFull) {
    worker.logits.assign(logits.begin(), logits.end());
    return chooser.Rank(worker.room.Fit(logits, chooser), index, history, ExitEvidence::kRankedMax,
                        scratch, worker.ranked);
  }
  // Two rising lists become one.
  worker.tokens.clear();
  worker.logits.clear();
  const std::span<const TokenId> frequent = scorer_->frequent_tokens();
  size_t own = 0;
  const auto token_of = [&](uint32_t column) { return round_tokens_[column - frequent.size()]; };
  const auto add_own = [&](uint32_t column) {
    worker.tokens.push_back(token_of(column));
    worker.logits.push_back(logits[column]);
  };
  for (size_t i = 0; i < frequent.size() && frequent[i] < chooser.vocabulary_size(); ++i) {
    while (own < watched.columns.size() && token_of(watched.columns[own]) < frequent[i]) {
      add_own(watched.columns[own++]);
    }
    worker.tokens.push_back(frequent[i]);
    worker.logits.push_back(logits[i]);
  }
  while (own < watched.columns.size()) add_own(watched.columns[own++]);
  if (worker.tokens.empty()) return FailedPrecondition("there is no candidate");
  return chooser.RankAmong(worker.tokens, worker.logits, index, history, ExitEvidence::kRankedMax,
                           scratch, worker.ranked);
}

float ExitHeads::LargestSoftmax(Worker& worker) const {
  const float largest = std::ranges::max(worker.logits);
  const std::span<float> weights = std::span(worker.weights).first(worker.logits.size());
  std::ranges::transform(worker.logits, weights.begin(),
                         [&](float logit) { return logit - largest; });
  kernels_.exp(weights.data(), static_cast<uint32_t>(weights.size()), weights.data());
  float sum = 0;
  for (const float weight : weights) sum += weight;
  return 1 / sum;
}

}  // namespace outrider
