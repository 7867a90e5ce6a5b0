#include "common/model/exit_heads.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// Rows scored at once: the largest pass, and a good band of small ones.
constexpr uint32_t kBandRows = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<ExitHeads>> ExitHeads::Create(
    const TrainedExits& exits, const std::string& path, const CpuTarget& target,
    const Kernels& kernels, ThreadPool& pool, const ExitHeadsOptions& options, Listener listener) {
  const ExitScorerOptions scorer_options = {
      .scope = options.scope,
      .row_count_max = std::max(kBandRows, target.info().node_count_max + 1),
      .round_token_max = target.row_count_max() + options.candidate_count_max};
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<ExitScorer> scorer,
      ExitScorer::Create(exits, path, target.spec(), target.content_hash(), target.outer_weights(),
                         kernels, pool, scorer_options));
  std::unique_ptr<ExitHeads> heads(
      new ExitHeads(exits, kernels.rows, pool, std::move(scorer), options, std::move(listener)));
  heads->TakeMemory(target);
  return heads;
}

ExitHeads::ExitHeads(const TrainedExits& exits, const RowKernels& kernels, ThreadPool& pool,
                     std::unique_ptr<ExitScorer> scorer, const ExitHeadsOptions& options,
                     Listener listener)
    : kernels_(kernels),
      pool_(pool),
      scorer_(std::move(scorer)),
      options_(options),
      listener_(std::move(listener)) {
  for (const TrainedExit& exit : exits.exits) {
    exits_.push_back({.layer = exit.layer, .greedy = exit.greedy, .sampled = exit.sampled});
  }
}

void ExitHeads::TakeMemory(const CpuTarget& target) {
  const uint32_t rows = target.row_count_max();
  const uint32_t own_tokens = rows + options_.candidate_count_max;
  watched_.reserve(rows);
  own_tokens_.reserve(own_tokens);
  own_ends_.reserve(rows);
  own_columns_.reserve(own_tokens);
  round_tokens_.reserve(own_tokens);
  ranked_.resize(rows * ExitEvidence::kRankedMax);
  rankings_.resize(rows);
  hidden_.reserve(scorer_->options().row_count_max);
  const bool full = options_.scope == ExitScope::kFull;
  const size_t scored =
      full ? target.info().vocabulary_size : scorer_->frequent_tokens().size() + size_t{own_tokens};
  for (uint32_t i = 0; i < pool_.thread_count(); ++i) {
    Worker& worker = workers_.emplace_back(static_cast<int32_t>(target.info().vocabulary_size));
    worker.path.reserve(target.info().node_count_max);
    worker.ranked.reserve(ExitEvidence::kRankedMax);
    worker.tokens.reserve(full ? 0 : scored);
    worker.logits.reserve(full ? 0 : scored);
    worker.weights.resize(scored);
  }
}

// --- a run begins: who is scored ---

void ExitHeads::BeginRun(std::span<const RunningPass> passes) {
  watched_.clear();
  for (const RunningPass& running : passes) {
    watched_.push_back(
        {.running = &running, .columns = {}, .previous = {}, .guess = {}, .guessed = false});
  }
  if (options_.scope == ExitScope::kFull) return;

  own_tokens_.clear();
  own_ends_.clear();
  candidate_count_ = 0;
  for (const RunningPass& running : passes) CollectTokens(*running.pass);
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

// Of its nodes and what the draft thought of besides: rising, each once, none of them frequent.
void ExitHeads::CollectTokens(const Pass& pass) {
  const auto begin = static_cast<ptrdiff_t>(own_tokens_.size());
  for (const DraftedNode& node : pass.nodes) own_tokens_.push_back(node.token);
  const auto vocabulary_size = pass.chooser->vocabulary_size();
  for (const TokenId token : pass.candidates) {
    if (candidate_count_ == options_.candidate_count_max) break;
    if (token < 0 || token >= vocabulary_size) continue;
    own_tokens_.push_back(token);
    ++candidate_count_;
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
  if (exit == exits_.end() || !exit->on) return;
  const auto index = static_cast<uint32_t>(exit - exits_.begin());
  const uint32_t rows_max = scorer_->options().row_count_max;
  for (size_t begin = 0, end = 0; begin < watched_.size(); begin = end) {
    uint32_t rows = 0;
    while (end < watched_.size() && rows + watched_[end].running->row_count() <= rows_max) {
      rows += watched_[end++].running->row_count();
    }
    ScoreBand(index, std::span(watched_).subspan(begin, end - begin), view);
  }
}

void ExitHeads::ScoreBand(uint32_t exit, std::span<Watched> band, const LayerView& view) {
  const uint32_t first_row = band.front().running->root_row;
  const uint32_t end_row = band.back().running->root_row + band.back().running->row_count();
  OUTRIDER_CHECK(end_row <= view.rows().size() && view.rows()[end_row - 1] == end_row - 1,
                 "no row of a pass is dropped");
  hidden_.clear();
  for (uint32_t row = first_row; row < end_row; ++row) hidden_.push_back(view.hidden(row).data());
  const ExitLogits logits = scorer_->Score(exit, hidden_);
  pool_.ParallelRanges(band.size(), [&](size_t begin, size_t end, uint32_t worker) {
    for (size_t i = begin; i < end; ++i) {
      Guess(exit, band[i], logits, band[i].running->root_row - first_row, workers_[worker]);
    }
  });
  for (Watched& watched : band) {
    if (!watched.guessed) continue;
    watched.previous = watched.guess.outcome;
    if (listener_) listener_(watched.guess);
  }
}

void ExitHeads::Guess(uint32_t exit, Watched& watched, const ExitLogits& logits, size_t root_row,
                      Worker& worker) {
  const RunningPass& running = *watched.running;
  const Pass& pass = *running.pass;
  const std::optional<ExitCalibration>& calibration =
      pass.chooser->options().greedy() ? exits_[exit].greedy : exits_[exit].sampled;
  const float kappa = calibration ? calibration->kappa : 1.0f;
  ExitEvidence evidence;
  size_t ranking_count = 0;
  const auto choose = [&](uint32_t node, std::span<const TokenId> path) -> absl::StatusOr<TokenId> {
    const size_t row = node == DraftedNode::kRoot ? root_row : root_row + 1 + node;
    const auto position = running.length + static_cast<uint32_t>(path.size());
    OUTRIDER_RETURN_IF_ERROR(
        RankRow(watched, logits.row(row), position, {*pass.history, path}, worker));
    const size_t place = running.root_row + ranking_count++;
    const auto copy = ranked_.begin() + static_cast<ptrdiff_t>(place * ExitEvidence::kRankedMax);
    rankings_[place] = {copy, std::ranges::copy(worker.ranked, copy).out};
    evidence.AddChoice(worker.ranked, kappa);
    evidence.largest_softmax = LargestSoftmax(worker);
    return worker.ranked[0].token;
  };
  const absl::StatusOr<Outcome> outcome = WalkDown(pass.nodes, worker.path, choose);
  watched.guessed = outcome.ok();
  if (!outcome.ok()) return;
  evidence.agrees_with_previous = watched.previous && watched.previous->node == outcome->node &&
                                  watched.previous->next == outcome->next;
  evidence.agrees_with_first_draft = FollowsFirstDraft(pass.nodes, outcome->node);
  watched.guess = {.exit = exit,
                   .layer = exits_[exit].layer,
                   .pass = running.index,
                   .outcome = *outcome,
                   .evidence = evidence,
                   .probability = calibration ? ProbabilityOf(evidence, *calibration)
                                              : UncalibratedProbabilityOf(evidence),
                   .ranked = std::span(rankings_).subspan(running.root_row, ranking_count)};
}

// Into worker.ranked; the logits scored for this pass into worker.logits.
absl::Status ExitHeads::RankRow(const Watched& watched, std::span<const float> logits,
                                uint32_t position, const NodeHistory& history,
                                Worker& worker) const {
  const Chooser& chooser = *watched.running->pass->chooser;
  if (options_.scope == ExitScope::kFull) {
    worker.logits.assign(logits.begin(), logits.end());
    return chooser.Rank(logits, position, history, ExitEvidence::kRankedMax, worker.chooser,
                        worker.ranked);
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
  for (size_t i = 0; i < frequent.size(); ++i) {
    while (own < watched.columns.size() && token_of(watched.columns[own]) < frequent[i]) {
      add_own(watched.columns[own++]);
    }
    worker.tokens.push_back(frequent[i]);
    worker.logits.push_back(logits[i]);
  }
  while (own < watched.columns.size()) add_own(watched.columns[own++]);
  if (worker.tokens.empty()) return FailedPrecondition("there is no candidate");
  return chooser.RankAmong(worker.tokens, worker.logits, position, history,
                           ExitEvidence::kRankedMax, worker.chooser, worker.ranked);
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
