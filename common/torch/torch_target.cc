#include "common/torch/torch_target.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/target_rules.h"
#include "common/torch/torch_attention.h"
#include "common/torch/torch_status.h"
#include "common/torch/torch_threads.h"
#include "common/torch/torch_transformer.h"

namespace outrider {
namespace {

// The first room a sequence gets, in positions.
constexpr int64_t kFirstRoom = 64;

// How many positions a cache is to hold, now and in the end.
struct Room {
  int64_t positions;
  int64_t positions_max;
};

// One sequence's keys and values of one layer: [room, kv heads, length]. Committed positions come
// first; the rows of a pass or of a prompt's chunk stand after them until it is known which stay. A
// fork has the same tensors, and whoever is about to write copies those that somebody else has.
class LayerCache {
 public:
  // To be written to. What is there stays.
  void Reserve(const Room& room, const AttentionShape& shape, const ModelSpec& spec,
               at::Device device) {
    Reserve(keys_, room, {shape.kv_head_count, spec.key_length}, device);
    Reserve(values_, room, {shape.kv_head_count, spec.value_length}, device);
  }

  // Rows at positions `first` and on. A row that sees no such key must not be touched by it, and
  // zero times NaN is NaN: so what is not finite is told by the key alone, and the value is zero.
  void Write(int64_t first, const at::Tensor& keys, const at::Tensor& values) {
    const at::Tensor spoiled = values.isfinite().all(-1, true).logical_not();
    const double nan = std::numeric_limits<double>::quiet_NaN();
    keys_.narrow(0, first, keys.size(0)).copy_(keys.masked_fill(spoiled, nan));
    values_.narrow(0, first, keys.size(0)).copy_(values.masked_fill(spoiled, 0.0));
  }

  // The rows at `from`, ascending and none before its new place, become those at `first` and on.
  void Gather(int64_t first, const at::Tensor& from) {
    for (at::Tensor* const tensor : {&keys_, &values_}) {
      tensor->narrow(0, first, from.size(0)).copy_(tensor->index_select(0, from));
    }
  }

  // Of the first `positions`: [1, positions, kv heads, length].
  at::Tensor Keys(int64_t positions) const { return keys_.narrow(0, 0, positions).unsqueeze(0); }
  at::Tensor Values(int64_t positions) const {
    return values_.narrow(0, 0, positions).unsqueeze(0);
  }

 private:
  struct RowShape {
    int64_t heads;
    int64_t length;
  };
  static void Reserve(at::Tensor& tensor, const Room& room, const RowShape& row,
                      at::Device device) {
    const int64_t before = tensor.defined() ? tensor.size(0) : 0;
    if (room.positions <= before && tensor.use_count() == 1) return;
    const int64_t grown = std::min(std::max(2 * before, kFirstRoom), room.positions_max);
    const int64_t after = room.positions <= before ? before : std::max(room.positions, grown);
    at::Tensor larger =
        at::empty({after, row.heads, row.length}, at::TensorOptions(at::kFloat).device(device));
    if (before > 0) larger.narrow(0, 0, before).copy_(tensor);
    tensor = std::move(larger);
  }

  at::Tensor keys_;
  at::Tensor values_;
};

// All but the last of its tokens are in the cache.
struct Sequence : TargetSequence {
  using TargetSequence::TargetSequence;

  std::vector<LayerCache> layers;
  uint32_t computed = 0;  // positions; the rows of the last pass follow
};

// Neighbouring rows of one sequence, each below another of them or, the first, below the last
// computed position.
struct Segment {
  Sequence* sequence;
  int64_t first_row;
  int64_t row_count;
  at::Tensor hidden;  // [1, rows, computed + rows], bool: the keys a row does not see

  int64_t key_count() const { return sequence->computed + row_count; }
};

// The rows of one run of the transformer.
class Rows {
 public:
  Rows(std::optional<uint32_t> window, at::Device device) : window_(window), device_(device) {}

  uint32_t size() const { return static_cast<uint32_t>(tokens_.size()); }
  std::span<const Segment> segments() const { return segments_; }
  at::Tensor tokens() const { return ToDevice(tokens_); }
  at::Tensor positions() const { return ToDevice(positions_); }

  // `parent_of(i)` is the row above row i of these, for i > 0.
  template <typename ParentOf>
  void Add(Sequence& sequence, std::span<const TokenId> tokens, const ParentOf& parent_of) {
    const auto count = static_cast<int64_t>(tokens.size());
    const int64_t computed = sequence.computed;
    at::Tensor hidden = at::full({1, count, computed + count}, true, at::kBool);
    std::vector<int64_t> parents(tokens.size());
    const size_t first = tokens_.size();
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) parents[i] = parent_of(i);
      const int64_t position = i > 0 ? positions_[first + parents[i]] + 1 : computed;
      tokens_.push_back(tokens[i]);
      positions_.push_back(position);
      const int64_t first_seen = window_ ? std::max<int64_t>(0, position + 1 - *window_) : 0;
      bool* const row = hidden.data_ptr<bool>() + i * (computed + count);
      std::fill(row + std::min(first_seen, computed), row + computed, false);
      for (int64_t above = i;; above = parents[above]) {
        if (positions_[first + above] < first_seen) break;
        row[computed + above] = false;
        if (above == 0) break;
      }
    }
    segments_.push_back({&sequence, static_cast<int64_t>(first), count, hidden.to(device_)});
  }

 private:
  at::Tensor ToDevice(const std::vector<int64_t>& values) const {
    at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
    std::ranges::copy(values, tensor.data_ptr<int64_t>());
    return tensor.to(device_);
  }

  const std::optional<uint32_t> window_;
  const at::Device device_;
  std::vector<int64_t> tokens_;
  std::vector<int64_t> positions_;
  std::vector<Segment> segments_;
};

class TorchTarget final : public Target {
 public:
  TorchTarget(TorchTransformer model, TargetInfo info, uint32_t row_count_max)
      : model_(std::move(model)),
        info_(std::move(info)),
        row_count_max_(row_count_max),
        rules_(info_),
        scratch_(static_cast<int32_t>(info_.vocabulary_size)) {
    for (uint32_t i = 0; i < info_.sequence_count_max; ++i) {
      sequences_.Add(std::make_unique<Sequence>(info_));
    }
  }

  const TargetInfo& info() const override { return info_; }
  absl::StatusOr<SequenceId> CreateSequence() override;
  absl::StatusOr<SequenceId> Fork(SequenceId id) override;
  absl::Status Close(SequenceId id) override;
  absl::Status Truncate(SequenceId id, uint32_t length) override;
  absl::StatusOr<uint32_t> Length(SequenceId id) const override;
  absl::Status Prefill(SequenceId id, std::span<const TokenId> tokens,
                       const PromptProgress& progress) override;
  void Run(std::span<const Pass> passes, std::span<PassResult> results) override;
  absl::Status Commit(SequenceId id, const Outcome& outcome) override;

 private:
  absl::Status Reserve(Sequence& sequence, uint32_t rows);
  absl::StatusOr<Sequence*> Admit(const Pass& pass);
  at::Tensor Compute(const Rows& rows);
  void RunRows(const Rows& rows, std::span<const size_t> admitted, std::span<const Pass> passes,
               std::span<PassResult> results);

  const TorchTransformer model_;
  const TargetInfo info_;
  const uint32_t row_count_max_;
  TargetRules rules_;
  SequenceTable<Sequence> sequences_;
  ChooserScratch scratch_;
  std::vector<TokenId> path_;  // working memory of Run()
};

// --- sequences ---

absl::StatusOr<SequenceId> TorchTarget::CreateSequence() {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Create());
  sequence->layers.resize(model_.spec().layer_count());
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> TorchTarget::Fork(SequenceId id) {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const fork, sequences_.Create());
  fork->tokens = sequence->tokens;
  fork->layers = sequence->layers;
  fork->computed = sequence->computed;
  return SequenceId{fork->id};
}

absl::Status TorchTarget::Close(SequenceId id) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  sequence->id = 0;
  sequence->tokens.clear();
  sequence->layers.clear();
  sequence->computed = 0;
  sequence->has_pass = false;
  return absl::OkStatus();
}

absl::Status TorchTarget::Truncate(SequenceId id, uint32_t length) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_RETURN_IF_ERROR(TargetRules::Truncate(*sequence, length));
  sequence->computed = std::min(sequence->computed, length > 0 ? length - 1 : 0);
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> TorchTarget::Length(SequenceId id) const {
  OUTRIDER_ASSIGN_OR_RETURN(const Sequence* const sequence, sequences_.Find(id));
  return static_cast<uint32_t>(sequence->tokens.size());
}

// Room for so many rows after the computed positions, in tensors nobody else has.
absl::Status TorchTarget::Reserve(Sequence& sequence, uint32_t rows) {
  return CatchTorch("keys and values", [&]() -> absl::Status {
    const ModelSpec& spec = model_.spec();
    const Room room = {.positions = int64_t{sequence.computed} + rows,
                       .positions_max = int64_t{info_.context_length} + info_.node_count_max};
    for (uint32_t layer = 0; layer < spec.layer_count(); ++layer) {
      sequence.layers[layer].Reserve(room, spec.layers[layer], spec, model_.device());
    }
    return absl::OkStatus();
  });
}

// --- prompts ---

absl::Status TorchTarget::Prefill(SequenceId id, std::span<const TokenId> tokens,
                                  const PromptProgress& progress) {
  const c10::InferenceMode inference;
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_RETURN_IF_ERROR(rules_.CheckPrompt(*sequence, tokens));
  if (tokens.empty()) return absl::OkStatus();
  const size_t before = sequence->tokens.size();
  const auto total = static_cast<uint32_t>(before + tokens.size()) - 1 - sequence->computed;
  OUTRIDER_RETURN_IF_ERROR(Reserve(*sequence, total));
  sequence->has_pass = false;
  sequence->tokens.insert(sequence->tokens.end(), tokens.begin(), tokens.end());

  for (uint32_t done = 0; done < total;) {
    const uint32_t count = std::min(total - done, row_count_max_);
    absl::Status status = CatchTorch(info_.model_name, [&]() -> absl::Status {
      Rows rows(model_.spec().window, model_.device());
      rows.Add(*sequence, std::span(sequence->tokens).subspan(sequence->computed, count),
               [](int64_t i) { return i - 1; });
      Compute(rows);
      return absl::OkStatus();
    });
    if (status.ok()) {
      sequence->computed += count;
      done += count;
      if (!progress || progress(done, total) || done == total) continue;
      status = absl::CancelledError("the prompt was not read to its end");
    }
    sequence->tokens.resize(done > 0 ? sequence->computed + 1 : before);
    return status;
  }
  return absl::OkStatus();
}

// --- passes ---

void TorchTarget::Run(std::span<const Pass> passes, std::span<PassResult> results) {
  OUTRIDER_CHECK(passes.size() == results.size(), "every pass has a result");
  const c10::InferenceMode inference;
  rules_.BeginCall();
  for (size_t next = 0; next < passes.size();) {
    Rows rows(model_.spec().window, model_.device());
    std::vector<size_t> admitted;
    for (; next < passes.size(); ++next) {
      const Pass& pass = passes[next];
      if (rows.size() + 1 + pass.nodes.size() > row_count_max_ && !admitted.empty()) break;
      const absl::StatusOr<Sequence*> sequence = Admit(pass);
      results[next].status = sequence.status();
      if (!sequence.ok()) continue;
      std::vector<TokenId> tokens = {(*sequence)->tokens.back()};
      for (const DraftedNode& node : pass.nodes) tokens.push_back(node.token);
      rows.Add(**sequence, tokens, [&](int64_t i) -> int64_t {
        const uint32_t parent = pass.nodes[i - 1].parent;
        return parent == DraftedNode::kRoot ? 0 : int64_t{parent} + 1;
      });
      admitted.push_back(next);
    }
    RunRows(rows, admitted, passes, results);
  }
}

absl::StatusOr<Sequence*> TorchTarget::Admit(const Pass& pass) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(pass.sequence));
  OUTRIDER_RETURN_IF_ERROR(rules_.CheckPass(pass, *sequence).status());
  OUTRIDER_RETURN_IF_ERROR(Reserve(*sequence, static_cast<uint32_t>(1 + pass.nodes.size())));
  rules_.Admit(*sequence);
  return sequence;
}

// Segment i is that of the pass admitted[i].
void TorchTarget::RunRows(const Rows& rows, std::span<const size_t> admitted,
                          std::span<const Pass> passes, std::span<PassResult> results) {
  if (admitted.empty()) return;
  at::Tensor logits;
  const absl::Status status = CatchTorch(info_.model_name, [&]() -> absl::Status {
    logits = model_.Head(Compute(rows)).to(at::kCPU).contiguous();
    return absl::OkStatus();
  });
  for (size_t i = 0; i < admitted.size(); ++i) {
    PassResult& result = results[admitted[i]];
    result.status = status;
    if (!status.ok()) continue;
    const Pass& pass = passes[admitted[i]];
    const Segment& segment = rows.segments()[i];
    float* const first = logits.data_ptr<float>() + segment.first_row * logits.size(1);
    const auto logits_of = [&](uint32_t row) {
      return std::span(first + int64_t{row} * logits.size(1), info_.vocabulary_size);
    };
    const absl::StatusOr<Outcome> outcome =
        rules_.Walk(pass, *segment.sequence, logits_of, path_, scratch_);
    result.status = outcome.status();
    if (!outcome.ok()) continue;
    result.outcome = *outcome;
    TargetRules::Keep(pass, *segment.sequence);
  }
}

// Hidden states of all rows; their keys and values are in the caches then.
at::Tensor TorchTarget::Compute(const Rows& rows) {
  const auto attend = [&](uint32_t layer, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value) {
    std::vector<at::Tensor> attended;
    for (const Segment& segment : rows.segments()) {
      LayerCache& cache = segment.sequence->layers[layer];
      const auto of_segment = [&](const at::Tensor& x) {
        return x.narrow(0, segment.first_row, segment.row_count);
      };
      cache.Write(segment.sequence->computed, of_segment(key), of_segment(value));
      attended.push_back(outrider::Attend(of_segment(query).unsqueeze(0),
                                          cache.Keys(segment.key_count()),
                                          cache.Values(segment.key_count()),
                                          model_.spec().attention_scale, segment.hidden)
                             .squeeze(0));
    }
    return at::cat(attended);
  };
  return model_.Layers(rows.tokens(), rows.positions(), attend, nullptr);
}

absl::Status TorchTarget::Commit(SequenceId id, const Outcome& outcome) {
  OUTRIDER_ASSIGN_OR_RETURN(Sequence* const sequence, sequences_.Find(id));
  OUTRIDER_ASSIGN_OR_RETURN(const std::span<const uint32_t> path,
                            rules_.Commit(*sequence, outcome));
  sequence->computed += 1;  // the root
  if (path.empty()) return absl::OkStatus();
  const c10::InferenceMode inference;
  // Node i was written i places after what follows the root.
  at::Tensor from = at::empty({static_cast<int64_t>(path.size())}, at::kLong);
  for (size_t i = 0; i < path.size(); ++i) {
    from.data_ptr<int64_t>()[i] = int64_t{sequence->computed} + path[i];
  }
  from = from.to(model_.device());
  for (LayerCache& layer : sequence->layers) layer.Gather(sequence->computed, from);
  sequence->computed += static_cast<uint32_t>(path.size());
  return absl::OkStatus();
}

absl::StatusOr<at::Device> FindDevice(const std::string& name) {
  return CatchTorch(name, [&]() -> absl::StatusOr<at::Device> {
    const at::Device device(name);
    if (device.is_cuda() && !at::globalContext().hasCUDA()) {
      return FailedPrecondition(name, ": no GPU that this libtorch (", TORCH_VERSION,
                                ") could use, or it was built without CUDA, as Debian's is");
    }
    if (!device.is_cuda() && !device.is_cpu()) {
      return InvalidArgument("a target runs on cpu or cuda, not on ", name);
    }
    return device;
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> LoadTorchTarget(const ModelFile& model,
                                                        const std::string& path,
                                                        const TorchTargetOptions& options,
                                                        const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(const at::Device device, FindDevice(options.device));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(model, path));
  OUTRIDER_RETURN_IF_ERROR(CheckLimits(spec, {.context_length = options.context_length,
                                              .sequence_count_max = options.sequence_count_max,
                                              .node_count_max = options.node_count_max,
                                              .row_count_max = options.row_count_max}));
  SetTorchThreads(options.thread_count);
  OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer transformer,
                            TorchTransformer::Load(model, path, device, progress));
  const std::string backend =
      Concat(device.is_cuda() ? "torch-cuda " : "torch-cpu ", TORCH_VERSION);
  TargetInfo info = {
      .model_name = spec.name,
      .numerics_id = NumericsId::Of(spec, transformer.content_hash(), backend, "f32"),
      .vocabulary_size = spec.vocabulary_size,
      .context_length = options.context_length > 0 ? options.context_length : spec.context_length,
      .node_count_max = options.node_count_max,
      .sequence_count_max = options.sequence_count_max,
      .batch_invariant = false};
  return std::make_unique<TorchTarget>(std::move(transformer), std::move(info),
                                       options.row_count_max);
}

}  // namespace outrider
