#include "common/model/weights/resident_weights.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/content_record.h"
#include "common/formats/tensors/dequantize.h"
#include "common/kernels/weight_matrix.h"
#include "common/model/weights/load_plan.h"

namespace outrider {
namespace {

// Read and packed together: small beside any model, long beside a dispatch.
constexpr uint64_t kBandBytes = 4 << 20;

uint64_t DivideUp(uint64_t a, uint64_t b) {
  return (a + b - 1) / b;
}

static_assert(kContentRows == kPanelOutputs, "the rows of a panel are hashed as they are packed");

// The plans of all keys, one slot after another.
class Placement {
 public:
  Placement(const ModelFile& model, const ModelSpec& spec)
      : entry(LoadPlanner(model, spec).Entry()), head(LoadPlanner(model, spec).Head()) {
    const LoadPlanner planner(model, spec);
    for (uint32_t n = 0; n < spec.layer_count(); ++n) {
      layers.push_back(planner.Layer(n));
      const std::optional<RouterSpec>& router = spec.layers[n].feed_forward.router;
      const uint32_t expert_count = router ? router->expert_count : 0;
      std::vector<LoadPlan<FeedForwardWeights>>& plans = experts.emplace_back();
      for (uint32_t e = 0; e < expert_count; ++e) plans.push_back(planner.Expert(n, e));
    }
  }

  // Calls visit(plan) for every key's.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    visit(entry);
    visit(head);
    for (size_t n = 0; n < layers.size(); ++n) {
      visit(layers[n]);
      for (const LoadPlan<FeedForwardWeights>& expert : experts[n]) visit(expert);
    }
  }

  LoadPlan<EntryWeights> entry;
  LoadPlan<HeadWeights> head;
  std::vector<LoadPlan<LayerWeights>> layers;
  std::vector<std::vector<LoadPlan<FeedForwardWeights>>> experts;  // by layer
};

// Fills memory, part after part.
class Loader {
 public:
  Loader(const ModelFile& model, ThreadPool& pool, AlignedBuffer row_buffers)
      : model_(model),
        pool_(pool),
        row_buffers_(std::move(row_buffers)),
        failures_(pool.thread_count()),
        hasher_(model.hyperparameters(), model.tensors()) {}

  // Calls advance(bytes read) after every band.
  template <typename Advance>
  absl::Status Load(const MatrixPart& part, std::byte* slot, const Advance& advance) {
    const ModelTensor& tensor = *part.tensor;
    const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
    const uint64_t rows = part.view.outputs;
    const uint64_t groups = DivideUp(rows, kPanelOutputs);
    const uint64_t band_groups = std::max<uint64_t>(1, kBandBytes / (row_bytes * kPanelOutputs));
    hashes_.resize(groups);
    for (uint64_t done = 0; done < groups; done += band_groups) {
      const uint64_t count = std::min(band_groups, groups - done);
      pool_.ParallelRanges(count, [&](size_t begin, size_t end, uint32_t worker) {
        for (size_t i = begin; i < end && failures_[worker].ok(); ++i) {
          failures_[worker] = LoadGroup(part, slot, done + i, worker);
        }
      });
      for (const absl::Status& failure : failures_) OUTRIDER_RETURN_IF_ERROR(failure);
      advance(std::min(count * kPanelOutputs, rows - done * kPanelOutputs) * row_bytes);
    }
    hasher_.AddHashedRows(tensor, part.first_row, hashes_);
    return absl::OkStatus();
  }

  absl::Status Load(const VectorPart& part, std::byte* slot) {
    const ModelTensor& tensor = *part.tensor;
    const uint64_t row = part.first / tensor.dims[0];
    std::vector<std::byte> stored(RowBytes(tensor.type, tensor.dims[0]));
    std::vector<float> values(tensor.dims[0]);
    OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(tensor, row, 1, stored));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, stored, values));
    std::copy_n(values.data() + part.first % tensor.dims[0], part.count,
                reinterpret_cast<float*>(slot + part.at));
    if (tensor.dims.size() == 1) {
      hasher_.AddVector(tensor, values);
    } else {
      hasher_.AddHashedRows(tensor, row, std::array{HashBytes(stored, 0)});
    }
    return absl::OkStatus();
  }

  uint64_t content_hash() const { return hasher_.value(); }

 private:
  // Sixteen rows, or what is left of them, and the hash of their bytes as the file has them.
  absl::Status LoadGroup(const MatrixPart& part, std::byte* slot, uint64_t group, uint32_t worker) {
    const ModelTensor& tensor = *part.tensor;
    const WeightMatrix& view = part.view;
    const uint64_t row_bytes = RowBytes(tensor.type, tensor.dims[0]);
    const uint64_t first = group * kPanelOutputs;
    const uint64_t count = std::min<uint64_t>(kPanelOutputs, view.outputs - first);
    const std::span<std::byte> target(slot + part.at, part.bytes);
    const bool packs = view.layout == WeightLayout::kPanels;
    const std::span<std::byte> rows = packs ? RowBuffer(worker).first(count * row_bytes)
                                            : target.subspan(first * row_bytes, count * row_bytes);
    OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(tensor, part.first_row + first, count, rows));
    if (packs) {
      const uint64_t panel_bytes = PanelBytes(tensor.type, view.inputs);
      PackPanel(tensor.type, view.inputs, rows, target.subspan(group * panel_bytes, panel_bytes));
    }
    hashes_[group] = HashBytes(rows, 0);
    return absl::OkStatus();
  }

  std::span<std::byte> RowBuffer(uint32_t worker) {
    const size_t bytes = row_buffers_.bytes().size() / pool_.thread_count();
    return row_buffers_.bytes().subspan(worker * bytes, bytes);
  }

  const ModelFile& model_;
  ThreadPool& pool_;
  AlignedBuffer row_buffers_;           // of each worker, the rows of one panel
  std::vector<uint64_t> hashes_;        // of the present part, by sixteen rows
  std::vector<absl::Status> failures_;  // by worker
  ContentHasher hasher_;
};

// What loading has before it.
struct Extent {
  size_t memory_bytes = 0;
  uint64_t matrix_bytes = 0;  // in the file
  uint64_t row_bytes_max = 0;
};

Extent ExtentOf(const Placement& placement) {
  Extent extent;
  placement.ForEach([&](const auto& plan) {
    extent.memory_bytes += plan.slot_bytes;
    for (const MatrixPart& part : plan.matrices) {
      const uint64_t row_bytes = RowBytes(part.tensor->type, part.tensor->dims[0]);
      extent.matrix_bytes += part.view.outputs * row_bytes;
      extent.row_bytes_max = std::max(extent.row_bytes_max, row_bytes);
    }
  });
  return extent;
}

absl::Status CheckRunnable(const Placement& placement, const std::string& path) {
  absl::Status status;
  placement.ForEach([&](const auto& plan) {
    for (const MatrixPart& part : plan.matrices) {
      status.Update(outrider::CheckRunnable(*part.tensor, path));
    }
    for (const VectorPart& part : plan.vectors) {
      status.Update(outrider::CheckRunnable(*part.tensor, path));
    }
  });
  return status;
}

// A record that says otherwise than the bytes do has been copied from another file, or the bytes
// were changed after it was made.
absl::Status CheckRecord(const ModelFile& model, uint64_t content_hash, const std::string& path) {
  const std::optional<uint64_t> recorded = model.RecordedContentHash();
  if (!recorded || *recorded == content_hash) return absl::OkStatus();
  return DataLoss(path, ": its weights hash to ", HashDigits(content_hash), ", and its key ",
                  kContentHashKey, " says ", HashDigits(*recorded),
                  ": they were changed after that was written; run `outrider convert` on it for a "
                  "file that says what it holds");
}

}  // namespace

absl::StatusOr<std::unique_ptr<ResidentWeights>> ResidentWeights::Load(
    const ModelFile& model, const ModelSpec& spec, const std::string& path, ThreadPool& pool,
    const LoadProgress& progress) {
  std::unique_ptr<ResidentWeights> weights(new ResidentWeights);
  const Placement placement(model, spec);
  OUTRIDER_RETURN_IF_ERROR(CheckRunnable(placement, path));
  const Extent extent = ExtentOf(placement);
  OUTRIDER_ASSIGN_OR_RETURN(weights->memory_, PageBuffer::CreateLarge(extent.memory_bytes));
  OUTRIDER_ASSIGN_OR_RETURN(
      AlignedBuffer row_buffers,
      AlignedBuffer::Create(kPanelOutputs * extent.row_bytes_max * pool.thread_count()));
  Loader loader(model, pool, std::move(row_buffers));

  std::byte* slot = weights->memory_.bytes().data();
  uint64_t done = 0;
  absl::Status status;
  const auto fill = [&](const auto& plan, std::byte* at) {
    for (const VectorPart& part : plan.vectors) status.Update(loader.Load(part, at));
    for (const MatrixPart& part : plan.matrices) {
      if (!status.ok()) return;
      status = loader.Load(part, at, [&](uint64_t bytes) {
        done += bytes;
        if (progress) progress(done, extent.matrix_bytes, part.tensor->name);
      });
    }
  };
  placement.ForEach([&](const auto& plan) {
    fill(plan, slot);
    weights->Keep(plan.In(slot));
    slot += plan.slot_bytes;
  });
  OUTRIDER_RETURN_IF_ERROR(status);
  if (spec.tied_embeddings) weights->entry_.embeddings = weights->head_.matrix;
  weights->content_hash_ = loader.content_hash();
  OUTRIDER_RETURN_IF_ERROR(CheckRecord(model, weights->content_hash_, path));
  return weights;
}

uint64_t ResidentWeights::MemoryBytes(const ModelFile& model, const ModelSpec& spec,
                                      uint32_t thread_count) {
  const Extent extent = ExtentOf(Placement(model, spec));
  return extent.memory_bytes + kPanelOutputs * extent.row_bytes_max * thread_count;
}

absl::Status ResidentWeights::LookUp(WeightTable table, std::span<const TableRow> rows) {
  const WeightMatrix& matrix =
      table == WeightTable::kEmbeddings ? entry_.embeddings : entry_.positions;
  for (const TableRow& row : rows) DecodeRow(matrix, row.row, {row.out, matrix.inputs});
  return absl::OkStatus();
}

}  // namespace outrider
