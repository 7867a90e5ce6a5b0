#include "common/model/resident_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/content_hash.h"
#include "common/model/load_plan.h"

namespace outrider {
namespace {

// Read, packed and forgotten together: small beside any model, long beside a dispatch.
constexpr uint64_t kBandBytes = 4 << 20;

uint64_t DivideUp(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

void AddDescription(const ModelTensor& tensor, TensorType type, uint64_t first, ContentHash& hash) {
  hash.Add(tensor.name);
  hash.Add(static_cast<uint32_t>(type));
  for (const uint64_t dim : tensor.dims) hash.Add(dim);
  hash.Add(first);
}

// Fills the planned memory, part after part.
class Loader {
 public:
  Loader(const ModelFile& model, std::span<std::byte> memory, ThreadPool& pool,
         AlignedBuffer row_buffers)
      : model_(model), memory_(memory), pool_(pool), row_buffers_(std::move(row_buffers)) {}

  // Calls advance(bytes read) after every band.
  template <typename Advance>
  void Load(const MatrixPart& part, const Advance& advance) {
    const ModelTensor& tensor = *part.tensor;
    const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
    const uint64_t rows = part.view->outputs;
    const uint64_t groups = DivideUp(rows, kPanelOutputs);
    const uint64_t band_groups = std::max<uint64_t>(1, kBandBytes / (row_bytes * kPanelOutputs));
    hashes_.resize(groups);
    for (uint64_t done = 0; done < groups; done += band_groups) {
      const uint64_t count = std::min(band_groups, groups - done);
      pool_.ParallelRanges(count, [&](size_t begin, size_t end, uint32_t worker) {
        for (size_t i = begin; i < end; ++i) hashes_[done + i] = LoadGroup(part, done + i, worker);
      });
      const uint64_t first = done * kPanelOutputs;
      const uint64_t band_rows = std::min(count * kPanelOutputs, rows - first);
      model_.Forget(tensor, part.first_row + first, band_rows);
      advance(band_rows * row_bytes);
    }
    part.view->data = memory_.data() + part.at;
    AddDescription(tensor, tensor.type, part.first_row, hash_);
    for (const uint64_t hash : hashes_) hash_.Add(hash);
  }

  absl::Status Load(const VectorPart& part) {
    const ModelTensor& tensor = *part.tensor;
    std::vector<std::byte> stored(tensor.bytes);
    std::vector<float> values(tensor.dims[0]);
    OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(tensor, 0, 1, stored));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, stored, values));
    auto* const out = reinterpret_cast<float*>(memory_.data() + part.at);
    std::copy_n(values.data() + part.first, part.count, out);
    *part.view = {out, part.count};
    // As they are used: a file may keep the same norm in fewer bits.
    AddDescription(tensor, TensorType::kF32, part.first, hash_);
    hash_.Add(HashBytes(std::as_bytes(std::span(values)), 0));
    return absl::OkStatus();
  }

  uint64_t content_hash() const { return hash_.value(); }

 private:
  // Sixteen rows, or what is left of them; returns the hash of their bytes as the file has them.
  uint64_t LoadGroup(const MatrixPart& part, uint64_t group, uint32_t worker) {
    const ModelTensor& tensor = *part.tensor;
    const WeightMatrix& view = *part.view;
    const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
    const uint64_t first = group * kPanelOutputs;
    const uint64_t count = std::min<uint64_t>(kPanelOutputs, view.outputs - first);
    const std::span<std::byte> target = memory_.subspan(part.at, part.bytes);
    const bool packs = view.layout == WeightLayout::kPanels;
    const std::span<std::byte> rows = packs ? RowBuffer(worker).first(count * row_bytes)
                                            : target.subspan(first * row_bytes, count * row_bytes);
    OUTRIDER_CHECK_OK(model_.ReadRows(tensor, part.first_row + first, count, rows));
    if (packs) {
      const uint64_t panel_bytes = PanelBytes(tensor.type, view.inputs);
      PackPanel(tensor.type, view.inputs, rows, target.subspan(group * panel_bytes, panel_bytes));
    }
    return HashBytes(rows, 0);
  }

  std::span<std::byte> RowBuffer(uint32_t worker) {
    const size_t bytes = row_buffers_.bytes().size() / pool_.thread_count();
    return row_buffers_.bytes().subspan(worker * bytes, bytes);
  }

  const ModelFile& model_;
  const std::span<std::byte> memory_;
  ThreadPool& pool_;
  AlignedBuffer row_buffers_;     // of each worker, the rows of one panel
  std::vector<uint64_t> hashes_;  // of the present part, by sixteen rows
  ContentHash hash_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ResidentWeights>> ResidentWeights::Load(
    const ModelFile& model, const ModelSpec& spec, const std::string& path, ThreadPool& pool,
    const LoadProgress& progress) {
  std::unique_ptr<ResidentWeights> weights(new ResidentWeights);
  weights->layers_.resize(spec.layer_count());
  const LoadPlan plan(model, spec, weights->outer_, weights->layers_);
  OUTRIDER_RETURN_IF_ERROR(plan.Check(path));
  OUTRIDER_ASSIGN_OR_RETURN(weights->memory_, PageBuffer::Create(plan.memory_bytes()));

  uint64_t total = 0, done = 0, row_bytes_max = 0;
  for (const MatrixPart& part : plan.matrices()) {
    const uint64_t row_bytes = RowBytes(part.tensor->type, part.tensor->dims[0]);
    total += part.view->outputs * row_bytes;
    row_bytes_max = std::max(row_bytes_max, row_bytes);
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      AlignedBuffer row_buffers,
      AlignedBuffer::Create(kPanelOutputs * row_bytes_max * pool.thread_count()));
  Loader loader(model, weights->memory_.bytes(), pool, std::move(row_buffers));
  for (const VectorPart& part : plan.vectors()) OUTRIDER_RETURN_IF_ERROR(loader.Load(part));
  for (const MatrixPart& part : plan.matrices()) {
    loader.Load(part, [&](uint64_t bytes) {
      done += bytes;
      if (progress) progress(done, total, part.tensor->name);
    });
  }
  if (spec.tied_embeddings) weights->outer_.head = weights->outer_.embeddings;
  weights->content_hash_ = loader.content_hash();
  return weights;
}

}  // namespace outrider
