#include "client/planner/flash_forecast.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace outrider {
namespace {

// As likely right as the tokens of a chain would have to be that yields what a tree of its size does.
constexpr double kRightOfTree = 0.8;

double ReadSeconds(const FlashSetting& setting, uint32_t row_count) {
  return setting.reads.Bytes(row_count) / setting.flash_bytes_per_second;
}

// Each expert that any row uses is asked by as many rows as there are choices for it.
double ExpertSeconds(const FlashSetting& setting, uint32_t row_count) {
  const ExpertPrice::Experts& experts = setting.reads.experts;
  if (experts.used_count == 0) return 0;
  const double times = ExpertPrice::Together(experts, row_count) / experts.used_count;
  const auto rows_each = static_cast<uint32_t>(std::ceil(row_count / times));
  return static_cast<double>(setting.expert_bytes) * times *
         setting.target.ProductSeconds(rows_each);
}

// Products are measured on all threads; packing is one core's work, which the others are not kept by.
double ComputeSeconds(const FlashSetting& setting, uint32_t row_count) {
  return static_cast<double>(setting.target_bytes) * setting.target.ProductSeconds(row_count) +
         ExpertSeconds(setting, row_count) +
         setting.reads.Bytes(row_count) * setting.target.pack_seconds / setting.thread_count;
}

double PassSeconds(const FlashSetting& setting, uint32_t row_count) {
  return std::max(ReadSeconds(setting, row_count), ComputeSeconds(setting, row_count));
}

double TokensOf(double acceptance, double nodes) {
  return (1 - std::pow(acceptance, nodes + 1)) / (1 - acceptance);
}

// It goes down a token a run.
double DraftSeconds(const FlashSetting& setting, uint32_t nodes) {
  return nodes * static_cast<double>(setting.draft_bytes) * setting.draft.ProductSeconds(1);
}

}  // namespace

double KernelSpeed::ProductSeconds(uint32_t row_count) const {
  size_t above = 1;
  while (above + 1 < kRows.size() && kRows[above] < row_count) ++above;
  const double share = (static_cast<double>(row_count) - kRows[above - 1]) /
                       (static_cast<double>(kRows[above]) - kRows[above - 1]);
  return product_seconds[above - 1] + share * (product_seconds[above] - product_seconds[above - 1]);
}

FlashSetting SettingOf(const MemoryPlan& plan, uint32_t thread_count) {
  const StreamShape& weights = plan.needs.weights;
  const ExpertShape& experts = weights.experts;
  return {.reads = plan.reads(),
          .target_bytes = std::accumulate(weights.layer_bytes.begin(), weights.layer_bytes.end(),
                                          weights.head_bytes),
          .expert_bytes = experts.place_bytes * experts.used_count,
          .thread_count = thread_count};
}

FlashForecast Forecast(const FlashSetting& setting) {
  FlashForecast forecast;
  forecast.alone_seconds = PassSeconds(setting, 1);
  forecast.tokens_per_second = 1 / forecast.alone_seconds;
  for (uint32_t nodes = 1; nodes <= setting.pass_nodes_max; ++nodes) {
    if (PassSeconds(setting, nodes + 1) <= ReadSeconds(setting, 1)) forecast.hidden_nodes = nodes;
    if (setting.draft_bytes == 0) continue;
    const double tokens = TokensOf(setting.acceptance, nodes);
    const double rate = tokens / (PassSeconds(setting, nodes + 1) + DraftSeconds(setting, nodes));
    if (rate <= forecast.tokens_per_second) continue;
    forecast.nodes = nodes;
    forecast.tokens_per_pass = tokens;
    forecast.tokens_per_second = rate;
  }
  return forecast;
}

bool HidesReads(const FlashSetting& setting, uint32_t row_count) {
  return ComputeSeconds(setting, row_count) >= ReadSeconds(setting, row_count);
}

double PromptSeconds(const FlashSetting& setting, uint32_t token_count, uint32_t run_rows) {
  const uint32_t rest = token_count % run_rows;
  const uint32_t full_runs = token_count / run_rows;
  return full_runs * PassSeconds(setting, run_rows) + (rest > 0 ? PassSeconds(setting, rest) : 0);
}

double AcceptanceOf(double tokens_per_pass, double nodes_per_pass) {
  double low = 0, high = 0.999;
  for (int halving = 0; halving < 30; ++halving) {
    const double middle = (low + high) / 2;
    (TokensOf(middle, nodes_per_pass) < tokens_per_pass ? low : high) = middle;
  }
  return high;
}

uint32_t NodesForReads(const PassReads& reads, uint32_t nodes_max) {
  uint32_t best = 1;
  double best_rate = 0;
  for (uint32_t nodes = 1; nodes <= nodes_max; ++nodes) {
    const double rate = TokensOf(kRightOfTree, nodes) / reads.Bytes(nodes + 1);
    if (rate <= best_rate) continue;
    best = nodes;
    best_rate = rate;
  }
  return best;
}

}  // namespace outrider
