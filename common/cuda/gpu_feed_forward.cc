#include "common/cuda/gpu_feed_forward.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

gpu::Gate GateOf(GateKind kind) {
  switch (kind) {
    case GateKind::kSiluGated:
      return gpu::Gate::kSiluGated;
    case GateKind::kGeluTanhGated:
      return gpu::Gate::kGeluTanhGated;
    case GateKind::kGeluTanh:
      return gpu::Gate::kGeluTanh;
    case GateKind::kClampedSiluGated:
      return gpu::Gate::kClampedSiluGated;
  }
  OUTRIDER_CHECK(false, "every gate is one of these");
}

// The most of everything that any layer has.
struct Maxima {
  size_t fed = 0;  // floats of all rows between `up` and `down`
  size_t choices = 0;
  size_t router_logits = 0;
  size_t tiles = 0;
  bool has_shared = false;
};

Maxima MaximaOf(const ModelSpec& spec, uint32_t row_count) {
  Maxima maxima;
  for (const LayerSpec& layer : spec.layers) {
    const FeedForwardSpec& shape = layer.feed_forward;
    const uint32_t row_choices = shape.router ? shape.router->used_count : 1;
    const uint32_t choices = row_count * row_choices;
    maxima.fed = std::max({maxima.fed, size_t{choices} * shape.length,
                           size_t{row_count} * shape.shared_length.value_or(0)});
    if (!shape.router) continue;
    const uint32_t experts = shape.router->expert_count;
    maxima.choices = std::max(maxima.choices, size_t{choices});
    maxima.router_logits = std::max(maxima.router_logits, size_t{row_count} * experts);
    maxima.tiles = std::max(maxima.tiles, size_t{gpu::GroupChoices::TileCount(choices, experts)});
    maxima.has_shared = maxima.has_shared || shape.shared_length.has_value();
  }
  return maxima;
}

}  // namespace

size_t GpuFeedForward::ElementCountMax(const ModelSpec& spec, uint32_t row_count_max) {
  const Maxima maxima = MaximaOf(spec, row_count_max);
  return std::max({maxima.fed, maxima.choices * spec.embedding_length,
                   size_t{row_count_max} * spec.embedding_length});
}

absl::StatusOr<std::unique_ptr<GpuFeedForward>> GpuFeedForward::Create(const ModelSpec& spec,
                                                                       uint32_t row_count_max,
                                                                       GpuRowMath& math,
                                                                       DeviceQueue& queue) {
  std::unique_ptr<GpuFeedForward> made(new GpuFeedForward(spec, math, queue));
  OUTRIDER_RETURN_IF_ERROR(made->TakeMemory(row_count_max));
  return made;
}

absl::Status GpuFeedForward::TakeMemory(uint32_t row_count_max) {
  const Maxima maxima = MaximaOf(spec_, row_count_max);
  const size_t width = spec_.embedding_length;
  const size_t shared_rows = maxima.has_shared ? row_count_max : 0;
  const std::pair<DeviceBuffer&, size_t> buffers[] = {
      {gate_, maxima.fed * sizeof(float)},
      {up_, maxima.fed * sizeof(float)},
      {router_logits_, maxima.router_logits * sizeof(float)},
      {chosen_, maxima.choices * sizeof(uint32_t)},
      {weights_, maxima.choices * sizeof(float)},
      {place_of_, maxima.choices * sizeof(uint32_t)},
      {row_at_, maxima.choices * sizeof(uint32_t)},
      {tiles_, maxima.tiles * sizeof(gpu::ExpertTile)},
      {asked_, maxima.choices * width * sizeof(float)},
      {answers_, maxima.choices * width * sizeof(float)},
      {shared_, shared_rows * width * sizeof(float)},
      {shared_gate_, shared_rows * sizeof(float)}};
  for (const auto& [buffer, bytes] : buffers) {
    if (bytes == 0) continue;
    OUTRIDER_ASSIGN_OR_RETURN(
        buffer, DeviceBuffer::Create(queue_, bytes, Concat("the rows of ", spec_.name)));
  }
  return absl::OkStatus();
}

void GpuFeedForward::Apply(const FeedForwardSpec& shape, const DeviceLayer& weights, const float* x,
                           uint32_t row_count, float* out) {
  if (!shape.router) {
    return Pass(shape.gate, shape.length, weights.feed_forward, {x, row_count}, out);
  }
  if (shape.shared_length) PassShared(shape, weights, x, row_count);
  PassExperts(shape, weights, x, row_count, out);
}

void GpuFeedForward::Pass(GateKind gate_kind, uint32_t length, const DeviceFeedForward& weights,
                          const Rows& rows, float* out) {
  float* const gate = gate_.As<float>();
  float* const up = up_.As<float>();
  const uint32_t width = spec_.embedding_length;
  if (gate_kind == GateKind::kGeluTanh) {
    math_.Multiply(rows.x, rows.count, width, {{weights.up, up}}, rows.tiles);
  } else {
    math_.Multiply(rows.x, rows.count, width, {{weights.gate, gate}, {weights.up, up}}, rows.tiles);
  }
  const gpu::GateRows gated = {gate, up, length, GateOf(gate_kind)};
  queue_.Run(gated, rows.count, gated.grid_y());
  math_.Multiply(up, rows.count, length, {{weights.down, out}}, rows.tiles);
}

// The expert that every row goes to, and what its gate says of the row.
void GpuFeedForward::PassShared(const FeedForwardSpec& shape, const DeviceLayer& weights,
                                const float* x, uint32_t row_count) {
  math_.Multiply(x, row_count, spec_.embedding_length,
                 {{weights.shared_gate, shared_gate_.As<float>()}});
  Pass(shape.gate, *shape.shared_length, weights.shared, {x, row_count}, shared_.As<float>());
}

ExpertTiles GpuFeedForward::Route(const RouterSpec& router, const DeviceLinear& weights,
                                  const float* x, uint32_t row_count) {
  math_.Multiply(x, row_count, spec_.embedding_length, {{weights, router_logits_.As<float>()}});
  queue_.Run(gpu::RouteRows{.logits = router_logits_.As<float>(),
                            .chosen = chosen_.As<uint32_t>(),
                            .weights = weights_.As<float>(),
                            .expert_count = router.expert_count,
                            .used_count = router.used_count,
                            .renormalize = router.renormalize},
             row_count, 1);
  const uint32_t choice_count = row_count * router.used_count;
  const gpu::GroupChoices group = {
      .chosen = chosen_.As<uint32_t>(),
      .place_of = place_of_.As<uint32_t>(),
      .row_at = row_at_.As<uint32_t>(),
      .tiles = tiles_.As<gpu::ExpertTile>(),
      .choice_count = choice_count,
      .used_count = router.used_count,
      .expert_count = router.expert_count,
      .tile_count = gpu::GroupChoices::TileCount(choice_count, router.expert_count)};
  queue_.Run(group, 1, 1);
  return {group.tiles, group.tile_count};
}

void GpuFeedForward::PassExperts(const FeedForwardSpec& shape, const DeviceLayer& weights,
                                 const float* x, uint32_t row_count, float* out) {
  const ExpertTiles tiles = Route(*shape.router, weights.router, x, row_count);
  const uint32_t used_count = shape.router->used_count, choice_count = row_count * used_count;
  queue_.Run(gpu::GatherRows{.from = x,
                             .which = row_at_.As<uint32_t>(),
                             .to = asked_.As<float>(),
                             .length = spec_.embedding_length},
             choice_count, 1);
  Pass(shape.gate, shape.length, weights.feed_forward, {asked_.As<float>(), choice_count, tiles},
       answers_.As<float>());
  const gpu::SumExperts sum = {.answers = answers_.As<float>(),
                               .place_of = place_of_.As<uint32_t>(),
                               .weights = weights_.As<float>(),
                               .shared = shape.shared_length ? shared_.As<float>() : nullptr,
                               .shared_gate = shared_gate_.As<float>(),
                               .out = out,
                               .length = spec_.embedding_length,
                               .used_count = used_count};
  queue_.Run(sum, row_count, sum.grid_y());
}

}  // namespace outrider
