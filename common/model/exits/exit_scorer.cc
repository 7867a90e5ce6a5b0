#include "common/model/exits/exit_scorer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/formats/tensors/quantize.h"

namespace outrider {
namespace {

// So few rows are done sooner than other threads are told of them.
constexpr size_t kSerialRows = 2;

constexpr size_t kFloatsPerLine = kVectorAlignment / sizeof(float);

size_t Stride(size_t length) {
  return (length + kFloatsPerLine - 1) / kFloatsPerLine * kFloatsPerLine;
}

std::string Describe(const ExitsTarget& target) {
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016llx",
                static_cast<unsigned long long>(target.content_hash));
  return Concat(target.name, " (", target.layer_count, " layers of ", target.embedding_length, ", ",
                target.vocabulary_size, " tokens, weights ", hash, ")");
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

absl::Status Pack(TensorType type, std::span<const float> values, uint32_t inputs,
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

absl::StatusOr<std::unique_ptr<ExitScorer>> ExitScorer::Create(
    const TrainedExits& exits, const std::string& path, const ModelSpec& spec,
    uint64_t content_hash, const HeadWeights& head, const Kernels& kernels, ThreadPool& pool,
    const ExitScorerOptions& options) {
  const ExitsTarget target = DescribeForExits(spec, content_hash);
  if (!IsSameTarget(exits.target, target)) {
    return InvalidArgument(path, ": was trained for ", Describe(exits.target),
                           ", and the target is ", Describe(target), "; train exits for it");
  }
  uint32_t rank_max = 0;
  for (const TrainedExit& exit : exits.exits) rank_max = std::max(rank_max, exit.rank);
  OUTRIDER_ASSIGN_OR_RETURN(
      Multiplier multiplier,
      Multiplier::Create(kernels, pool, options.row_count_max, spec.embedding_length));
  std::unique_ptr<ExitScorer> scorer(
      new ExitScorer(spec, head, kernels, pool, std::move(multiplier), options));
  for (const TrainedExit& exit : exits.exits) {
    OUTRIDER_RETURN_IF_ERROR(Annotate(scorer->AddAdapter(exit, exits.type), path));
  }
  if (options.scope == ExitScope::kCandidates) scorer->frequent_tokens_ = exits.frequent_tokens;
  OUTRIDER_RETURN_IF_ERROR(scorer->TakeMemory(rank_max));
  return scorer;
}

ExitScorer::ExitScorer(const ModelSpec& spec, const HeadWeights& head, const Kernels& kernels,
                       ThreadPool& pool, Multiplier multiplier, const ExitScorerOptions& options)
    : spec_(spec),
      head_(head),
      kernels_(kernels.rows),
      pool_(pool),
      multiplier_(std::move(multiplier)),
      options_(options),
      sizes_(options.row_count_max) {}

absl::Status ExitScorer::AddAdapter(const TrainedExit& exit, TensorType type) {
  const uint32_t width = spec_.embedding_length;
  const size_t down_bytes = PackedBytes(type, exit.rank, width);
  const size_t up_bytes = PackedBytes(type, width, exit.rank);
  Adapter adapter;
  OUTRIDER_ASSIGN_OR_RETURN(adapter.memory, AlignedBuffer::Create(down_bytes + up_bytes));
  const std::span<std::byte> bytes = adapter.memory.bytes();
  OUTRIDER_RETURN_IF_ERROR(Pack(type, exit.down, width, bytes.first(down_bytes)));
  OUTRIDER_RETURN_IF_ERROR(Pack(type, exit.up, exit.rank, bytes.last(up_bytes)));
  adapter.down = {type, WeightLayout::kPanels, exit.rank, width, bytes.data()};
  adapter.up = {type, WeightLayout::kPanels, width, exit.rank, bytes.data() + down_bytes};
  adapters_.push_back(std::move(adapter));
  return absl::OkStatus();
}

absl::Status ExitScorer::TakeMemory(uint32_t rank_max) {
  const bool full = options_.scope == ExitScope::kFull;
  const auto frequent_count = static_cast<uint32_t>(frequent_tokens_.size());
  const uint32_t width = spec_.embedding_length;
  const size_t columns =
      full ? spec_.vocabulary_size : size_t{frequent_count} + options_.round_token_max;
  struct Part {
    Rows& rows;
    size_t row_count;
    size_t length;
  };
  Rows ones;
  const std::array parts = {
      Part{ones, 1, std::max(width, rank_max)},
      Part{state_, options_.row_count_max, width},
      Part{normed_, options_.row_count_max, width},
      Part{inner_, options_.row_count_max, rank_max},
      Part{logits_, options_.row_count_max, columns},
  };
  size_t floats = 0;
  for (const Part& part : parts) floats += part.row_count * Stride(part.length);
  OUTRIDER_ASSIGN_OR_RETURN(memory_, PageBuffer::Create(floats * sizeof(float)));
  float* next = memory_.As<float>().data();
  for (const Part& part : parts) {
    part.rows = {next, Stride(part.length)};
    next += part.row_count * Stride(part.length);
  }
  ones_ = ones.data;
  std::fill_n(ones_, ones.stride, 1.0f);
  if (full) return absl::OkStatus();

  OUTRIDER_ASSIGN_OR_RETURN(frequent_memory_,
                            AlignedBuffer::Create(GatheredBytes(head_.matrix, frequent_count)));
  const std::vector<uint32_t> rows(frequent_tokens_.begin(), frequent_tokens_.end());
  frequent_ = GatherRows(head_.matrix, rows, frequent_memory_.bytes());
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
  pool_.ParallelFor(PanelCount(static_cast<uint32_t>(rows.size())), [&](size_t panel) {
    const size_t first = panel * kPanelOutputs;
    const auto some = rows.subspan(first, std::min<size_t>(kPanelOutputs, rows.size() - first));
    const size_t bytes = GatheredBytes(head_.matrix, static_cast<uint32_t>(some.size()));
    GatherRows(head_.matrix, some, round_memory_.bytes().subspan(panel * panel_bytes, bytes));
  });
  round_ = {.type = head_.matrix.type,
            .layout = head_.matrix.layout,
            .outputs = static_cast<uint32_t>(rows.size()),
            .inputs = head_.matrix.inputs,
            .data = round_memory_.bytes().data()};
}

ExitLogits ExitScorer::Score(size_t exit, std::span<const float* const> hidden) {
  OUTRIDER_CHECK(hidden.size() <= options_.row_count_max, "rows are scored band by band");
  const ScopedIeeeMode ieee;
  Adapt(adapters_[exit], hidden);
  ForEachRow(hidden.size(), [&](size_t i) { Normalize(state_.row(i), normed_.row(i)); });
  if (options_.scope == ExitScope::kFull) {
    const Product product = {&head_.matrix, logits_.data, logits_.stride};
    Multiply(normed_, spec_.embedding_length, hidden.size(), {&product, 1});
    return {logits_.data, logits_.stride, spec_.vocabulary_size};
  }
  const std::array products = {
      Product{&frequent_, logits_.data, logits_.stride},
      Product{&round_, logits_.data + frequent_.outputs, logits_.stride},
  };
  Multiply(normed_, spec_.embedding_length, hidden.size(), products);
  return {logits_.data, logits_.stride, frequent_.outputs + round_.outputs};
}

// The rows' h' into state_.
void ExitScorer::Adapt(const Adapter& adapter, std::span<const float* const> hidden) {
  const uint32_t width = spec_.embedding_length;
  ForEachRow(hidden.size(), [&](size_t i) {
    const double mean = MeanOfSquares(hidden[i], width);
    sizes_[i] = static_cast<float>(std::sqrt(mean + static_cast<double>(spec_.norm_epsilon)));
    kernels_.rms_norm(hidden[i], ones_, spec_.norm_epsilon, width, normed_.row(i));
  });
  const Product down = {&adapter.down, inner_.data, inner_.stride};
  Multiply(normed_, width, hidden.size(), {&down, 1});
  for (size_t i = 0; i < hidden.size(); ++i) {
    kernels_.silu_gate(inner_.row(i), ones_, adapter.down.outputs, inner_.row(i));
  }
  const Product up = {&adapter.up, normed_.data, normed_.stride};
  Multiply(inner_, adapter.up.inputs, hidden.size(), {&up, 1});
  ForEachRow(hidden.size(), [&](size_t i) {
    const float* const change = normed_.row(i);
    float* const state = state_.row(i);
    for (uint32_t k = 0; k < width; ++k) state[k] = hidden[i][k] + sizes_[i] * change[k];
  });
}

void ExitScorer::Multiply(const Rows& x, uint32_t inputs, size_t row_count,
                          std::span<const Product> products) {
  multiplier_.Multiply({.values = x.data,
                        .stride = x.stride,
                        .row_count = static_cast<uint32_t>(row_count),
                        .inputs = inputs},
                       products);
}

void ExitScorer::Normalize(float* x, float* out) const {
  const Norm& norm = head_.norm;
  if (spec_.norm == NormKind::kRms) {
    kernels_.rms_norm(x, norm.weight.data(), spec_.norm_epsilon, spec_.embedding_length, out);
  } else {
    kernels_.layer_norm(x, norm.weight.data(), norm.bias.data(), spec_.norm_epsilon,
                        spec_.embedding_length, out);
  }
}

template <typename Body>
void ExitScorer::ForEachRow(size_t row_count, const Body& body) {
  if (row_count <= kSerialRows) {
    for (size_t i = 0; i < row_count; ++i) body(i);
    return;
  }
  pool_.ParallelFor(row_count, body);
}

}  // namespace outrider
