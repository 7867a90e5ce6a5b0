#include "common/model/exits/exit_scorer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/formats/models/content_hash.h"
#include "common/formats/tensors/quantize.h"

namespace outrider {
namespace {

std::string Describe(const ExitsTarget& target, bool knows_hash) {
  return Concat(target.name, " (", target.layer_count, " layers of ", target.embedding_length, ", ",
                target.vocabulary_size, " tokens, weights ",
                knows_hash ? HashDigits(target.content_hash) : "not read yet", ")");
}

// The name is no part of it: files are renamed.
bool IsSameTarget(ExitsTarget a, const ExitsTarget& b) {
  a.name = b.name;
  return a == b;
}

// Over sixteen lanes, in double: so that the compiler may use them.
double MeanOfSquares(const float* x, uint32_t count) {
  std::array<double, 16> lanes = {};
  uint32_t i = 0;
  for (; i + lanes.size() <= count; i += static_cast<uint32_t>(lanes.size())) {
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const double value = static_cast<double>(x[i + lane]);
      lanes[lane] += value * value;
    }
  }
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum / count;
}

absl::Status PackMatrix(TensorType type, std::span<const float> values, uint32_t inputs,
                        std::span<std::byte> panels) {
  const size_t panel_bytes = PanelBytes(type, inputs);
  std::vector<std::byte> rows;
  for (size_t first = 0; first < values.size(); first += size_t{inputs} * kPanelOutputs) {
    const size_t count = std::min<size_t>(values.size() - first, size_t{inputs} * kPanelOutputs);
    rows.resize(RowBytes(type, count));
    OUTRIDER_RETURN_IF_ERROR(Quantize(type, values.subspan(first, count), rows));
    PackPanel(type, inputs, rows, panels.first(panel_bytes));
    panels = panels.subspan(panel_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

ExitsTarget DescribeForExits(const ModelSpec& spec, uint64_t content_hash) {
  return {.name = spec.name,
          .content_hash = content_hash,
          .embedding_length = spec.embedding_length,
          .layer_count = spec.layer_count(),
          .vocabulary_size = spec.vocabulary_size};
}

absl::Status CheckExits(const ExitsTarget& trained_for, const std::string& path,
                        const ModelSpec& spec, std::optional<uint64_t> content_hash) {
  const bool knows_hash = content_hash.has_value();
  const ExitsTarget target =
      DescribeForExits(spec, content_hash.value_or(trained_for.content_hash));
  if (IsSameTarget(trained_for, target)) return absl::OkStatus();
  return InvalidArgument(path, ": was trained for ", Describe(trained_for, /*knows_hash=*/true),
                         ", and the target is ", Describe(target, knows_hash),
                         "; train exits for it");
}

absl::StatusOr<PackedAdapter> PackedAdapter::Pack(const TrainedExit& exit, TensorType type,
                                                  uint32_t width) {
  const size_t down_bytes = PackedBytes(type, exit.rank, width);
  const size_t up_bytes = PackedBytes(type, width, exit.rank);
  PackedAdapter adapter;
  OUTRIDER_ASSIGN_OR_RETURN(adapter.memory, AlignedBuffer::Create(down_bytes + up_bytes));
  const std::span<std::byte> bytes = adapter.memory.bytes();
  OUTRIDER_RETURN_IF_ERROR(PackMatrix(type, exit.down, width, bytes.first(down_bytes)));
  OUTRIDER_RETURN_IF_ERROR(PackMatrix(type, exit.up, exit.rank, bytes.last(up_bytes)));
  adapter.down.matrix = {type, WeightLayout::kPanels, exit.rank, width, bytes.data()};
  adapter.up.matrix = {type, WeightLayout::kPanels, width, exit.rank, bytes.data() + down_bytes};
  return adapter;
}

absl::StatusOr<std::unique_ptr<ExitScorer>> ExitScorer::Create(
    const TrainedExits& exits, const std::string& path, const ModelSpec& spec,
    uint64_t content_hash, const HeadWeights& head, const Kernels& kernels, ThreadPool& pool,
    const ExitScorerOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(CheckExits(exits.target, path, spec, content_hash));
  uint32_t rank_max = 0;
  for (const TrainedExit& exit : exits.exits) rank_max = std::max(rank_max, exit.rank);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<RowMath> math,
                            RowMath::Create(spec, kernels, pool, options.row_count_max));
  std::unique_ptr<ExitScorer> scorer(new ExitScorer(spec, head, std::move(math), options));
  for (const TrainedExit& exit : exits.exits) {
    absl::StatusOr<PackedAdapter> adapter =
        PackedAdapter::Pack(exit, exits.type, spec.embedding_length);
    OUTRIDER_RETURN_IF_ERROR(Annotate(adapter.status(), path));
    scorer->adapters_.push_back(*std::move(adapter));
  }
  if (options.scope == ExitScope::kCandidates) scorer->frequent_tokens_ = exits.frequent_tokens;
  OUTRIDER_RETURN_IF_ERROR(scorer->TakeMemory(rank_max));
  return scorer;
}

ExitScorer::ExitScorer(const ModelSpec& spec, const HeadWeights& head,
                       std::unique_ptr<RowMath> math, const ExitScorerOptions& options)
    : spec_(spec),
      head_(head),
      math_(std::move(math)),
      options_(options),
      sizes_(options.row_count_max) {}

absl::Status ExitScorer::TakeMemory(uint32_t rank_max) {
  const bool full = options_.scope == ExitScope::kFull;
  const auto frequent_count = static_cast<uint32_t>(frequent_tokens_.size());
  const uint32_t width = spec_.embedding_length;
  const size_t columns =
      full ? spec_.vocabulary_size : size_t{frequent_count} + options_.round_token_max;
  OUTRIDER_ASSIGN_OR_RETURN(memory_, AllocateRows({{ones_, 1, std::max(width, rank_max)},
                                                   {normed_, options_.row_count_max, width},
                                                   {inner_, options_.row_count_max, rank_max},
                                                   {logits_, options_.row_count_max, columns}}));
  std::fill_n(ones_.data, ones_.stride, 1.0f);
  if (full) return absl::OkStatus();

  OUTRIDER_ASSIGN_OR_RETURN(frequent_memory_,
                            AlignedBuffer::Create(GatheredBytes(head_.matrix, frequent_count)));
  const std::vector<uint32_t> rows(frequent_tokens_.begin(), frequent_tokens_.end());
  frequent_.matrix = GatherRows(head_.matrix, rows, frequent_memory_.bytes());
  OUTRIDER_ASSIGN_OR_RETURN(
      round_memory_, AlignedBuffer::Create(GatheredBytes(head_.matrix, options_.round_token_max)));
  round_rows_.reserve(options_.round_token_max);
  SetRound({});
  return absl::OkStatus();
}

void ExitScorer::SetRound(std::span<const TokenId> tokens) {
  OUTRIDER_CHECK(options_.scope == ExitScope::kCandidates, "whoever scores all has no candidates");
  OUTRIDER_CHECK(tokens.size() <= options_.round_token_max, "a round has its most tokens");
  round_rows_.assign(tokens.begin(), tokens.end());
  const std::span<const uint32_t> rows = round_rows_;
  const size_t panel_bytes = GatheredBytes(head_.matrix, kPanelOutputs);
  math_->pool().ParallelFor(PanelCount(static_cast<uint32_t>(rows.size())), [&](size_t panel) {
    const size_t first = panel * kPanelOutputs;
    const auto some = rows.subspan(first, std::min<size_t>(kPanelOutputs, rows.size() - first));
    const size_t bytes = GatheredBytes(head_.matrix, static_cast<uint32_t>(some.size()));
    GatherRows(head_.matrix, some, round_memory_.bytes().subspan(panel * panel_bytes, bytes));
  });
  round_.matrix = {.type = head_.matrix.type,
                   .layout = head_.matrix.layout,
                   .outputs = static_cast<uint32_t>(rows.size()),
                   .inputs = head_.matrix.inputs,
                   .data = round_memory_.bytes().data()};
}

ExitLogits ExitScorer::Score(size_t exit, std::span<const float* const> hidden) {
  OUTRIDER_CHECK(hidden.size() <= options_.row_count_max, "rows are scored band by band");
  const ScopedIeeeMode ieee;
  const auto row_count = static_cast<uint32_t>(hidden.size());
  Adapt(adapters_[exit], hidden);
  if (options_.scope == ExitScope::kFull) {
    math_->Multiply(normed_, row_count, head_.matrix, logits_);
    return {logits_.data, logits_.stride, spec_.vocabulary_size};
  }
  const uint32_t frequent_count = frequent_.matrix.outputs;
  const RowBlock of_round = {logits_.data + frequent_count, logits_.stride};
  math_->Multiply(normed_, row_count, spec_.embedding_length,
                  {{frequent_, logits_}, {round_, of_round}});
  return {logits_.data, logits_.stride, frequent_count + round_.matrix.outputs};
}

// The rows' norm(h') into normed_.
void ExitScorer::Adapt(const PackedAdapter& adapter, std::span<const float* const> hidden) {
  const uint32_t width = spec_.embedding_length;
  const uint32_t rank = adapter.rank();
  const auto row_count = static_cast<uint32_t>(hidden.size());
  const RowKernels& kernels = math_->kernels();
  math_->ForEachRow(row_count, [&](size_t i) {
    const double mean = MeanOfSquares(hidden[i], width);
    sizes_[i] = static_cast<float>(std::sqrt(mean + static_cast<double>(spec_.norm_epsilon)));
    kernels.rms_norm(hidden[i], ones_.data, spec_.norm_epsilon, width, normed_.row(i));
  });
  math_->Multiply(normed_, row_count, width, {{adapter.down, inner_}});
  for (uint32_t i = 0; i < row_count; ++i) {
    kernels.silu_gate(inner_.row(i), ones_.data, rank, inner_.row(i));
  }
  math_->Multiply(inner_, row_count, rank, {{adapter.up, normed_}});
  math_->ForEachRow(row_count, [&](size_t i) {
    const std::array<WeightedRow, 2> terms = {{{hidden[i], 1.0f}, {normed_.row(i), sizes_[i]}}};
    kernels.weighted_sum(terms.data(), terms.size(), width, normed_.row(i));
    math_->Normalize(head_.norm, normed_.row(i), normed_.row(i));
  });
}

}  // namespace outrider
