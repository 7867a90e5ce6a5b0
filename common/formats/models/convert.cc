#include "common/formats/models/convert.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/base/interrupt.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/content_parts.h"
#include "common/formats/models/content_record.h"
#include "common/formats/models/execution_order.h"
#include "common/formats/models/quantization_mix.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/panels.h"
#include "common/formats/tensors/quantize.h"

namespace outrider {
namespace {

// One worker's share of a band. Large enough that the dispatch does not show, small enough to stay
// in the cache.
constexpr uint64_t kElementsPerWorker = 256 * 1024;

// How a tensor is to be in the output.
struct Job {
  const ModelTensor* tensor;
  TensorType type;
  WeightLayout layout;
};

// Norms and biases are F32 in every GGUF file, whatever a Hugging Face directory keeps them in.
TensorType KeptType(const ModelTensor& tensor) {
  const bool vector = tensor.dims.size() == 1;
  return vector && CanDequantize(tensor.type) ? TensorType::kF32 : tensor.type;
}

// Of which rows are looked up one by one, while products read whole matrices.
bool IsTable(const ModelTensor& tensor, const Hyperparameters& numbers) {
  const std::string_view name = tensor.name;
  return name.find("position_embd") != name.npos || name.find("attn_rel_b") != name.npos ||
         (name.ends_with("token_embd.weight") && !numbers.tied_embeddings);
}

// Engines take some matrices apart, each to be had as whole panels.
absl::flat_hash_set<std::string_view> NamesOfPanels(const ModelFile& model) {
  absl::flat_hash_set<std::string_view> names;
  absl::flat_hash_set<std::string_view> others;
  for (const ContentPart& part : ContentParts(model.hyperparameters(), model.tensors())) {
    const ModelTensor& tensor = *part.tensor;
    if (part.is_vector()) continue;
    const bool has_own = part.first % tensor.dims[1] % kPanelOutputs == 0;
    (has_own && !IsTable(tensor, model.hyperparameters()) ? names : others).insert(tensor.name);
  }
  for (const std::string_view name : others) names.erase(name);
  return names;
}

std::vector<Job> PlanJobs(const ModelFile& model, const ConvertOptions& options) {
  std::vector<const ModelTensor*> order;
  if (options.flash) {
    order = ExecutionOrder(model.tensors());
  } else {
    for (const ModelTensor& tensor : model.tensors()) order.push_back(&tensor);
  }
  absl::flat_hash_set<std::string_view> names_of_panels;
  if (options.flash) names_of_panels = NamesOfPanels(model);
  std::vector<Job> jobs;
  jobs.reserve(order.size());
  for (const ModelTensor* tensor : order) {
    const TensorType type = options.type
                                ? MixedType(*tensor, model.hyperparameters(), *options.type)
                                : KeptType(*tensor);
    const bool in_panels = names_of_panels.contains(tensor->name) && HasPanels(type);
    jobs.push_back({tensor, type, in_panels ? WeightLayout::kPanels : WeightLayout::kRows});
  }
  return jobs;
}

// As the file is to have them.
std::vector<ModelTensor> OutputTensors(const std::vector<Job>& jobs) {
  std::vector<ModelTensor> tensors;
  for (const Job& job : jobs) {
    tensors.push_back({.name = job.tensor->name,
                       .type = job.type,
                       .dims = job.tensor->dims,
                       .bytes = RowBytes(job.type, job.tensor->dims[0]) * job.tensor->row_count(),
                       .place = std::nullopt});
  }
  return tensors;
}

// Rows of one tensor, from the type they are stored in to the one that is wanted.
class RowConverter {
 public:
  RowConverter(const ModelFile& model, const Job& job) : model_(model), job_(job) {}

  // Rows [first, first + count) into `out`, which holds exactly their bytes.
  absl::Status Run(uint64_t first, uint64_t count, std::span<std::byte> out) {
    const ModelTensor& tensor = *job_.tensor;
    if (tensor.type == job_.type) return model_.ReadRows(tensor, first, count, out);
    stored_.resize(count * RowBytes(tensor.type, tensor.dims[0]));
    values_.resize(count * tensor.dims[0]);
    OUTRIDER_RETURN_IF_ERROR(model_.ReadRows(tensor, first, count, stored_));
    OUTRIDER_RETURN_IF_ERROR(Dequantize(tensor.type, stored_, values_));
    return Quantize(job_.type, values_, out);
  }

 private:
  const ModelFile& model_;
  const Job job_;
  std::vector<std::byte> stored_;
  std::vector<float> values_;
};

// Works a tensor off in bands of groups: every worker converts its share, then the band is written. A
// group is a row, or those of a panel.
class TensorConverter {
 public:
  TensorConverter(const ModelFile& model, const Job& job, ThreadPool& pool)
      : job_(job),
        row_bytes_(RowBytes(job.type, job.tensor->dims[0])),
        group_rows_(job.layout == WeightLayout::kPanels ? kPanelOutputs : 1),
        pool_(pool),
        workers_(pool.thread_count(), RowConverter(model, job)),
        results_(pool.thread_count()) {}

  // `out` is the tensor as the file is to have it.
  absl::Status Run(const ModelTensor& out, GgufWriter& writer, ContentRecorder& recorder,
                   const ConvertProgress& progress) {
    // Of stacked matrices each has panels of its own.
    const uint64_t row_count = job_.tensor->row_count();
    const uint64_t matrix_rows = group_rows_ == 1 ? row_count : job_.tensor->dims[1];
    const uint64_t groups_per_worker =
        std::max<uint64_t>(1, kElementsPerWorker / (job_.tensor->dims[0] * group_rows_));
    const uint64_t band_rows = groups_per_worker * group_rows_ * workers_.size();
    for (uint64_t first = 0; first < row_count;) {
      const uint64_t count = std::min(band_rows, matrix_rows - first % matrix_rows);
      OUTRIDER_RETURN_IF_ERROR(Annotate(ConvertBand(first, count), job_.tensor->name));
      const std::span<const std::byte> written = group_rows_ == 1 ? band_ : panels_;
      OUTRIDER_RETURN_IF_ERROR(writer.Write(written));
      OUTRIDER_RETURN_IF_ERROR(recorder.Add(out, band_));
      progress(written.size(), job_.tensor->name);
      if (Interrupted()) return absl::CancelledError("interrupted; nothing is written");
      first += count;
    }
    return absl::OkStatus();
  }

 private:
  // Rows [first, first + count) into band_, and what is made of them into panels_.
  absl::Status ConvertBand(uint64_t first, uint64_t count) {
    const uint64_t group_count = (count + group_rows_ - 1) / group_rows_;
    const auto inputs = static_cast<uint32_t>(job_.tensor->dims[0]);
    const uint64_t panel_bytes = group_rows_ == 1 ? 0 : PanelBytes(job_.type, inputs);
    band_.resize(count * row_bytes_);
    panels_.resize(group_count * panel_bytes);
    pool_.ParallelRanges(group_count, [&](size_t begin, size_t end, uint32_t worker) {
      const uint64_t row = begin * group_rows_;
      const uint64_t row_end = std::min(end * group_rows_, count);
      const auto rows = std::span(band_).subspan(row * row_bytes_, (row_end - row) * row_bytes_);
      results_[worker] = workers_[worker].Run(first + row, row_end - row, rows);
      if (!results_[worker].ok() || group_rows_ == 1) return;
      for (size_t group = begin; group < end; ++group) {
        const uint64_t at = (group - begin) * group_rows_ * row_bytes_;
        PackPanel(job_.type, inputs,
                  rows.subspan(at, std::min(group_rows_ * row_bytes_, rows.size() - at)),
                  std::span(panels_).subspan(group * panel_bytes, panel_bytes));
      }
    });
    for (const absl::Status& result : results_) OUTRIDER_RETURN_IF_ERROR(result);
    return absl::OkStatus();
  }

  const Job job_;
  const uint64_t row_bytes_;
  const uint64_t group_rows_;
  ThreadPool& pool_;
  std::vector<RowConverter> workers_;
  std::vector<absl::Status> results_;
  std::vector<std::byte> band_;
  std::vector<std::byte> panels_;  // of the band's rows, where the tensor is to lie in such
};

absl::Status CheckReadable(const std::vector<Job>& jobs) {
  for (const Job& job : jobs) {
    if (job.tensor->type == job.type || CanDequantize(job.tensor->type)) continue;
    return Unimplemented(job.tensor->name, ": is stored as ", Name(job.tensor->type),
                         ", which cannot be converted; leave --type out to keep it as it is");
  }
  return absl::OkStatus();
}

}  // namespace

uint64_t ConvertedBytes(const ModelFile& model, const ConvertOptions& options) {
  uint64_t bytes = 0;
  for (const Job& job : PlanJobs(model, options)) {
    const absl::StatusOr<uint64_t> written = StoredBytes(job.layout, job.type, job.tensor->dims);
    if (written.ok()) bytes += *written;  // what is too large is said by Convert()
  }
  return bytes;
}

absl::Status Convert(const ModelFile& model, const std::string& out_path,
                     const ConvertOptions& options, const ConvertProgress& progress) {
  const std::vector<Job> jobs = PlanJobs(model, options);
  OUTRIDER_RETURN_IF_ERROR(CheckReadable(jobs));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadPool> pool,
                            ThreadPool::Create(options.thread_count));

  GgufWriter writer(options.flash ? kFlashAlignment : kGgufDefaultAlignment);
  OUTRIDER_RETURN_IF_ERROR(model.AddMetadata(writer));
  if (options.type) {
    writer.AddUint32("general.file_type", FileTypeNumber(*options.type));
    writer.AddUint32("general.quantization_version", 2);
  }
  const std::vector<ModelTensor> tensors = OutputTensors(jobs);
  for (const Job& job : jobs) {
    OUTRIDER_RETURN_IF_ERROR(
        writer.AddTensor(job.tensor->name, job.type, job.tensor->dims, job.layout));
  }
  ContentRecorder recorder(model.hyperparameters(), tensors, writer);
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(out_path));
  for (size_t i = 0; i < jobs.size(); ++i) {
    OUTRIDER_RETURN_IF_ERROR(
        TensorConverter(model, jobs[i], *pool).Run(tensors[i], writer, recorder, progress));
  }
  OUTRIDER_RETURN_IF_ERROR(recorder.Finish());
  return writer.Commit();
}

}  // namespace outrider
