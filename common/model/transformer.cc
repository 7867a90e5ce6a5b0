#include "common/model/transformer.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/base/check.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

bool HasPartsBeside(const ModelSpec& spec) {
  return std::ranges::any_of(spec.layers, [](const LayerSpec& layer) {
    return layer.is_parallel || layer.feed_forward.shared_length.has_value();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transformer>> Transformer::Create(
    const ModelSpec& spec, WeightStore& weights, const MemoryLayout& cache, const Kernels& kernels,
    ThreadPool& pool, uint32_t row_count_max, uint32_t logit_row_count_max) {
  OUTRIDER_CHECK(row_count_max > 0 && logit_row_count_max > 0, "a transformer is made for rows");
  const uint32_t product_rows = std::max(row_count_max, logit_row_count_max);
  std::unique_ptr<Transformer> made(
      new Transformer(spec, weights, row_count_max, logit_row_count_max));
  OUTRIDER_ASSIGN_OR_RETURN(
      made->math_, RowMath::Create(spec, kernels, pool,
                                   std::max(product_rows, ExpertFeedForward::ProductRowsMax(
                                                              spec, row_count_max))));
  OUTRIDER_ASSIGN_OR_RETURN(
      made->attention_,
      AttentionMixer::Create(spec, weights.rope_freqs(), cache, *made->math_, row_count_max));
  OUTRIDER_ASSIGN_OR_RETURN(made->cross_attention_,
                            CrossAttention::Create(spec, cache, *made->math_, row_count_max));
  OUTRIDER_ASSIGN_OR_RETURN(made->feed_forward_,
                            FeedForward::Create(spec, *made->math_, row_count_max));
  OUTRIDER_ASSIGN_OR_RETURN(made->experts_,
                            ExpertFeedForward::Create(spec, weights, *made->math_, row_count_max));
  made->FindMixers();
  OUTRIDER_ASSIGN_OR_RETURN(
      made->memory_, AllocateRows({{made->hidden_, row_count_max, spec.embedding_length},
                                   {made->normed_, product_rows, spec.embedding_length},
                                   {made->beside_, HasPartsBeside(spec) ? row_count_max : 0,
                                    spec.embedding_length},
                                   {made->logits_, logit_row_count_max, spec.vocabulary_size}}));
  return made;
}

Transformer::Transformer(const ModelSpec& spec, WeightStore& weights, uint32_t row_count_max,
                         uint32_t logit_row_count_max)
    : spec_(spec),
      weights_(weights),
      row_count_max_(row_count_max),
      logit_row_count_max_(logit_row_count_max),
      gone_(row_count_max),
      dropped_(std::make_unique<bool[]>(row_count_max)) {
  active_.reserve(row_count_max);
  looked_up_.reserve(row_count_max);
}

void Transformer::FindMixers() {
  for (const LayerSpec& layer : spec_.layers) {
    const auto* const guest = std::get_if<GuestMixer>(&layer.mixer);
    Mixer* const mixer = guest != nullptr ? guest->mixer : attention_.get();
    mixers_.push_back(mixer);
    if (std::ranges::count(mixers_alone_, mixer) == 0) mixers_alone_.push_back(mixer);
  }
}

absl::Status Transformer::WriteEncoder(std::span<const float> states,
                                       const SequenceMemory& memory) {
  const ScopedIeeeMode ieee;
  const size_t width = spec_.embedding_length;
  const auto cell_count = static_cast<uint32_t>(states.size() / width);
  for (uint32_t layer = 0; layer < spec_.layer_count(); ++layer) {
    if (!spec_.layers[layer].cross_attention) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const Lease<LayerWeights> weights, weights_.Acquire(LayerKey{layer}));
    for (uint32_t first = 0; first < cell_count; first += row_count_max_) {
      const uint32_t count = std::min(row_count_max_, cell_count - first);
      for (uint32_t i = 0; i < count; ++i) {
        std::copy_n(states.data() + (first + i) * width, width, hidden_.row(i));
      }
      cross_attention_->Write(layer, weights->cross_attention, hidden_, count, first, memory);
    }
  }
  return absl::OkStatus();
}

absl::Status Transformer::Forward(const Batch& batch, LayerObserver* observer) {
  const ScopedIeeeMode ieee;
  OUTRIDER_RETURN_IF_ERROR(Begin(batch));
  for (uint32_t layer = 0; layer < spec_.layer_count() && !active_.empty(); ++layer) {
    OUTRIDER_ASSIGN_OR_RETURN(const Lease<LayerWeights> weights, weights_.Acquire(LayerKey{layer}));

    const MixerRun run = {layer, *weights, batch, active_};

    const RowBlock& mixed = Enter(weights->mixer_norms);
    if (spec_.layers[layer].is_parallel) {
      OUTRIDER_RETURN_IF_ERROR(PassParallel(run, mixed));
      if (observer != nullptr && layer + 1 < spec_.layer_count()) Observe(*observer, layer);
      continue;
    }
    mixers_[layer]->Mix(run, mixed, normed_);
    Leave(weights->mixer_norms);

    if (spec_.layers[layer].cross_attention) {
      const RowBlock& heard = Enter(weights->cross_attention_norms);
      cross_attention_->Apply(run, heard, normed_);
      Leave(weights->cross_attention_norms);
    }

    const RowBlock& fed = Enter(weights->feed_forward_norms);
    OUTRIDER_RETURN_IF_ERROR(FeedForwardOf(layer, *weights, fed));
    Leave(weights->feed_forward_norms);

    if (observer != nullptr && layer + 1 < spec_.layer_count()) Observe(*observer, layer);
  }
  return absl::OkStatus();
}

absl::Status Transformer::Begin(const Batch& batch) {
  OUTRIDER_CHECK(batch.row_count() <= row_count_max_, "a batch is no larger than the transformer");
  batch_ = &batch;
  active_.clear();
  for (uint32_t row = 0; row < batch.row_count(); ++row) active_.push_back(row);
  std::ranges::fill(gone_, uint8_t{0});
  OUTRIDER_RETURN_IF_ERROR(Embed(batch));
  for (Mixer* const mixer : mixers_alone_) mixer->Begin(batch);
  return absl::OkStatus();
}

absl::Status Transformer::Embed(const Batch& batch) {
  looked_up_.clear();
  for (uint32_t i = 0; i < batch.row_count(); ++i) {
    const Batch::Row& row = batch.rows()[i];
    if (row.embedding != nullptr) {
      std::copy_n(row.embedding, spec_.embedding_length, hidden_.row(i));
      continue;
    }
    OUTRIDER_CHECK(row.token >= 0 && static_cast<uint32_t>(row.token) < spec_.vocabulary_size,
                   "tokens are checked where they enter");
    looked_up_.push_back({static_cast<uint32_t>(row.token), hidden_.row(i)});
  }
  OUTRIDER_RETURN_IF_ERROR(weights_.LookUp(WeightTable::kEmbeddings, looked_up_));
  for (const TableRow& row : looked_up_) math_->Scale(spec_.embedding_scale, {row.out, 0}, 1);
  if (!spec_.learned_positions) return absl::OkStatus();
  looked_up_.clear();
  for (uint32_t i = 0; i < batch.row_count(); ++i) {
    looked_up_.push_back({batch.rows()[i].position.at[0], normed_.row(i)});
  }
  OUTRIDER_RETURN_IF_ERROR(weights_.LookUp(WeightTable::kPositions, looked_up_));
  math_->Add(hidden_, normed_, batch.row_count());
  return absl::OkStatus();
}

absl::Status Transformer::FeedForwardOf(uint32_t layer, const LayerWeights& weights,
                                        const RowBlock& x) {
  const FeedForwardSpec& shape = spec_.layers[layer].feed_forward;
  if (!shape.router) {
    feed_forward_->Apply(shape, weights.feed_forward, x, row_count(), normed_);
    return absl::OkStatus();
  }
  if (!shape.shared_length) {
    return experts_->Apply(layer, weights.router, x, row_count(), normed_);
  }
  feed_forward_->ApplyShared(shape, weights.shared, x, row_count(), beside_);
  OUTRIDER_RETURN_IF_ERROR(experts_->Apply(layer, weights.router, x, row_count(), normed_));
  math_->Add(normed_, beside_, row_count());
  return absl::OkStatus();
}

// Both parts of a layer of the same rows: what the mixer makes of them is added first.
absl::Status Transformer::PassParallel(const MixerRun& run, const RowBlock& normed) {
  OUTRIDER_CHECK(&normed == &normed_ && !spec_.layers[run.layer].feed_forward.shared_length,
                 "a parallel layer has a norm before it, and no third part");
  mixers_[run.layer]->Mix(run, normed, beside_);
  OUTRIDER_RETURN_IF_ERROR(FeedForwardOf(run.layer, run.weights, normed));
  for (const RowBlock& part : {beside_, normed_}) {
    math_->Scale(spec_.residual_scale, part, row_count());
    math_->Add(hidden_, part, row_count());
  }
  return absl::OkStatus();
}

// What a part of a layer gets: the residual stream, normed where the part has a norm before it.
const RowBlock& Transformer::Enter(const PartNorms& norms) {
  if (norms.before.weight.empty()) return hidden_;
  math_->Normalize(norms.before, hidden_, row_count(), normed_);
  return normed_;
}

// What a part of a layer gave goes into the residual stream, normed where it has a norm after it;
// and so is the stream where the sum has one.
void Transformer::Leave(const PartNorms& norms) {
  if (!norms.after.weight.empty()) math_->Normalize(norms.after, normed_, row_count(), normed_);
  math_->Scale(spec_.residual_scale, normed_, row_count());
  math_->Add(hidden_, normed_, row_count());
  if (!norms.sum.weight.empty()) math_->Normalize(norms.sum, hidden_, row_count(), hidden_);
}

// Rows that are dropped, and those below them, make room: the others close up.
void Transformer::Observe(LayerObserver& observer, uint32_t layer) {
  std::fill_n(dropped_.get(), active_.size(), false);
  LayerView view(active_, hidden_.data, hidden_.stride, spec_.embedding_length,
                 {dropped_.get(), active_.size()});
  observer.AfterLayer(layer, view);
  size_t kept = 0;
  for (size_t i = 0; i < active_.size(); ++i) {
    const uint32_t row = active_[i];
    const uint32_t parent = batch_->rows()[row].parent;
    if (dropped_[i] || (parent != Batch::kNoRow && gone_[parent] != 0)) {
      gone_[row] = 1;
      continue;
    }
    if (kept < i) std::copy_n(hidden_.row(i), spec_.embedding_length, hidden_.row(kept));
    active_[kept++] = row;
  }
  active_.resize(kept);
}

LogitRows Transformer::Project(std::span<const uint32_t> indices, const HeadWeights& head) {
  OUTRIDER_CHECK(indices.size() <= logit_row_count_max_, "logits are asked for band by band");
  const ScopedIeeeMode ieee;
  for (size_t i = 0; i < indices.size(); ++i) {
    OUTRIDER_CHECK(indices[i] < active_.size(), "only rows that went all the way have logits");
    math_->Normalize(head.norm, hidden_.row(indices[i]), normed_.row(i));
  }
  const auto count = static_cast<uint32_t>(indices.size());
  math_->Multiply(normed_, count, head.matrix, logits_);
  const LogitRows logits = {logits_.data, logits_.stride, count, spec_.vocabulary_size};
  if (spec_.logit_scale != 1.0f || spec_.logit_soft_cap) Cap(logits);
  return logits;
}

void Transformer::Cap(const LogitRows& logits) const {
  const RowKernels& kernels = math_->kernels();
  math_->ForEachRow(logits.row_count, [&](size_t i) {
    float* const row = logits.row(static_cast<uint32_t>(i)).data();
    if (spec_.logit_scale != 1.0f) {
      const WeightedRow scaled = {row, spec_.logit_scale};
      kernels.weighted_sum(&scaled, 1, logits.length, row);
    }
    if (spec_.logit_soft_cap) kernels.soft_cap(row, *spec_.logit_soft_cap, logits.length, row);
  });
}

}  // namespace outrider
