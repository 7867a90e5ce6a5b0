#include "common/verification/machine/next_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace outrider {

std::span<const Scheduler::Share> NextRun::Choose(uint32_t expected_count) {
  OUTRIDER_CHECK(!running_, "there is one run at a time");
  run_.works.clear();
  // One who is alone chooses for himself what pays.
  const double second_price = at_work_ > 1 ? RowWorth::kMargin * this->second_price() : 0;
  scheduler_.Choose(candidates_, {expected_count, second_price}, shares_);
  const bool has_nodes = std::ranges::any_of(shares_, [](const Scheduler::Share& share) {
    return share.has_pass && share.node_count > 0;
  });
  run_.pruning = has_nodes ? pruning_.Next() : Pruning::kOff;
  return shares_;
}

double NextRun::RowPrice(uint32_t session_count) const {
  const std::optional<RunTime::Line> line = scheduler_.pass_line();
  if (!line) return 0;
  return scheduler_.NodeSeconds(session_count, *line) * SecondPrice(session_count);
}

double NextRun::SecondPrice(uint32_t session_count) const {
  const std::optional<RunTime::Line> line = scheduler_.pass_line();
  return line ? row_worth_.SecondPrice(*line, session_count) : 0;
}

TargetWork& NextRun::Add(uint64_t session) {
  OUTRIDER_CHECK(!running_, "a run that has begun is the target's");
  TargetWork& work = run_.works.emplace_back();
  work.session = session;
  return work;
}

TargetRun* NextRun::Begin(MonotonicTime now) {
  candidates_.clear();
  if (run_.works.empty() && to_close_.empty()) return nullptr;
  run_.closed.clear();
  run_.closed.swap(to_close_);
  running_ = true;
  if (stats_.runs > 0) {
    const Duration run_time = run_.prompt_time + run_.pass_time;
    row_worth_.Ran(now - begun_at_, run_time, std::exchange(committed_, 0));
  }
  begun_at_ = now;
  ++stats_.runs;
  return &run_;
}

std::span<TargetWork> NextRun::End() {
  OUTRIDER_CHECK(running_, "what is done was begun");
  running_ = false;
  uint32_t rows = 0;
  uint32_t passes = 0;
  uint32_t prompt_tokens = 0;
  for (const TargetWork& work : run_.works) {
    if (work.has_pass) ++passes;
    if (work.has_pass) rows += static_cast<uint32_t>(1 + work.nodes.size());
    prompt_tokens += static_cast<uint32_t>(work.prompt.size());
  }
  Charge(rows, prompt_tokens);
  const Pruned pruned = SumOfPruned();
  LearnOfPruning(pruned, passes);
  if (rows + prompt_tokens > 0) {
    const Duration time = run_.prompt_time + run_.pass_time;
    const auto spared = static_cast<uint32_t>(std::lround(pruned.rows));
    const bool is_spared = run_.pruning == Pruning::kOn;
    scheduler_.LearnRunTime(rows - (is_spared ? spared : 0), prompt_tokens, time);
    stats_.run_time.Add(std::chrono::duration<double>(time).count());
    stats_.run_rows.Add(rows + prompt_tokens);
    CountDeviceWork();
  }
  if (passes > 0) {
    const double seconds = std::chrono::duration<double>(run_.pass_time).count();
    pass_seconds_.Add(seconds);
    pass_cost_.Add(seconds / passes);
  }
  stats_.prompt_tokens += prompt_tokens;
  return run_.works;
}

Pruned NextRun::SumOfPruned() const {
  Pruned sum;
  for (const TargetWork& work : run_.works) {
    sum.node_count += work.pruned.node_count;
    sum.rows += work.pruned.rows;
    sum.lost_count += work.pruned.lost_count;
  }
  return sum;
}

// What is spared and lost is weighed for those whose passes these were.
void NextRun::LearnOfPruning(const Pruned& pruned, uint32_t pass_count) {
  if (run_.pruning == Pruning::kOff) return;
  if (run_.pruning == Pruning::kOn) {
    ++stats_.pruned_runs;
    stats_.nodes_pruned += pruned.node_count;
  } else {
    pruning_.Watched(
        pruned, std::accumulate(run_.exit_time.begin(), run_.exit_time.end(), Duration::zero()));
  }
  if (scheduler_.pass_line()) pruning_.Judge(RowPrice(pass_count), SecondPrice(pass_count));
}

// Everybody pays for its rows and its prompt's tokens.
void NextRun::Charge(uint32_t rows, uint32_t prompt_tokens) {
  for (TargetWork& work : run_.works) {
    if (work.has_pass) work.cost += run_.pass_time * (1 + work.nodes.size()) / rows;
    if (!work.prompt.empty()) work.cost += run_.prompt_time * work.prompt.size() / prompt_tokens;
    scheduler_.Charge(work.session, work.cost);
  }
}

// A target on a GPU says from its first run on what that took there.
void NextRun::CountDeviceWork() {
  if (!run_.device_work) return;
  const DeviceWork& work = *run_.device_work;
  if (!stats_.device) stats_.device.emplace();
  DeviceStats& device = *stats_.device;
  if (work.time > Duration::zero()) device.run_time.Add(Seconds(work.time));  // else it failed
  device.exit_time += work.exit_time;
  device.exit_side_time += work.exit_side_time;
  device.graph_hits += work.graph_hits;
  device.graph_misses += work.graph_misses;
  device.graph_captures += work.graph_captures;
}

}  // namespace outrider
