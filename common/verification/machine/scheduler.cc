#include "common/verification/machine/scheduler.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/base/check.h"

namespace outrider {
namespace {

// How many times as long as the run without it a piece of a prompt takes, beside others: the prompt
// takes an eighth longer than it would alone.
constexpr double kPieceOfRun = 8;

}  // namespace

Scheduler::Scheduler(const Options& options) : options_(options) {
  OUTRIDER_CHECK(options.row_count_max > 0 && options.first_row_count > 0,
                 "a run has room for a pass");
  OUTRIDER_CHECK(options.prompt_tokens_min > 0, "a run reads some of a prompt");
  OUTRIDER_CHECK(options.run_row_count_max > options.prompt_tokens_min, "and passes beside it");
}

void Scheduler::Open(uint64_t session, uint64_t key, uint32_t share) {
  OUTRIDER_CHECK(share > 0, "everybody has a share");
  const bool is_new = sessions_.insert({session, {.key = key}}).second;
  OUTRIDER_CHECK(is_new, "a session is opened once");
  KeyAccount& account = keys_[key];
  account.share = share;
  ++account.session_count;
}

void Scheduler::Close(uint64_t session) {
  const auto found = sessions_.find(session);
  OUTRIDER_CHECK(found != sessions_.end(), "a session is closed that was opened");
  const auto key = keys_.find(found->second.key);
  if (--key->second.session_count == 0) keys_.erase(key);
  sessions_.erase(found);
}

void Scheduler::Charge(uint64_t session, Duration time) {
  SessionAccount& account = sessions_.at(session);
  account.used += time;
  KeyAccount& key = keys_.at(account.key);
  key.used += time / key.share;
}

void Scheduler::Choose(std::span<const Candidate> candidates, const Around& around,
                       std::vector<Share>& shares) {
  Order(candidates);
  shares_.assign(candidates.size(), Share{});
  SharePrompts(candidates, /*beside_others=*/candidates.size() + around.expected_count > 1);
  const uint32_t most = PassRowsMax(candidates.size());
  const uint32_t worth = std::min(most, RowsWorth(candidates, around.second_price).value_or(most));
  uint32_t left = most - worth + ShareRows(candidates, Claim::kPart, worth);
  left = ShareRows(candidates, Claim::kSpare, left);
  if (TakesPlace()) ShareRows(candidates, Claim::kBeside, left);
  shares.clear();
  for (size_t i = 0; i < shares_.size(); ++i) {
    shares_[i].candidate = i;
    if (shares_[i].prompt_tokens > 0 || shares_[i].has_pass) shares.push_back(shares_[i]);
  }
}

bool Scheduler::TakesPlace() const {
  return std::ranges::any_of(
      shares_, [](const Share& share) { return share.prompt_tokens > 0 || share.has_pass; });
}

// Ranks the candidates. Who comes back has used at least what those have who are being served.
void Scheduler::Order(std::span<const Candidate> candidates) {
  ranks_.clear();
  for (size_t i = 0; i < candidates.size(); ++i) {
    SessionAccount& session = sessions_.at(candidates[i].session);
    KeyAccount& key = keys_.at(session.key);
    key.used = std::max(key.used, served_);
    session.used = std::max(session.used, key.served);
    ranks_.push_back({key.used, session.key, session.used, candidates[i].session, i});
  }
  std::ranges::sort(ranks_);
  if (ranks_.empty()) return;
  served_ = ranks_.front().key_used;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const bool first_of_key = i == 0 || ranks_[i].key != ranks_[i - 1].key;
    if (first_of_key) keys_.at(ranks_[i].key).served = ranks_[i].session_used;
  }
}

uint32_t Scheduler::PassRowsMax(size_t candidate_count) const {
  const double first = options_.first_row_count;
  double rows = std::max(first, options_.session_row_count * static_cast<double>(candidate_count));
  if (const std::optional<RunTime::Line> line = pass_line()) {
    rows = std::max(rows, line->run_seconds / line->row_seconds);
  }
  const double tried = std::max(first, 2 * run_time_.rows_tried());
  const uint32_t most =
      std::min(options_.row_count_max, options_.run_row_count_max - options_.prompt_tokens_min);
  return static_cast<uint32_t>(std::min({rows, tried, static_cast<double>(most)}));
}

bool Scheduler::HasPass(const Candidate& candidate, const Rank& rank, Claim claim) const {
  const bool is_read = shares_[rank.candidate].prompt_tokens == candidate.prompt_tokens;
  return candidate.wants_pass && is_read && candidate.claim == claim;
}

Scheduler::Parts Scheduler::PartsOf(std::span<const Candidate> candidates) const {
  Parts parts;
  for (const Rank& rank : ranks_) {
    const Candidate& candidate = candidates[rank.candidate];
    if (!HasPass(candidate, rank, Claim::kPart)) continue;
    ++parts.roots;
    uint32_t left = candidate.node_count;
    for (size_t i = 0; i < parts.by_doubt.size() && left > 0; ++i) {
      const uint32_t count = std::min<uint32_t>(left, candidate.by_doubt[i]);
      parts.by_doubt[i] += count;
      left -= count;
    }
  }
  return parts;
}

// All roots, and of the likeliest nodes as many as bring most for what they make the run longer.
// None: as many as there are. Beside a prompt a row is one of hundreds: nobody has to do without it.
std::optional<uint32_t> Scheduler::RowsWorth(std::span<const Candidate> candidates,
                                             double second_price) const {
  const std::optional<RunTime::Line> line = pass_line();
  const auto reads = [](const Share& share) { return share.prompt_tokens > 0; };
  if (!line || second_price <= 0 || std::ranges::any_of(shares_, reads)) return std::nullopt;
  const Parts parts = PartsOf(candidates);
  const std::optional<double> without = pass_steps_.SecondsOf(parts.roots, *line);
  if (!without) return std::nullopt;
  uint32_t rows = parts.roots;
  uint32_t worth = rows;
  double tokens = 0;
  double best = 0;
  for (size_t i = 0; i < parts.by_doubt.size(); ++i) {
    for (uint32_t node = 0; node < parts.by_doubt[i]; ++node) {
      ++rows;
      tokens += std::exp2(-0.5 * static_cast<double>(i));
      const double gain = tokens - second_price * (*pass_steps_.SecondsOf(rows, *line) - *without);
      if (gain <= best) continue;
      best = gain;
      worth = rows;
    }
  }
  return worth == rows ? std::nullopt : std::optional(worth);
}

double Scheduler::NodeSeconds(uint32_t session_count, const RunTime::Line& line) const {
  const std::optional<double> roots = pass_steps_.SecondsOf(session_count, line);
  if (!roots || 2 * session_count > RunSteps::kRowsMax) return line.row_seconds;
  const double more = *pass_steps_.SecondsOf(2 * session_count, line) - *roots;
  return std::max(more / session_count, 0.0);
}

// Of passes that may begin at once, as far as they may have any.
uint32_t Scheduler::RowsReady(std::span<const Candidate> candidates) const {
  uint64_t rows = 0;
  for (const Candidate& candidate : candidates) {
    if (candidate.wants_pass && candidate.prompt_tokens == 0) rows += 1 + candidate.node_count;
  }
  return static_cast<uint32_t>(std::min<uint64_t>(rows, PassRowsMax(candidates.size())));
}

uint32_t Scheduler::PieceBesideOthers(uint32_t pass_rows) const {
  const std::optional<RunTime::Line> line = run_time_.line();
  double tokens = 2 * run_time_.rows_tried();
  if (line) {
    const double without = line->run_seconds + pass_rows * line->row_seconds;
    const double seconds = std::clamp(kPieceOfRun * without, Seconds(options_.prompt_time_min),
                                      Seconds(options_.prompt_time_max));
    tokens = std::min(tokens, seconds / line->row_seconds);
  }
  tokens = std::clamp<double>(tokens, options_.prompt_tokens_min, options_.run_row_count_max);
  return static_cast<uint32_t>(tokens);
}

void Scheduler::SharePrompts(std::span<const Candidate> candidates, bool beside_others) {
  const uint32_t pass_rows = RowsReady(candidates);
  uint32_t budget = options_.run_row_count_max - pass_rows;
  if (beside_others) budget = std::min(budget, PieceBesideOthers(pass_rows));
  for (const Rank& rank : ranks_) {
    const uint32_t tokens = std::min(budget, candidates[rank.candidate].prompt_tokens);
    shares_[rank.candidate].prompt_tokens = tokens;
    budget -= tokens;
  }
}

uint32_t Scheduler::ShareRows(std::span<const Candidate> candidates, Claim claim, uint32_t rows) {
  passing_.clear();
  groups_.clear();
  key_parts_.clear();
  for (Rank& rank : ranks_) {
    const Candidate& candidate = candidates[rank.candidate];
    if (!HasPass(candidate, rank, claim)) continue;
    if (passing_.empty() || passing_.back()->key != rank.key) {
      groups_.push_back({passing_.size(), passing_.size()});
      key_parts_.push_back({.wanted = 0, .share = keys_.at(rank.key).share});
    }
    passing_.push_back(&rank);
    groups_.back().end = passing_.size();
    key_parts_.back().wanted += 1 + candidate.node_count;
  }
  const uint32_t left = Divide(rows, key_parts_);
  for (size_t i = 0; i < groups_.size(); ++i) {
    const std::span<Rank* const> group(passing_.begin() + static_cast<ptrdiff_t>(groups_[i].begin),
                                       passing_.begin() + static_cast<ptrdiff_t>(groups_[i].end));
    ShareRowsOfKey(candidates, group, key_parts_[i].granted);
  }
  return left;
}

// Every session's root comes before anybody's nodes, and of those the likeliest.
void Scheduler::ShareRowsOfKey(std::span<const Candidate> candidates, std::span<Rank* const> ranks,
                               uint32_t rows) {
  const size_t root_count = std::min<size_t>(rows, ranks.size());
  parts_.assign(root_count, {.wanted = 0});
  uint32_t left = rows - static_cast<uint32_t>(root_count);
  for (size_t doubt = 0; doubt < NodesByDoubt().size() && left > 0; ++doubt) {
    for (size_t i = 0; i < root_count; ++i) {
      const Candidate& candidate = candidates[ranks[i]->candidate];
      parts_[i].wanted =
          std::min(candidate.node_count, parts_[i].wanted + candidate.by_doubt[doubt]);
    }
    left = Divide(left, parts_);
  }
  for (size_t i = 0; i < root_count; ++i) {
    parts_[i].wanted = candidates[ranks[i]->candidate].node_count;
  }
  Divide(left, parts_);
  for (size_t i = 0; i < root_count; ++i) {
    Share& share = shares_[ranks[i]->candidate];
    share.has_pass = true;
    share.node_count = parts_[i].granted;
  }
}

// Parts by everybody's share, but to nobody more than it wants; what does not divide goes to those who come first.
// Returns what nobody wants.
uint32_t Scheduler::Divide(uint32_t total, std::span<Part> parts) {
  for (;;) {
    uint64_t open = 0;  // shares of those who want more
    for (const Part& part : parts) open += part.granted < part.wanted ? part.share : 0;
    if (open == 0 || total == 0) return total;
    const uint64_t there = total;
    for (Part& part : parts) {
      const auto by_share = static_cast<uint32_t>(std::max<uint64_t>(1, there * part.share / open));
      const uint32_t more = std::min({by_share, part.wanted - part.granted, total});
      part.granted += more;
      total -= more;
    }
  }
}

}  // namespace outrider
