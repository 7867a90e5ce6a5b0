#include "common/torch/torch_engine.h"

#include <ATen/Context.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "common/engine/answers.h"
#include "common/engine/exit_heads.h"
#include "common/engine/sequence_table.h"
#include "common/model/memory/ledger.h"
#include "common/model/memory/node_tree.h"
#include "common/model/memory/page_memory.h"
#include "common/torch/layer_cache.h"
#include "common/torch/layer_windows.h"
#include "common/torch/run_rows.h"
#include "common/torch/tensor_of.h"
#include "common/torch/torch_attention.h"
#include "common/torch/torch_sequence.h"
#include "common/torch/torch_status.h"
#include "common/torch/torch_threads.h"
#include "common/torch/torch_transformer.h"

namespace outrider {
namespace {

// The ledger's groups. Pages of cells are promised, and never taken: who has them is the tensors'
// business. An encoder's are taken, since forks that hold the same tensors hold no more pages.
constexpr uint32_t kCells = 0;
constexpr uint32_t kEncoder = 1;  // where layers hear one

class TorchEngine final : public Engine {
 public:
  // Where it came from, for what exits need of it on the host.
  struct Source {
    std::string path;
    const Kernels& kernels;
    ThreadPool& pool;
  };

  TorchEngine(TorchTransformer model, EngineInfo info, std::span<const PageGroup> groups,
              Source source)
      : model_(std::move(model)),
        windows_(model_.spec()),
        info_(std::move(info)),
        source_(std::move(source)),
        ledger_(groups, info_.sequence_count_max),
        answers_(info_, info_.row_count_max, source_.pool) {
    for (uint32_t i = 0; i < info_.sequence_count_max; ++i) {
      sequences_.Add(std::make_unique<TorchSequence>(info_));
    }
  }

  const EngineInfo& info() const override { return info_; }
  const ModelSpec& spec() const override { return model_.spec(); }
  const Ledger& ledger() const override { return ledger_; }

  absl::StatusOr<SequenceId> Open() override;
  absl::StatusOr<SequenceId> Fork(SequenceId id, uint32_t length) override;
  void Close(SequenceId id) override;
  uint32_t Length(SequenceId id) const override { return At(id).length; }
  absl::Status Reserve(SequenceId id, uint32_t cell_count, uint32_t node_count) override;
  absl::Status Hear(SequenceId id, std::span<const float> states) override;
  absl::Status Run(EngineRun& run) override;
  void Commit(SequenceId id, uint32_t chain_count, std::span<const uint32_t> path) override;
  void DropNodes(SequenceId id) override { At(id).nodes.Clear(); }
  uint32_t Truncate(SequenceId id, uint32_t length) override;
  absl::Status AttachExits(const TrainedExits& exits, const std::string& path,
                           const ExitOptions& options, ExitSink& sink) override;
  void DetachExits() override { exits_.reset(); }
  void SwitchExit(uint32_t exit, bool on) override { exits_->Switch(exit, on); }

 private:
  TorchSequence& At(SequenceId id) const;
  absl::Status Promise(PageOwner owner, uint64_t cell_pages, uint64_t encoder_pages = 0);
  std::vector<TorchTransformer::Heard> HeardBy(std::span<const float> states) const;
  at::Tensor Compute(const RunRows& rows, const EngineRun& run);
  void Observe(uint32_t layer, const at::Tensor& hidden, const EngineRun& run);
  void Answer(const at::Tensor& hidden, EngineRun& run);

  const TorchTransformer model_;
  const LayerWindows windows_;
  const EngineInfo info_;
  const Source source_;
  Ledger ledger_;
  SequenceTable<TorchSequence> sequences_;
  Answers answers_;
  std::unique_ptr<ResidentWeights> host_weights_;  // whose head exits_ use
  std::unique_ptr<ExitHeads> exits_;               // null: none are attached
  uint64_t run_count_ = 0;
};

// --- sequences ---

TorchSequence& TorchEngine::At(SequenceId id) const {
  TorchSequence* const sequence = sequences_.Find(id);
  OUTRIDER_CHECK(sequence != nullptr, "a sequence is used between Open() and Close()");
  return *sequence;
}

absl::StatusOr<SequenceId> TorchEngine::Open() {
  OUTRIDER_ASSIGN_OR_RETURN(TorchSequence* const sequence, sequences_.Open());
  sequence->layers.resize(model_.spec().layer_count());
  sequence->pages = ledger_.Open();
  return SequenceId{sequence->id};
}

absl::StatusOr<SequenceId> TorchEngine::Fork(SequenceId id, uint32_t length) {
  const TorchSequence& sequence = At(id);
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId fork_id, Open());
  TorchSequence& fork = At(fork_id);
  fork.layers = sequence.layers;
  fork.heard = sequence.heard;
  fork.encoder_pages = sequence.encoder_pages;
  for (const uint32_t page : fork.encoder_pages) ledger_.Share(kEncoder, page);
  fork.length = length;
  return fork_id;
}

void TorchEngine::Close(SequenceId id) {
  TorchSequence& sequence = At(id);
  ledger_.Close(sequence.pages);
  for (const uint32_t page : sequence.encoder_pages) ledger_.Drop(kEncoder, page);
  sequence.id = 0;
  sequence.layers.clear();
  sequence.heard.clear();
  sequence.encoder_pages.clear();
  sequence.length = 0;
  sequence.Forget();
}

absl::Status TorchEngine::Reserve(SequenceId id, uint32_t cell_count, uint32_t node_count) {
  TorchSequence& sequence = At(id);
  OUTRIDER_RETURN_IF_ERROR(Promise(
      sequence.pages, PagesFor(sequence.length + uint64_t{cell_count}) + PagesFor(node_count)));
  const c10::InferenceMode inference;
  return CatchTorch("keys and values", [&]() -> absl::Status {
    const ModelSpec& spec = model_.spec();
    const CacheRoom room = {.node_count = info_.node_count_max,
                            .cell_count = int64_t{sequence.length} + cell_count,
                            .cell_count_max = info_.context_length};
    for (uint32_t layer = 0; layer < spec.layer_count(); ++layer) {
      sequence.layers[layer].Reserve(room, *spec.layers[layer].attention(), model_.device());
    }
    return absl::OkStatus();
  });
}

// Instead of what was promised before.
absl::Status TorchEngine::Promise(PageOwner owner, uint64_t cell_pages, uint64_t encoder_pages) {
  const std::array counts = {static_cast<uint32_t>(cell_pages),
                             static_cast<uint32_t>(encoder_pages)};
  return ledger_.Reserve(owner, std::span(counts).first(ledger_.group_count()));
}

absl::Status TorchEngine::Hear(SequenceId id, std::span<const float> states) {
  TorchSequence& sequence = At(id);
  const uint64_t pages = PagesFor(CountEncoderRows(states, spec(), info_));
  OUTRIDER_CHECK(sequence.heard.empty(), "a sequence hears one encoder, once");
  const uint32_t cell_pages = ledger_.promised_to(sequence.pages, kCells);
  OUTRIDER_RETURN_IF_ERROR(Promise(sequence.pages, cell_pages, pages));
  const absl::Status status = CatchTorch("an encoder's keys and values", [&]() -> absl::Status {
    sequence.heard = HeardBy(states);
    return absl::OkStatus();
  });
  if (!status.ok()) {
    OUTRIDER_CHECK_OK(Promise(sequence.pages, cell_pages));
    return status;
  }
  for (uint64_t i = 0; i < pages; ++i) {
    sequence.encoder_pages.push_back(ledger_.Take(sequence.pages, kEncoder));
  }
  return absl::OkStatus();
}

std::vector<TorchTransformer::Heard> TorchEngine::HeardBy(std::span<const float> states) const {
  const c10::InferenceMode inference;
  const int64_t width = spec().embedding_length;
  at::Tensor rows = at::empty({static_cast<int64_t>(states.size()) / width, width}, at::kFloat);
  std::ranges::copy(states, rows.data_ptr<float>());
  rows = rows.to(model_.device());
  std::vector<TorchTransformer::Heard> heard(spec().layer_count());
  for (uint32_t layer = 0; layer < heard.size(); ++layer) {
    if (spec().layers[layer].cross_attention) heard[layer] = model_.HeardBy(layer, rows);
  }
  return heard;
}

void TorchEngine::Commit(SequenceId id, uint32_t chain_count, std::span<const uint32_t> path) {
  TorchSequence& sequence = At(id);
  OUTRIDER_CHECK(chain_count <= sequence.chain_count, "what is committed has been computed");
  sequence.length += chain_count;
  sequence.chain_count = 0;
  if (!path.empty()) {
    const c10::InferenceMode inference;
    const std::vector<int64_t> slots(path.begin(), path.end());
    const at::Tensor from = TensorOf(slots, model_.device());
    for (LayerCache& layer : sequence.layers) {
      layer.Copy(int64_t{info_.node_count_max} + sequence.length, from);
    }
    sequence.length += static_cast<uint32_t>(path.size());
  }
  sequence.nodes.MoveEnd(path.empty() ? NodeTree::kChain : path.back(), sequence.length);
}

uint32_t TorchEngine::Truncate(SequenceId id, uint32_t length) {
  TorchSequence& sequence = At(id);
  OUTRIDER_CHECK(length <= sequence.length, "truncating makes shorter");
  sequence.length = length;
  sequence.Forget();
  OUTRIDER_CHECK_OK(Promise(sequence.pages, PagesFor(length)));  // fewer than before
  return length;
}

// --- runs ---

absl::Status TorchEngine::Run(EngineRun& run) {
  const c10::InferenceMode inference;
  ++run_count_;
  const absl::Status status = CatchTorch(info_.model_name, [&]() -> absl::Status {
    RunRows rows(windows_, info_, model_.device());
    for (const RunPart& part : run.parts) {
      TorchSequence& sequence = At(part.sequence);
      OUTRIDER_CHECK(sequence.last_run != run_count_, "a run has one part of a sequence");
      CheckRows(part, model_.spec());
      OUTRIDER_CHECK(info_.encoder_length_max == 0 || !sequence.heard.empty(),
                     "a sequence hears its encoder before its rows do");
      sequence.last_run = run_count_;
      rows.Add(sequence, part);
    }
    if (exits_ != nullptr) exits_->BeginRun(run.walks);
    Answer(Compute(rows, run), run);
    return absl::OkStatus();
  });
  if (!status.ok()) {
    for (const RunPart& part : run.parts) At(part.sequence).Forget();
  }
  return status;
}

// Hidden states of all rows; their keys and values are in the caches then.
at::Tensor TorchEngine::Compute(const RunRows& rows, const EngineRun& run) {
  const auto attend = [&](uint32_t layer, const at::Tensor& query, const at::Tensor& key,
                          const at::Tensor& value) {
    std::vector<at::Tensor> attended;
    for (const RowSegment& segment : rows.segments()) {
      LayerCache& cache = segment.sequence->layers[layer];
      const auto of_segment = [&](const at::Tensor& x) {
        return x.narrow(0, segment.first_row, segment.row_count);
      };
      cache.Write(segment.places, of_segment(key), of_segment(value));
      attended.push_back(outrider::Attend(of_segment(query).unsqueeze(0),
                                          cache.Keys(segment.first_place, segment.end_place),
                                          cache.Values(segment.first_place, segment.end_place),
                                          model_.spec().layers[layer].attention()->scale,
                                          segment.hidden[windows_.of(layer)])
                             .squeeze(0));
    }
    return at::cat(attended);
  };
  const auto hear = [&](uint32_t layer, const at::Tensor& query) {
    std::vector<at::Tensor> attended;
    for (const RowSegment& segment : rows.segments()) {
      const TorchTransformer::Heard& heard = segment.sequence->heard[layer];
      const at::Tensor queries = query.narrow(0, segment.first_row, segment.row_count);
      attended.push_back(outrider::Attend(queries.unsqueeze(0), heard.keys.unsqueeze(0),
                                          heard.values.unsqueeze(0),
                                          spec().layers[layer].cross_attention->scale, {})
                             .squeeze(0));
    }
    return at::cat(attended);
  };
  const auto observe = [&](uint32_t layer, const at::Tensor& hidden) {
    Observe(layer, hidden, run);
  };
  return model_.Layers(rows.Embedded(model_), rows.positions(), attend, hear, observe);
}

// States come to the host only where somebody looks at them.
void TorchEngine::Observe(uint32_t layer, const at::Tensor& hidden, const EngineRun& run) {
  const bool is_last = layer + 1 == model_.spec().layer_count();
  const bool exits_look = exits_ != nullptr && !is_last && exits_->ExitAfter(layer);
  const auto is_asked = [&](const HiddenAfterLayer& asked) { return asked.layer == layer; };
  if (!exits_look && std::ranges::none_of(run.hidden, is_asked)) return;
  const at::Tensor here = hidden.to(at::kCPU, at::kFloat).contiguous();
  const std::span<const float> states(here.data_ptr<float>(), static_cast<size_t>(here.numel()));
  for (const HiddenAfterLayer& asked : run.hidden) {
    if (is_asked(asked)) std::ranges::copy(states, asked.out.begin());
  }
  if (!exits_look) return;
  const auto row_count = static_cast<size_t>(here.size(0));
  std::vector<uint32_t> rows(row_count);
  for (uint32_t row = 0; row < row_count; ++row) rows[row] = row;
  const auto length = static_cast<uint32_t>(here.size(1));
  const std::unique_ptr<bool[]> dropped = std::make_unique<bool[]>(row_count);
  LayerView view(rows, states.data(), length, length, {dropped.get(), row_count});
  exits_->AfterLayer(layer, view);
}

void TorchEngine::Answer(const at::Tensor& hidden, EngineRun& run) {
  answers_.Begin(run);
  for (;;) {
    const std::span<const uint32_t> band = answers_.NextBand();
    if (band.empty()) return;
    const at::Tensor rows =
        TensorOf(std::vector<int64_t>(band.begin(), band.end()), model_.device());
    const at::Tensor logits =
        model_.Head(hidden.index_select(0, rows)).to(at::kCPU, at::kFloat).contiguous();
    answers_.Answer({.data = logits.data_ptr<float>(),
                     .stride = info_.vocabulary_size,
                     .row_count = static_cast<uint32_t>(band.size()),
                     .length = info_.vocabulary_size});
  }
}

// --- exits ---

absl::Status TorchEngine::AttachExits(const TrainedExits& exits, const std::string& path,
                                      const ExitOptions& options, ExitSink& sink) {
  if (host_weights_ == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model,
                              ModelFile::Open(source_.path));
    OUTRIDER_ASSIGN_OR_RETURN(
        host_weights_,
        ResidentWeights::Load(*model, model_.spec(), source_.path, source_.pool, nullptr));
  }
  OUTRIDER_ASSIGN_OR_RETURN(exits_, ExitHeads::Create(exits, path,
                                                      {.spec = model_.spec(),
                                                       .info = info_,
                                                       .head = &host_weights_->head(),
                                                       .kernels = source_.kernels,
                                                       .pool = source_.pool},
                                                      options, sink));
  return absl::OkStatus();
}

// --- making one ---

absl::StatusOr<at::Device> FindDevice(const std::string& name) {
  return CatchTorch(name, [&]() -> absl::StatusOr<at::Device> {
    const at::Device device(name);
    if (!device.is_cuda() && !device.is_cpu()) {
      return InvalidArgument("libtorch computes on cpu or cuda here, not on ", name);
    }
    if (!device.is_cuda()) return device;
    if (!at::globalContext().hasCUDA()) {
      return FailedPrecondition(name, ": no GPU that this libtorch (", TORCH_VERSION,
                                ") could use, or it was built without CUDA, as Debian's is");
    }
    const int64_t count = at::detail::getCUDAHooks().getNumGPUs();
    if (device.has_index() && device.index() >= count) {
      return FailedPrecondition(name, ": this machine has ", count, " GPUs, counted from 0");
    }
    return device;
  });
}

// Of cells, and of what is heard.
std::vector<SizedGroup> SizedGroupsOf(const ModelSpec& spec, uint32_t encoder_length_max) {
  const auto page_bytes = [](const auto& shape) {
    return uint64_t{shape.kv_head_count} * (shape.key_length + shape.value_length) * kPageTokens *
           sizeof(float);
  };
  SizedGroup cells = {.shape = {}, .page_bytes = 0}, encoder = cells;
  encoder.shape.pages_each = static_cast<uint32_t>(PagesFor(encoder_length_max));
  for (const LayerSpec& layer : spec.layers) {
    cells.page_bytes += page_bytes(*layer.attention());
    if (layer.cross_attention) encoder.page_bytes += page_bytes(*layer.cross_attention);
  }
  if (!spec.hears_encoder()) return {cells};
  return {cells, encoder};
}

// InvalidArgument when there is no room for a pass.
absl::StatusOr<std::vector<PageGroup>> MakeGroups(const ModelSpec& spec,
                                                  const EngineOptions& options) {
  const SequenceLimits limits = {.length_max = options.context_length,
                                 .node_count_max = options.node_count_max,
                                 .row_count_max = options.row_count_max};
  const std::vector<SizedGroup> sized = SizedGroupsOf(spec, options.encoder_length_max);
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<uint32_t> page_counts,
      DividePages(sized, limits, options.sequence_count_max, options.kv_bytes));
  std::vector<PageGroup> groups;
  for (size_t i = 0; i < sized.size(); ++i) {
    groups.push_back(sized[i].shape);
    groups.back().page_count = page_counts[i];
  }
  return groups;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> LoadTorchEngine(const ModelFile& model,
                                                        const std::string& path,
                                                        const std::string& device_name,
                                                        const EngineOptions& options,
                                                        const Kernels& kernels, ThreadPool& pool,
                                                        const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(const at::Device device, FindDevice(device_name));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(model, path));
  OUTRIDER_RETURN_IF_ERROR(CheckOptions(spec, options).status());  // before a model is loaded
  SetTorchThreads(pool.thread_count());
  OUTRIDER_ASSIGN_OR_RETURN(TorchTransformer transformer,
                            TorchTransformer::Load(model, path, device, progress));
  return CreateTorchEngine(std::move(transformer), path, options, kernels, pool);
}

absl::StatusOr<std::unique_ptr<Engine>> CreateTorchEngine(TorchTransformer model,
                                                          const std::string& path,
                                                          const EngineOptions& options,
                                                          const Kernels& kernels,
                                                          ThreadPool& pool) {
  const ModelSpec& spec = model.spec();
  OUTRIDER_ASSIGN_OR_RETURN(const EngineOptions complete, CheckOptions(spec, options));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PageGroup> groups, MakeGroups(spec, complete));
  SetTorchThreads(pool.thread_count());
  const std::string backend =
      Concat(model.device().is_cuda() ? "torch-cuda " : "torch-cpu ", TORCH_VERSION);
  EngineInfo info = {.model_name = Harmless(spec.name),
                     .model_file = Harmless(spec.file),
                     .numerics_id = NumericsId::Of(spec, model.content_hash(), backend, "f32"),
                     .content_hash = model.content_hash(),
                     .vocabulary_size = spec.vocabulary_size,
                     .context_length = complete.context_length,
                     .sequence_count_max = complete.sequence_count_max,
                     .node_count_max = complete.node_count_max,
                     .row_count_max = complete.row_count_max,
                     .encoder_length_max = complete.encoder_length_max,
                     .batch_invariant = false,
                     .on_host_processor = model.device().is_cpu(),
                     .forks_share_pages = false};
  return std::make_unique<TorchEngine>(std::move(model), std::move(info), groups,
                                       TorchEngine::Source{path, kernels, pool});
}

}  // namespace outrider
