#include "common/speculation/costs/cost_model.h"

#include <algorithm>

namespace outrider {
namespace {

// What a row takes of what a pass does not wait, until passes have told: on most processors it is less.
constexpr double kComputedShare = 0.1;

}  // namespace

CostModel::CostModel(const Assumed& assumed)
    : assumed_(assumed),
      passes_(assumed.pass_ms, assumed.pass_node_ms),
      experts_(assumed.experts),
      drafts_(assumed.draft_ms, assumed.draft_node_ms) {
  for (const ShapeTime& pass : assumed.passes) passes_.Add(pass.shape, pass.ms);
}

void CostModel::MeasuredPass(const PassShape& shape, double ms) {
  passes_.Add(shape, ms);
  row_count_ = 1 + shape.nodes;
  last_pass_ms_ = ms;
  row_price_.Add(row_count_, ms);
  const std::optional<double> row_ms = row_price_.ms();
  row_ms_is_fresh_ = row_ms.has_value();
  if (row_ms) {
    assumed_.pass_node_ms = *row_ms;
    assumed_.knows_rows = true;
  }
  pass_.Add(ms);
  if (shape.nodes == 0) root_pass_.Add(ms);
  // Rows share a pass, so none costs more than the first.
  first_row_.Add(std::max(ms - shape.nodes * this->row_ms().value_or(0), ms / row_count_));
}

void CostModel::MeasuredFlashWait(uint32_t row_count, double waited_ms) {
  if (last_pass_ms_ > 0 && row_count == row_count_) {
    hidden_rows_.Add(row_count, last_pass_ms_, waited_ms);
  }
}

void CostModel::MeasuredVerdict(uint32_t token_count, double ms) {
  tokens_.Add(token_count);
  interval_.Add(ms);
  text_ = {text_.tokens + token_count, text_.ms + ms};
}

void CostModel::MeasuredDraft(uint32_t node_count, double ms) {
  drafts_.Add({node_count - 1, 0}, ms);
  draft_price_.Add(node_count, ms);
}

double CostModel::round_trip_ms() const {
  return round_trip_.empty() ? assumed_.round_trip_ms : round_trip_.Value();
}

double CostModel::queue_ms() const {
  return queue_.empty() ? 0 : queue_.Value();
}

double CostModel::recent_pass_ms() const {
  return pass_.empty() ? assumed_.pass_ms : pass_.Value();
}

double CostModel::root_pass_ms() const {
  if (!root_pass_.empty()) return root_pass_.Value();
  return first_row_.empty() ? assumed_.pass_ms : first_row_.Value();
}

double CostModel::tokens_per_pass() const {
  return tokens_.empty() ? assumed_.tokens_per_pass : tokens_.Value();
}

double CostModel::tokens_per_ms() const {
  if (!interval_.empty() && interval_.Value() > 0) return tokens_.Value() / interval_.Value();
  return tokens_per_pass() / (round_trip_ms() + PassMs({0, 0}));
}

std::optional<double> CostModel::ForeseenRowMs(uint32_t row_count) const {
  const std::optional<double> waited_ms = experts_.RowMs(row_count);
  if (!waited_ms) return std::nullopt;
  const double computed_ms = recent_pass_ms() - *experts_.WaitMs(row_count_);
  return *waited_ms + kComputedShare * std::max(0.0, computed_ms);
}

std::optional<double> CostModel::row_ms() const {
  if (!row_ms_is_fresh_) {
    if (const std::optional<double> foreseen = ForeseenRowMs(row_count_)) return foreseen;
  }
  return assumed_.knows_rows ? std::optional(assumed_.pass_node_ms) : std::nullopt;
}

std::optional<double> CostModel::row_ms(uint32_t rows) const {
  if (const std::optional<double> of_step = row_price_.MsOfStep(rows)) return of_step;
  // A line has no bend where reads end.
  if (const auto foreseen = hidden_rows_.RowMs(RowPrice::StepBelow(rows), rows)) return foreseen;
  if (!row_ms_is_fresh_) {
    if (const std::optional<double> foreseen = ForeseenRowMs(rows)) return foreseen;
  }
  return row_ms();
}

CostModel::Assumed CostModel::Learned() const {
  Assumed learned = assumed_;
  learned.round_trip_ms = round_trip_ms();
  learned.pass_ms = row_price_.FirstRowMs(learned.pass_node_ms).value_or(assumed_.pass_ms);
  learned.draft_node_ms = draft_price_.ms().value_or(assumed_.draft_node_ms);
  learned.draft_ms = draft_price_.FirstRowMs(learned.draft_node_ms).value_or(assumed_.draft_ms);
  learned.tokens_per_pass = tokens_per_pass();
  learned.passes = passes_.Seen();
  return learned;
}

}  // namespace outrider
