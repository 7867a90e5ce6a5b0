#include "common/formats/models/convert.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/interrupt.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/formats/containers/gguf_writer.h"
#include "common/formats/models/content_record.h"
#include "common/formats/models/execution_order.h"
#include "common/formats/models/quantization_mix.h"
#include "common/formats/tensors/dequantize.h"
#include "common/formats/tensors/quantize.h"

namespace outrider {
namespace {

// One worker's share of a band. Large enough that the dispatch does not show, small enough to stay
// in the cache.
constexpr uint64_t kElementsPerWorker = 256 * 1024;

struct Job {
  const ModelTensor* tensor;
  TensorType type;  // in the output
};

// Norms and biases are F32 in every GGUF file, whatever a Hugging Face directory keeps them in.
TensorType KeptType(const ModelTensor& tensor) {
  const bool vector = tensor.dims.size() == 1;
  return vector && CanDequantize(tensor.type) ? TensorType::kF32 : tensor.type;
}

std::vector<Job> PlanJobs(const ModelFile& model, const ConvertOptions& options) {
  std::vector<const ModelTensor*> order;
  if (options.flash) {
    order = ExecutionOrder(model.tensors());
  } else {
    for (const ModelTensor& tensor : model.tensors()) order.push_back(&tensor);
  }
  std::vector<Job> jobs;
  jobs.reserve(order.size());
  for (const ModelTensor* tensor : order) {
    jobs.push_back({tensor, options.type
                                ? MixedType(*tensor, model.hyperparameters(), *options.type)
                                : KeptType(*tensor)});
  }
  return jobs;
}

uint64_t OutputBytes(const Job& job) {
  return RowBytes(job.type, job.tensor->dims[0]) * job.tensor->row_count();
}

// As the file is to have them.
std::vector<ModelTensor> OutputTensors(const std::vector<Job>& jobs) {
  std::vector<ModelTensor> tensors;
  for (const Job& job : jobs) {
    tensors.push_back({.name = job.tensor->name,
                       .type = job.type,
                       .dims = job.tensor->dims,
                       .bytes = OutputBytes(job),
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

// Works a tensor off in bands: every worker converts its share of rows, then the band is written.
class TensorConverter {
 public:
  TensorConverter(const ModelFile& model, const Job& job, ThreadPool& pool)
      : job_(job),
        row_bytes_(RowBytes(job.type, job.tensor->dims[0])),
        pool_(pool),
        workers_(pool.thread_count(), RowConverter(model, job)),
        results_(pool.thread_count()) {}

  // `out` is the tensor as the file is to have it.
  absl::Status Run(const ModelTensor& out, GgufWriter& writer, ContentRecorder& recorder,
                   const ConvertProgress& progress) {
    const uint64_t row_count = job_.tensor->row_count();
    const uint64_t rows_per_worker =
        std::max<uint64_t>(1, kElementsPerWorker / job_.tensor->dims[0]);
    const uint64_t band_rows = rows_per_worker * workers_.size();
    for (uint64_t first = 0; first < row_count; first += band_rows) {
      const uint64_t count = std::min(band_rows, row_count - first);
      OUTRIDER_RETURN_IF_ERROR(Annotate(ConvertBand(first, count), job_.tensor->name));
      OUTRIDER_RETURN_IF_ERROR(writer.Write(band_));
      OUTRIDER_RETURN_IF_ERROR(recorder.Add(out, band_));
      progress(band_.size(), job_.tensor->name);
      if (Interrupted()) return absl::CancelledError("interrupted; nothing is written");
    }
    return absl::OkStatus();
  }

 private:
  // Rows [first, first + count) into band_.
  absl::Status ConvertBand(uint64_t first, uint64_t count) {
    band_.resize(count * row_bytes_);
    pool_.ParallelRanges(count, [&](size_t begin, size_t end, uint32_t worker) {
      const auto out = std::span(band_).subspan(begin * row_bytes_, (end - begin) * row_bytes_);
      results_[worker] = workers_[worker].Run(first + begin, end - begin, out);
    });
    for (const absl::Status& result : results_) OUTRIDER_RETURN_IF_ERROR(result);
    return absl::OkStatus();
  }

  const Job job_;
  const uint64_t row_bytes_;
  ThreadPool& pool_;
  std::vector<RowConverter> workers_;
  std::vector<absl::Status> results_;
  std::vector<std::byte> band_;
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
  for (const Job& job : PlanJobs(model, options)) bytes += OutputBytes(job);
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
  for (const ModelTensor& tensor : tensors) {
    OUTRIDER_RETURN_IF_ERROR(writer.AddTensor(tensor.name, tensor.type, tensor.dims));
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
