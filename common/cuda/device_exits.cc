#include "common/cuda/device_exits.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/model/exits/exit_scorer.h"

namespace outrider {

// --- making them ---

absl::StatusOr<std::unique_ptr<DeviceExits>> DeviceExits::Create(const TrainedExits& exits,
                                                                 const std::string& path,
                                                                 const Place& place,
                                                                 const ExitOptions& options,
                                                                 uint32_t slot_count) {
  OUTRIDER_RETURN_IF_ERROR(CheckExits(exits.target, path, place.spec, place.info.content_hash));
  uint32_t rank_max = 0;
  for (const TrainedExit& exit : exits.exits) {
    if (exit.rank % 4 != 0) {
      return Unimplemented(path, ": an adapter of rank ", exit.rank,
                           " has no kernel on a GPU: ranks come in fours there");
    }
    rank_max = std::max(rank_max, exit.rank);
  }
  const bool is_full = options.scope == ExitScope::kFull;
  const std::span<const TokenId> frequent =
      is_full ? std::span<const TokenId>() : exits.frequent_tokens;
  std::unique_ptr<DeviceExits> made(
      new DeviceExits(place, options, static_cast<uint32_t>(frequent.size())));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(rank_max, slot_count));
  for (const TrainedExit& exit : exits.exits) {
    OUTRIDER_ASSIGN_OR_RETURN(Adapter adapter, made->Upload(exit));
    made->adapters_.push_back(std::move(adapter));
  }
  if (!is_full) OUTRIDER_RETURN_IF_ERROR(made->GatherFrequent(frequent));
  OUTRIDER_RETURN_IF_ERROR(place.queue.Wait());
  return made;
}

DeviceExits::DeviceExits(const Place& place, const ExitOptions& options, uint32_t frequent_count)
    : spec_(place.spec),
      weights_(place.weights),
      queue_(place.queue),
      is_full_(options.scope == ExitScope::kFull),
      row_count_max_(place.info.row_count_max),
      band_count_max_((row_count_max_ + kBand - 1) / kBand),
      round_token_max_(ExitHeads::RoundTokens(row_count_max_, options)),
      frequent_count_(frequent_count),
      column_count_(is_full_ ? spec_.vocabulary_size : frequent_count + round_token_max_),
      band_has_logits_(band_count_max_) {}

absl::Status DeviceExits::TakeMemory(uint32_t rank_max, uint32_t slot_count) {
  const std::string what = Concat("the exits of ", spec_.name);
  const size_t width = spec_.embedding_length;
  const size_t panel_bytes = weights_.head().panel_bytes;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {ones_, width * sizeof(float)},
      {frequent_, is_full_ ? 0 : PanelCount(frequent_count_) * panel_bytes},
      {round_, is_full_ ? 0 : PanelCount(round_token_max_) * panel_bytes},
      {tokens_, is_full_ ? 0 : column_count_ * sizeof(uint32_t)},
      {tables_, TableBytes()},
      {normed_, kBand * width * sizeof(float)},
      {state_, kBand * width * sizeof(float)},
      {inner_, kBand * size_t{rank_max} * sizeof(float)},
      {logits_, kBand * size_t{column_count_} * sizeof(float)},
      {rankings_, row_count_max_ * sizeof(ExitRanking)}};
  for (const auto& [buffer, bytes] : buffers) {
    if (bytes == 0) continue;
    OUTRIDER_ASSIGN_OR_RETURN(buffer, DeviceBuffer::Create(queue_, bytes, what));
  }
  OUTRIDER_ASSIGN_OR_RETURN(quants_, RowQuants::Create(queue_, kBand, width, column_count_, what));
  OUTRIDER_ASSIGN_OR_RETURN(tables_here_, HostBuffer::Create(queue_, TableBytes(), what));
  for (uint32_t i = 0; i < slot_count; ++i) {
    Slot& slot = slots_.emplace_back();
    OUTRIDER_ASSIGN_OR_RETURN(
        slot.rankings, HostBuffer::Create(queue_, row_count_max_ * sizeof(ExitRanking), what));
    OUTRIDER_ASSIGN_OR_RETURN(
        slot.logits,
        HostBuffer::Create(queue_, size_t{row_count_max_} * column_count_ * sizeof(float), what));
  }
  const std::vector<float> ones(width, 1.0f);
  queue_.Upload(ones_.data(), ones.data(), width * sizeof(float));
  return absl::OkStatus();
}

// As floats, whatever the file has: those are multiplied with the processor's bits, which halves are
// not (kernels/split_products.h).
absl::StatusOr<DeviceExits::Adapter> DeviceExits::Upload(const TrainedExit& exit) {
  OUTRIDER_ASSIGN_OR_RETURN(const PackedAdapter packed,
                            PackedAdapter::Pack(exit, TensorType::kF32, spec_.embedding_length));
  Adapter adapter;
  OUTRIDER_ASSIGN_OR_RETURN(adapter.memory,
                            DeviceBuffer::Create(queue_, packed.memory.bytes().size(),
                                                 Concat("the exits of ", spec_.name)));
  const std::byte* const first = packed.memory.bytes().data();
  queue_.Upload(adapter.memory.data(), first, packed.memory.bytes().size());
  const std::pair<const Linear&, DeviceMatrix&> matrices[] = {{packed.down, adapter.down},
                                                              {packed.up, adapter.up}};
  for (const auto& [from, to] : matrices) {
    to = {.kind = gpu::PanelKind::kF32,
          .form = ActivationForm::kFloat,
          .outputs = from.matrix.outputs,
          .inputs = from.matrix.inputs,
          .panel_bytes = PanelBytes(TensorType::kF32, from.matrix.inputs),
          .panels = adapter.memory.data() + (from.matrix.data - first)};
  }
  return adapter;
}

absl::Status DeviceExits::GatherFrequent(std::span<const TokenId> tokens) {
  if (tokens.empty()) return absl::OkStatus();
  queue_.Upload(tokens_.data(), tokens.data(), tokens.size_bytes());
  Gather(tokens_.As<uint32_t>(), Gathered(frequent_, frequent_count_));
  return absl::OkStatus();
}

// Rows of the output matrix, in panels of their own.
DeviceMatrix DeviceExits::Gathered(const DeviceBuffer& panels, uint32_t count) const {
  DeviceMatrix matrix = weights_.head();
  matrix.outputs = count;
  matrix.panels = panels.data();
  return matrix;
}

void DeviceExits::Gather(const uint32_t* tokens, const DeviceMatrix& to) {
  const DeviceMatrix& head = weights_.head();
  const gpu::GatherOutputs gather = {.from = head.panels,
                                     .to = const_cast<std::byte*>(to.panels),
                                     .panel_bytes = head.panel_bytes,
                                     .which = tokens,
                                     .count = to.outputs,
                                     .lines = gpu::LinesOf(head.kind, head.inputs)};
  queue_.Run(gather, gather.grid_x(), PanelCount(to.outputs));
}

// --- a run ---

size_t DeviceExits::TableBytes() const {
  return row_count_max_ * (sizeof(uint32_t) + sizeof(ExitCandidates)) +
         2 * round_token_max_ * sizeof(uint32_t);
}

DeviceExits::Tables DeviceExits::TablesIn(std::byte* memory) const {
  Tables tables;
  tables.rows = reinterpret_cast<uint32_t*>(memory);
  tables.tokens = tables.rows + row_count_max_;
  tables.own_columns = tables.tokens + round_token_max_;
  tables.candidates = reinterpret_cast<ExitCandidates*>(tables.own_columns + round_token_max_);
  return tables;
}

void DeviceExits::Begin(const ExitHeads::Round& round) {
  row_count_ = static_cast<uint32_t>(round.rows.size());
  round_count_ = static_cast<uint32_t>(round.tokens.size());
  OUTRIDER_CHECK(row_count_ <= row_count_max_ && round_count_ <= round_token_max_ &&
                     round.own_columns.size() <= round_token_max_,
                 "a round has no more than its run");
  is_fetched_ = false;
  const Tables here = TablesIn(tables_here_.data());
  std::ranges::copy(round.rows, here.rows);
  std::ranges::copy(round.tokens, here.tokens);
  std::ranges::copy(round.own_columns, here.own_columns);
  std::ranges::copy(round.candidates, here.candidates);
  for (uint32_t band = 0; band < BandCount(); ++band) {
    band_has_logits_[band] =
        !std::ranges::all_of(round.candidates.subspan(size_t{band} * kBand, BandRows(band)),
                             &ExitCandidates::are_ranked);
  }
}

uint32_t DeviceExits::BandRows(uint32_t band) const {
  return std::min(kBand, row_count_ - band * kBand);
}

void DeviceExits::Score(uint32_t exit, uint32_t slot, float* states) {
  queue_.BeginBeside();
  queue_.Mark(ScoringBegins(slot));
  if (!std::exchange(is_fetched_, true)) FetchRound();
  for (uint32_t band = 0; band < BandCount(); ++band) {
    ScoreBand(adapters_[exit], band, states);
    if (!band_has_logits_[band]) continue;
    const size_t row_bytes = column_count_ * sizeof(float);
    queue_.Depart(LogitsLeave(slot, band), slots_[slot].logits.data() + band * kBand * row_bytes,
                  logits_.data(), BandRows(band) * row_bytes);
  }
  queue_.Mark(ScoringEnds(slot));
  queue_.Depart(RankingsLeave(slot), slots_[slot].rankings.data(), rankings_.data(),
                row_count_ * sizeof(ExitRanking));
  queue_.EndBeside();
}

void DeviceExits::FetchRound() {
  queue_.Fetch(tables_.data(), tables_here_.data(), TableBytes());
  if (is_full_ || round_count_ == 0) return;
  const uint32_t* const tokens = TablesIn(tables_here_.data()).tokens;
  queue_.Fetch(tokens_.data() + frequent_count_ * sizeof(uint32_t), tokens,
               round_count_ * sizeof(uint32_t));
  Gather(tokens_.As<uint32_t>() + frequent_count_, Gathered(round_, round_count_));
}

void DeviceExits::ScoreBand(const Adapter& adapter, uint32_t band, float* states) {
  const uint32_t first = band * kBand, row_count = BandRows(band);
  Adapt(adapter, TablesIn(tables_.data()).rows + first, row_count, states);
  Norm(state_.As<float>(), nullptr, weights_.head_norm(), row_count);
  Project(row_count);
  Rank(first, row_count);
}

// The rows' h' into state_, as ExitScorer has it.
void DeviceExits::Adapt(const Adapter& adapter, const uint32_t* which, uint32_t row_count,
                        float* states) {
  const uint32_t width = spec_.embedding_length, rank = adapter.down.outputs;
  Norm(states, which, {.weight = ones_.As<float>()}, row_count);
  Multiply(quants_.Take(normed_.As<float>(), row_count, width, adapter.down.form), adapter.down,
           inner_.As<float>(), rank);
  const gpu::GateRows gate = {nullptr, inner_.As<float>(), rank, gpu::Gate::kSilu};
  queue_.Run(gate, row_count, gate.grid_y());
  Multiply(quants_.Take(inner_.As<float>(), row_count, rank, adapter.up.form), adapter.up,
           normed_.As<float>(), width);
  queue_.Run(gpu::AdaptRows{.states = states,
                            .which = which,
                            .change = normed_.As<float>(),
                            .out = state_.As<float>(),
                            .length = width,
                            .epsilon = spec_.norm_epsilon},
             row_count, 1);
}

void DeviceExits::Project(uint32_t row_count) {
  const DeviceMatrix& head = weights_.head();
  gpu::GpuRows x = quants_.Take(normed_.As<float>(), row_count, spec_.embedding_length, head.form);
  if (gpu::TakesTerms(head.kind, column_count_, row_count)) quants_.Split(x);
  float* const logits = logits_.As<float>();
  if (is_full_) return Multiply(x, head, logits, column_count_);
  gpu::JointProducts joint = {};
  if (frequent_count_ > 0) {
    joint.each[joint.count++] =
        ProductOf(x, Gathered(frequent_, frequent_count_), logits, column_count_);
  }
  if (round_count_ > 0) {
    joint.each[joint.count++] =
        ProductOf(x, Gathered(round_, round_count_), logits + frequent_count_, column_count_);
  }
  if (joint.count == 1) queue_.Multiply(joint.each[0], head.kind);
  if (joint.count > 1) queue_.Multiply(joint, head.kind);
}

void DeviceExits::Rank(uint32_t first, uint32_t row_count) {
  const Tables tables = TablesIn(tables_.data());
  queue_.Run(gpu::RankCandidates{.logits = logits_.As<float>(),
                                 .stride = column_count_,
                                 .tokens = is_full_ ? nullptr : tokens_.As<uint32_t>(),
                                 .candidates = tables.candidates + first,
                                 .own_columns = tables.own_columns,
                                 .rankings = rankings_.As<ExitRanking>() + first},
             row_count, 1);
}

// Into normed_.
void DeviceExits::Norm(float* states, const uint32_t* which, const DeviceNorm& norm,
                       uint32_t row_count) {
  queue_.Run(gpu::NormRows{.stream = states,
                           .part = nullptr,
                           .weight = norm.weight,
                           .bias = norm.bias,
                           .out = normed_.As<float>(),
                           .which = which,
                           .length = spec_.embedding_length,
                           .epsilon = spec_.norm_epsilon},
             row_count, 1);
}

gpu::Product DeviceExits::ProductOf(const gpu::GpuRows& x, const DeviceMatrix& matrix, float* out,
                                    size_t stride) const {
  return {.panels = matrix.panels,
          .panel_bytes = matrix.panel_bytes,
          .outputs = matrix.outputs,
          .inputs = matrix.inputs,
          .bias = nullptr,
          .x = x,
          .out = out,
          .out_stride = stride,
          .room = quants_.room()};
}

void DeviceExits::Multiply(const gpu::GpuRows& x, const DeviceMatrix& matrix, float* out,
                           size_t stride) {
  queue_.Multiply(ProductOf(x, matrix, out, stride), matrix.kind);
}

// --- what comes of it ---

absl::Status DeviceExits::Await(uint32_t slot) {
  for (uint32_t band = 0; band < BandCount(); ++band) {
    if (!band_has_logits_[band]) continue;
    OUTRIDER_RETURN_IF_ERROR(queue_.AwaitArrival(LogitsLeave(slot, band)));
  }
  return queue_.AwaitArrival(RankingsLeave(slot));
}

ExitHeads::Scores DeviceExits::ScoresOf(uint32_t slot) const {
  const uint32_t length = is_full_ ? column_count_ : frequent_count_ + round_count_;
  return {.logits = {slots_[slot].logits.As<float>(), column_count_, length},
          .rankings = {slots_[slot].rankings.As<ExitRanking>(), row_count_}};
}

Duration DeviceExits::TimeOf(uint32_t slot) const {
  return queue_.Between(ScoringBegins(slot), ScoringEnds(slot));
}

}  // namespace outrider
