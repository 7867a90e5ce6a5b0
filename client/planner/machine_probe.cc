#include "client/planner/machine_probe.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/clock.h"
#include "common/base/direct_file.h"
#include "common/base/ieee_mode.h"
#include "common/base/status.h"
#include "common/kernels/products/products.h"
#include "common/model/model_spec.h"
#include "common/model/weights/load_plan.h"
#include "common/model/weights/streaming/flash_reads.h"
#include "common/model/weights/streaming/stream_options.h"

namespace outrider {
namespace {

double SecondsSince(MonotonicTime begin) {
  return std::chrono::duration<double>(RealClock().Now() - begin).count();
}

// A layer's matrices, or the first of them, packed as a store packs them.
struct ProbedLayer {
  LoadPlan<LayerWeights> plan;
  PageBuffer slot;
  double pack_seconds = 0;  // a byte of the file

  // Without those that no product takes all of.
  std::vector<WeightMatrix> Matrices() const {
    std::vector<WeightMatrix> matrices;
    for (const MatrixPart& part : plan.matrices) {
      matrices.push_back(part.view);
      matrices.back().data = slot.bytes().data() + part.at;
    }
    return matrices;
  }
  double packed_bytes() const {
    double bytes = 0;
    for (const MatrixPart& part : plan.matrices) bytes += static_cast<double>(part.bytes);
    return bytes;
  }
};

// One at least.
void KeepFirst(std::vector<MatrixPart>& matrices, uint64_t bytes_max) {
  size_t count = 1;
  uint64_t bytes = matrices.front().bytes;
  while (count < matrices.size() && (bytes += matrices[count].bytes) <= bytes_max) ++count;
  matrices.resize(count);
}

absl::StatusOr<ProbedLayer> ReadLayer(const ModelFile& model, const ModelSpec& spec,
                                      const std::string& path, uint64_t bytes_max) {
  ProbedLayer layer{.plan = LoadPlanner(model, spec).Layer(0), .slot = {}};
  KeepFirst(layer.plan.matrices, bytes_max);
  OUTRIDER_ASSIGN_OR_RETURN(layer.slot, PageBuffer::Create(layer.plan.slot_bytes));
  std::vector<std::unique_ptr<DirectFile>> files;
  std::vector<const DirectFile*> views;
  for (uint32_t i = 0; i < model.file_count(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DirectFile> file,
                              DirectFile::Open(model.file_path(i), {.queue_depth = 1}));
    views.push_back(files.emplace_back(std::move(file)).get());
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<FlashRead> reads,
                            PlanReads(layer.plan.matrices, views, path));
  OUTRIDER_ASSIGN_OR_RETURN(AlignedBuffer staging,
                            AlignedBuffer::Create(LongestStaged(reads), files[0]->alignment()));
  double seconds = 0;
  for (const FlashRead& read : reads) {
    std::byte* const slot = layer.slot.bytes().data();
    OUTRIDER_RETURN_IF_ERROR(files[read.file]->SubmitRead(
        read.extent.offset, LandingPlace(read, slot, staging.bytes()), 0));
    OUTRIDER_RETURN_IF_ERROR(files[read.file]->WaitCompletion().status);
    const MonotonicTime begin = RealClock().Now();
    Unload(read, staging.bytes(), slot);
    seconds += SecondsSince(begin);
  }
  layer.pack_seconds = seconds / static_cast<double>(ReadBytes(reads));
  return layer;
}

}  // namespace

absl::StatusOr<FlashSpeed> ProbeFlash(const ModelFile& model, Duration time_max,
                                      const std::function<void(uint64_t bytes)>& progress) {
  const StreamOptions as_a_store;
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<DirectFile> file,
      DirectFile::Open(model.file_path(0), {.queue_depth = as_a_store.reads_in_flight}));
  OUTRIDER_ASSIGN_OR_RETURN(PageBuffer memory,
                            PageBuffer::CreateLarge(kReadBytesMax * as_a_store.reads_in_flight));
  const MonotonicTime begin = RealClock().Now();
  uint64_t asked = 0, done = 0;
  const auto ask = [&](uint64_t place) -> absl::Status {
    const uint64_t length = std::min(kReadBytesMax, file->size() - asked);
    const DirectFile::Extent extent = file->ExtentOf(asked, length);
    asked += length;
    return file->SubmitRead(extent.offset,
                            memory.bytes().subspan(place * kReadBytesMax, extent.length), place);
  };
  for (uint64_t place = 0; place < as_a_store.reads_in_flight && asked < file->size(); ++place) {
    OUTRIDER_RETURN_IF_ERROR(ask(place));
  }
  while (file->in_flight() > 0) {
    const DirectFile::Completion landed = file->WaitCompletion();
    OUTRIDER_RETURN_IF_ERROR(landed.status);
    done += std::min(kReadBytesMax, file->size() - done);
    if (progress) progress(done);
    if (asked < file->size() && RealClock().Now() - begin < time_max) {
      OUTRIDER_RETURN_IF_ERROR(ask(landed.tag));
    }
  }
  return FlashSpeed{static_cast<double>(done) / SecondsSince(begin), file->backend()};
}

absl::StatusOr<KernelSpeed> ProbeKernels(const ModelFile& model, const std::string& path,
                                         const Kernels& kernels, ThreadPool& pool,
                                         const KernelProbe& probe) {
  const ScopedIeeeMode ieee;
  OUTRIDER_ASSIGN_OR_RETURN(const ModelSpec spec, ModelSpec::From(model, path));
  OUTRIDER_ASSIGN_OR_RETURN(const ProbedLayer layer, ReadLayer(model, spec, path, probe.bytes_max));
  const std::vector<WeightMatrix> matrices = layer.Matrices();
  uint32_t inputs_max = 0, outputs_max = 0;
  for (const WeightMatrix& matrix : matrices) {
    inputs_max = std::max(inputs_max, matrix.inputs);
    outputs_max = std::max(outputs_max, matrix.outputs);
  }
  const uint32_t rows_max = KernelSpeed::kRows.back();
  OUTRIDER_ASSIGN_OR_RETURN(Multiplier multiplier,
                            Multiplier::Create(kernels, pool, rows_max, inputs_max));
  const std::vector<float> x(size_t{rows_max} * inputs_max, 0.5f);
  std::vector<float> out(size_t{rows_max} * outputs_max);
  KernelSpeed speed{.pack_seconds = layer.pack_seconds};
  for (size_t i = 0; i < KernelSpeed::kRows.size(); ++i) {
    const uint32_t row_count = KernelSpeed::kRows[i];
    uint32_t rounds = 0;
    const MonotonicTime begin = RealClock().Now();
    do {
      for (const WeightMatrix& matrix : matrices) {
        const Product product = {&matrix, out.data(), outputs_max};
        multiplier.Multiply({.values = x.data(),
                             .stride = inputs_max,
                             .row_count = row_count,
                             .inputs = matrix.inputs},
                            {&product, 1});
      }
      ++rounds;
    } while (RealClock().Now() - begin < probe.time / KernelSpeed::kRows.size());
    speed.product_seconds[i] = SecondsSince(begin) / rounds / layer.packed_bytes();
  }
  return speed;
}

}  // namespace outrider
