#include "common/engine/exit_heads.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "common/base/clock.h"
#include "common/base/portable_math.h"
#include "common/base/status.h"

namespace outrider {
namespace {

static_assert(ExitEvidence::kRankedMax == ExitRanking::kMax);

// What part each of some ranked tokens has in what an exit makes of them: p of exit_guess.h.
class Likelihood {
 public:
  Likelihood(std::span<const Ranked> ranked, float kappa) : ranked_(ranked), kappa_(kappa) {
    for (const Ranked& one : ranked_) total_ += Weight(one);
  }

  float Of(TokenId token) const {
    const auto found = std::ranges::find(ranked_, token, &Ranked::token);
    return found == ranked_.end() ? 0 : static_cast<float>(Weight(*found) / total_);
  }

 private:
  double Weight(const Ranked& one) const {
    return portable::Exp((double{one.score} - double{ranked_[0].score}) / double{kappa_});
  }

  const std::span<const Ranked> ranked_;
  const float kappa_;
  double total_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExitHeads>> ExitHeads::Create(const TrainedExits& exits,
                                                             const std::string& path,
                                                             const Place& place,
                                                             const ExitOptions& options,
                                                             ExitSink& sink) {
  const EngineInfo& info = place.info;
  OUTRIDER_RETURN_IF_ERROR(CheckExits(exits.target, path, place.spec, info.content_hash));
  std::unique_ptr<ExitScorer> scorer;
  if (place.head != nullptr) {
    const ExitScorerOptions scorer_options = {
        .scope = options.scope,
        .row_count_max = ScoredRows(info.node_count_max),
        .round_token_max = RoundTokens(info.row_count_max, options)};
    OUTRIDER_ASSIGN_OR_RETURN(
        scorer, ExitScorer::Create(exits, path, place.spec, info.content_hash, *place.head,
                                   place.kernels, place.pool, scorer_options));
  }
  std::unique_ptr<ExitHeads> heads(new ExitHeads(exits, place, std::move(scorer), options, sink));
  heads->TakeMemory(info);
  return heads;
}

ExitHeads::ExitHeads(const TrainedExits& exits, const Place& place,
                     std::unique_ptr<ExitScorer> scorer, const ExitOptions& options, ExitSink& sink)
    : vocabulary_size_(static_cast<int32_t>(place.info.vocabulary_size)),
      layer_count_(place.spec.layer_count()),
      kernels_(place.kernels.rows),
      pool_(place.pool),
      scorer_(std::move(scorer)),
      frequent_tokens_(options.scope == ExitScope::kFull ? std::vector<TokenId>()
                                                         : exits.frequent_tokens),
      options_(options),
      sink_(sink) {
  for (const TrainedExit& exit : exits.exits) {
    exits_.push_back({.layer = exit.layer, .greedy = exit.greedy, .sampled = exit.sampled});
  }
}

void ExitHeads::TakeMemory(const EngineInfo& info) {
  const uint32_t rows = info.row_count_max;
  const uint32_t own_tokens = RoundTokens(rows, options_);
  watched_.reserve(rows);
  own_tokens_.reserve(own_tokens);
  own_ends_.reserve(rows);
  own_columns_.reserve(own_tokens);
  round_tokens_.reserve(own_tokens);
  ranked_.resize(rows * ExitEvidence::kRankedMax);
  rankings_.resize(rows);
  places_.resize(rows);
  gone_after_.resize(rows);
  scored_.resize(rows);
  chances_.resize(rows);
  if (scorer_ == nullptr) {
    round_rows_.reserve(rows);
    round_candidates_.reserve(rows);
  } else {
    hidden_.reserve(scorer_->options().row_count_max);
  }
  const bool full = options_.scope == ExitScope::kFull;
  const size_t scored = full ? info.vocabulary_size : frequent_tokens_.size() + size_t{own_tokens};
  for (uint32_t i = 0; i < pool_.thread_count(); ++i) {
    Worker& worker =
        workers_.emplace_back(info.vocabulary_size, options_.pruning, info.node_count_max);
    worker.path.reserve(info.node_count_max);
    worker.ranked.reserve(ExitEvidence::kRankedMax);
    worker.tokens.reserve(full ? 0 : scored);
    worker.logits.reserve(full ? 0 : scored);
    worker.weights.resize(scored);
  }
}

std::optional<uint32_t> ExitHeads::ExitAfter(uint32_t layer) const {
  const auto exit = std::ranges::find(exits_, layer, &Exit::layer);
  if (exit == exits_.end() || !exit->on) return std::nullopt;
  return static_cast<uint32_t>(exit - exits_.begin());
}

// --- a run begins: who is scored ---

void ExitHeads::BeginRun(std::span<const TreeWalk> walks) {
  const MonotonicTime begin = RealClock().Now();
  walks_ = walks;
  watched_.clear();
  prunes_ = false;
  for (const TreeWalk& walk : walks) {
    const Watched watched = {.walk = &walk,
                             .columns = {},
                             .frequent_count = FrequentCount(walk),
                             .previous = {},
                             .guess = {},
                             .guessed = false,
                             .weighed = false};
    if (!walk.is_guessed && !watched.is_pruned()) continue;
    watched_.push_back(watched);
    prunes_ |= watched.is_pruned();
  }
  std::ranges::fill(gone_after_, kNever);
  if (options_.scope == ExitScope::kCandidates && !watched_.empty()) CollectRound();
  if (scorer_ == nullptr) DescribeRound();
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
  if (scorer_ != nullptr) scorer_->SetRound(round_tokens_);

  own_columns_.clear();
  const auto frequent_count = static_cast<uint32_t>(frequent_tokens_.size());
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
                                     return std::ranges::binary_search(frequent_tokens_, token);
                                   }),
                    own_tokens_.end());
  own_ends_.push_back(own_tokens_.size());
}

// With kFull all tokens are as frequent as any.
uint32_t ExitHeads::FrequentCount(const TreeWalk& walk) const {
  if (options_.scope == ExitScope::kFull) return static_cast<uint32_t>(vocabulary_size_);
  const auto end = std::ranges::lower_bound(frequent_tokens_, walk.chooser->vocabulary_size());
  return static_cast<uint32_t>(end - frequent_tokens_.begin());
}

// Whether its choices are those that a ranking of logits is about. All tokens are ranked whatever a
// chooser knows of them.
bool ExitHeads::AreRanked(const TreeWalk& walk) const {
  return walk.chooser->options().takes_largest() &&
         (options_.scope == ExitScope::kCandidates ||
          walk.chooser->vocabulary_size() >= vocabulary_size_);
}

void ExitHeads::DescribeRound() {
  round_rows_.clear();
  round_candidates_.clear();
  for (const Watched& watched : watched_) {
    const ExitCandidates candidates = {
        .frequent_count = watched.frequent_count,
        .own_first = watched.columns.empty()
                         ? 0
                         : static_cast<uint32_t>(watched.columns.data() - own_columns_.data()),
        .own_count = static_cast<uint32_t>(watched.columns.size()),
        .are_ranked = AreRanked(*watched.walk)};
    for (uint32_t i = 0; i < watched.row_count(); ++i) {
      round_rows_.push_back(watched.root_row() + i);
      round_candidates_.push_back(candidates);
    }
  }
  const bool full = options_.scope == ExitScope::kFull;
  round_ = {.tokens = full ? std::span<const TokenId>() : round_tokens_,
            .rows = round_rows_,
            .candidates = round_candidates_,
            .own_columns = full ? std::span<const uint32_t>() : own_columns_};
}

// --- after a layer: what they say ---

void ExitHeads::AfterLayer(uint32_t layer, LayerView& view) {
  const auto exit = std::ranges::find(exits_, layer, &Exit::layer);
  if (exit == exits_.end() || watched_.empty() || !(exit->on || prunes_)) return;
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
  const auto scoring = prunes_ ? std::ssize(exits_) : std::ranges::count(exits_, true, &Exit::on);
  sink_.OnExitTime(index, RealClock().Now() - begin + preparation_ / scoring);
}

void ExitHeads::Hear(uint32_t layer, const Scores& scores) {
  const std::optional<uint32_t> exit = ExitAfter(layer);
  OUTRIDER_CHECK(exit && scorer_ == nullptr, "what is heard has been scored elsewhere");
  const MonotonicTime begin = RealClock().Now();
  for (uint32_t i = 0; i < round_rows_.size(); ++i) places_[round_rows_[i]] = i;
  uint32_t place = 0;
  for (Watched& watched : watched_) {
    const bool is_scored = IsScored(*exit, watched);
    for (uint32_t i = 0; i < watched.row_count(); ++i, ++place) {
      scored_[watched.root_row() + i] = is_scored ? place : kGone;
    }
  }
  Judge(*exit, watched_, scores);
  sink_.OnExitTime(*exit, RealClock().Now() - begin +
                              preparation_ / std::ranges::count(exits_, true, &Exit::on));
}

void ExitHeads::FindRows(std::span<const uint32_t> rows) {
  std::ranges::fill(places_, kGone);
  for (size_t i = 0; i < rows.size(); ++i) places_[rows[i]] = static_cast<uint32_t>(i);
}

bool ExitHeads::IsScored(uint32_t exit, Watched& watched) const {
  const bool is_there = places_[watched.root_row()] != kGone;
  watched.guessed = false;
  watched.weighed = is_there && watched.is_pruned() && CanBePruned(watched);
  return is_there && (watched.weighed || (exits_[exit].on && watched.walk->is_guessed));
}

void ExitHeads::ScoreBand(uint32_t exit, std::span<Watched> band, LayerView& view) {
  hidden_.clear();
  for (Watched& watched : band) {
    const uint32_t root_row = watched.root_row();
    const bool is_scored = IsScored(exit, watched);
    for (uint32_t row = root_row; row < root_row + watched.row_count(); ++row) {
      scored_[row] = kGone;
      if (!is_scored || places_[row] == kGone) continue;
      scored_[row] = static_cast<uint32_t>(hidden_.size());
      hidden_.push_back(view.hidden(places_[row]).data());
    }
  }
  if (hidden_.empty()) return;
  Judge(exit, band, {.logits = scorer_->Score(exit, hidden_)});
  for (const Watched& watched : band) {
    if (watched.walk->pruning != Pruning::kOn) continue;
    for (uint32_t row = watched.root_row(); row < watched.root_row() + watched.row_count(); ++row) {
      if (gone_after_[row] == exits_[exit].layer) view.Drop(places_[row]);
    }
  }
}

void ExitHeads::Judge(uint32_t exit, std::span<Watched> band, const Scores& scores) {
  const auto judge = [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) {
      if (scored_[band[i].root_row()] == kGone) continue;
      if (exits_[exit].on && band[i].walk->is_guessed) {
        Guess(exit, band[i], scores, workers_[worker]);
      }
      if (band[i].weighed) Prune(exit, band[i], scores, workers_[worker]);
    }
  };
  if (band.size() == 1) {  // sooner than others are told of it
    judge(0, 1, 0);
  } else {
    pool_.ParallelRanges(band.size(), judge);
  }
  for (Watched& watched : band) {
    if (!watched.guessed) continue;
    watched.previous = watched.guess.outcome;
    sink_.OnGuess(watched.guess);
  }
}

// Whether pruning could take nodes out of what is left of a walk: there are more than have to stay,
// and they are no chain, which is its own backbone.
bool ExitHeads::CanBePruned(const Watched& watched) const {
  const std::span<const DraftedNode> nodes = watched.walk->nodes;
  uint32_t there_count = 0;
  uint32_t newest = DraftedNode::kRoot;
  bool is_chain = true;
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (!IsThere(watched.root_row() + 1 + i)) continue;
    ++there_count;
    is_chain = is_chain && nodes[i].parent == newest;
    newest = i;
  }
  return there_count > options_.pruning.node_count_min && !is_chain;
}

const std::optional<ExitCalibration>& ExitHeads::CalibrationOf(uint32_t exit,
                                                               const TreeWalk& walk) const {
  return walk.chooser->options().greedy() ? exits_[exit].greedy : exits_[exit].sampled;
}

void ExitHeads::Guess(uint32_t exit, Watched& watched, const Scores& scores, Worker& worker) {
  const uint32_t root_row = watched.root_row();
  const TreeWalk& walk = *watched.walk;
  const std::optional<ExitCalibration>& calibration = CalibrationOf(exit, walk);
  const float kappa = calibration ? calibration->kappa : 1.0f;
  ExitEvidence evidence;
  size_t ranking_count = 0;
  const auto choose = [&](uint32_t node, std::span<const TokenId> path) -> absl::StatusOr<TokenId> {
    const uint32_t row = node == DraftedNode::kRoot ? root_row : root_row + 1 + node;
    OUTRIDER_RETURN_IF_ERROR(RankRow(watched, scored_[row], scores, {*walk.history, path}, worker));
    const size_t place = root_row + ranking_count++;
    const auto copy = ranked_.begin() + static_cast<ptrdiff_t>(place * ExitEvidence::kRankedMax);
    rankings_[place] = {copy, std::ranges::copy(worker.ranked, copy).out};
    evidence.AddChoice(worker.ranked, kappa);
    evidence.largest_softmax = LargestSoftmax(watched, scored_[row], scores, worker);
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

// Of the nodes that are there, some are not any more: in gone_after_.
void ExitHeads::Prune(uint32_t exit, const Watched& watched, const Scores& scores, Worker& worker) {
  const std::span<const DraftedNode> nodes = watched.walk->nodes;
  const uint32_t first_row = watched.root_row() + 1;
  const auto chances = std::span(chances_).subspan(first_row, nodes.size());
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    chances[i] = IsThere(first_row + i) ? std::optional(0.0f) : std::nullopt;
  }
  WeighChildren(exit, watched, DraftedNode::kRoot, scores, worker);
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (chances[i]) WeighChildren(exit, watched, i, scores, worker);
  }
  const std::span<const bool> stays = worker.pruning.Choose(nodes, chances);
  for (uint32_t i = 0; i < nodes.size(); ++i) {
    if (chances[i] && !stays[i]) gone_after_[first_row + i] = exits_[exit].layer;
  }
}

// The chances of a node's children that are there, each among all candidates. Where logits are no
// numbers nothing speaks against any of them.
void ExitHeads::WeighChildren(uint32_t exit, const Watched& watched, uint32_t node,
                              const Scores& scores, Worker& worker) {
  const TreeWalk& walk = *watched.walk;
  const std::span<const DraftedNode> nodes = walk.nodes;
  const auto chances = std::span(chances_).subspan(watched.root_row() + 1, nodes.size());
  const auto is_child = [&](uint32_t i) { return nodes[i].parent == node && chances[i]; };
  uint32_t first = 0;
  while (first < nodes.size() && !is_child(first)) ++first;
  if (first == nodes.size()) return;
  worker.path.clear();
  for (uint32_t n = node; n != DraftedNode::kRoot; n = nodes[n].parent) {
    worker.path.push_back(nodes[n].token);
  }
  std::ranges::reverse(worker.path);
  const uint32_t row = watched.root_row() + (node == DraftedNode::kRoot ? 0 : 1 + node);
  const bool is_ranked =
      RankRow(watched, scored_[row], scores, {*walk.history, worker.path}, worker).ok();
  const std::optional<ExitCalibration>& calibration = CalibrationOf(exit, walk);
  const Likelihood likelihood(worker.ranked, calibration ? calibration->kappa : 1.0f);
  for (uint32_t i = first; i < nodes.size(); ++i) {
    if (is_child(i)) chances[i] = is_ranked ? likelihood.Of(nodes[i].token) : 1.0f;
  }
}

void ExitHeads::Conclude(std::span<TreeWalk> walks) const {
  for (const Watched& watched : watched_) {
    if (!watched.is_pruned()) continue;
    TreeWalk& walk = walks[static_cast<size_t>(watched.walk - walks_.data())];
    const uint32_t first_row = walk.root_row + 1;
    for (uint32_t i = 0; i < walk.nodes.size(); ++i) {
      const uint32_t layer = gone_after_[first_row + i];
      if (layer == kNever) continue;
      ++walk.pruned.node_count;
      walk.pruned.rows += 1 - static_cast<float>(layer + 1) / static_cast<float>(layer_count_);
    }
    if (!walk.status.ok()) continue;
    for (uint32_t n = walk.outcome.node; n != DraftedNode::kRoot; n = walk.nodes[n].parent) {
      if (gone_after_[first_row + n] != kNever) ++walk.pruned.lost_count;
    }
  }
}

// Of the row-th that is scored: into worker.ranked.
absl::Status ExitHeads::RankRow(const Watched& watched, uint32_t row, const Scores& scores,
                                const NodeHistory& history, Worker& worker) const {
  if (scores.rankings.empty() || !AreRanked(*watched.walk)) {
    return RankByLogits(watched, scores.logits.row(row), history, worker);
  }
  const ExitRanking& ranking = scores.rankings[row];
  worker.ranked.clear();
  if (ranking.count == 0) return InvalidArgument("no candidate can be told from the others");
  for (uint32_t i = 0; i < ranking.count; ++i) {
    worker.ranked.push_back({static_cast<TokenId>(ranking.tokens[i]), ranking.scores[i]});
  }
  return absl::OkStatus();
}

absl::Status ExitHeads::RankByLogits(const Watched& watched, std::span<const float> logits,
                                     const NodeHistory& history, Worker& worker) const {
  const Chooser& chooser = *watched.walk->chooser;
  ChooserScratch& scratch = worker.room.ScratchFor(chooser);
  const auto index = static_cast<uint32_t>(history.size());
  if (options_.scope == ExitScope::kFull) {
    return chooser.Rank(worker.room.Fit(logits, chooser), index, history, ExitEvidence::kRankedMax,
                        scratch, worker.ranked);
  }
  // Two rising lists become one.
  worker.tokens.clear();
  worker.logits.clear();
  size_t own = 0;
  const auto token_of = [&](uint32_t column) {
    return round_tokens_[column - frequent_tokens_.size()];
  };
  const auto add_own = [&](uint32_t column) {
    worker.tokens.push_back(token_of(column));
    worker.logits.push_back(logits[column]);
  };
  for (size_t i = 0; i < watched.frequent_count; ++i) {
    while (own < watched.columns.size() && token_of(watched.columns[own]) < frequent_tokens_[i]) {
      add_own(watched.columns[own++]);
    }
    worker.tokens.push_back(frequent_tokens_[i]);
    worker.logits.push_back(logits[i]);
  }
  while (own < watched.columns.size()) add_own(watched.columns[own++]);
  if (worker.tokens.empty()) return FailedPrecondition("there is no candidate");
  return chooser.RankAmong(worker.tokens, worker.logits, index, history, ExitEvidence::kRankedMax,
                           scratch, worker.ranked);
}

// Frequent tokens come before the walk's own, over sixteen lanes: as a GPU adds them up.
float ExitHeads::LargestSoftmax(const Watched& watched, uint32_t row, const Scores& scores,
                                Worker& worker) const {
  if (!scores.rankings.empty() && AreRanked(*watched.walk)) {
    return scores.rankings[row].largest_softmax;
  }
  const std::span<const float> logits = scores.logits.row(row);
  const auto weights =
      std::span(worker.weights).first(watched.frequent_count + watched.columns.size());
  std::ranges::copy(logits.first(watched.frequent_count), weights.begin());
  std::ranges::transform(watched.columns, weights.subspan(watched.frequent_count).begin(),
                         [&](uint32_t column) { return logits[column]; });
  const float largest = std::ranges::max(weights);
  for (float& weight : weights) weight = weight - largest;
  kernels_.exp(weights.data(), static_cast<uint32_t>(weights.size()), weights.data());
  std::array<float, 16> lanes = {};
  for (size_t i = 0; i < weights.size(); ++i) lanes[i % lanes.size()] += weights[i];
  for (size_t width = lanes.size() / 2; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return 1 / lanes[0];
}

}  // namespace outrider
