#include "common/kernels/products/products.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {
namespace {

// What a worker takes at a time. Large enough that the counters and the start of the streams do not
// show (at memory speed some ten microseconds), small enough that the last worker to finish keeps the
// others waiting for a per cent of a layer at most.
constexpr uint64_t kChunkBytes = 192 << 10;

// Kernels take panels in pairs.
constexpr uint32_t kPanelsPerStep = 2;

// Rows begin an odd number of cache lines apart, so that sixteen of them read side by side do not
// share a few sets of the first-level cache, as they do at a distance of 2048 bytes.
constexpr size_t OddLines(size_t bytes) {
  return ((bytes + kLineBytes - 1) / kLineBytes | 1) * kLineBytes;
}

struct QuantisedStrides {
  size_t quants;
  size_t scales;
  size_t sums;
};

// In elements of a row.
constexpr QuantisedStrides StridesFor(uint32_t inputs, uint32_t block) {
  return {.quants = OddLines(inputs),
          .scales = inputs / block,
          .sums = OddLines(inputs / 16 * sizeof(int16_t)) / sizeof(int16_t)};
}

constexpr std::array<uint32_t, 2> kBlocks = {32, 256};

// Fewer elements are quantised sooner than other threads are told of them.
constexpr size_t kSerialElements = 8192;

// The least chunks a worker has, if there are panels for them: of two that differ by one in their
// number of chunks, none waits long for the other.
constexpr uint64_t kChunksPerWorker = 4;

uint64_t PanelBytesOf(const WeightMatrix& weights) {
  return PanelBytes(HasPanels(weights.type) ? weights.type : TensorType::kF32, weights.inputs);
}

// Of small matrices less than of large ones.
uint64_t ChunkBytes(std::span<const Product> products, uint32_t workers) {
  uint64_t bytes = 0;
  for (const Product& product : products) {
    bytes += PanelCount(product.weights->outputs) * PanelBytesOf(*product.weights);
  }
  return std::min(kChunkBytes, bytes / (kChunksPerWorker * workers));
}

uint32_t PanelsPerChunk(const WeightMatrix& weights, uint64_t chunk_bytes) {
  const uint64_t steps = chunk_bytes / (kPanelsPerStep * PanelBytesOf(weights));
  return static_cast<uint32_t>(std::max<uint64_t>(1, steps)) * kPanelsPerStep;
}

uint32_t ChunkCount(const WeightMatrix& weights, uint64_t chunk_bytes) {
  const uint32_t per_chunk = PanelsPerChunk(weights, chunk_bytes);
  return (PanelCount(weights.outputs) + per_chunk - 1) / per_chunk;
}

// The rows a product takes of `all`.
ActivationRows RowsOf(const Product& product, const ActivationRows& all) {
  return product.rows ? SomeRows(all, product.rows->first, product.rows->count) : all;
}

// Where output `first_output` of the first of them goes.
float* OutOf(const Product& product, uint32_t first_output) {
  const size_t first_row = product.rows ? product.rows->first : 0;
  return product.out + first_row * product.out_stride + first_output;
}

size_t FormIndex(ActivationForm form) {
  return form == ActivationForm::kInt8Per32 ? 0 : 1;
}

PanelProduct* KernelFor(const ProductKernels& kernels, TensorType type) {
  switch (type) {
    case TensorType::kF16:
      return kernels.f16;
    case TensorType::kBF16:
      return kernels.bf16;
    case TensorType::kQ8_0:
      return kernels.q8_0;
    case TensorType::kQ4_0:
      return kernels.q4_0;
    case TensorType::kQ4_1:
      return kernels.q4_1;
    case TensorType::kQ5_0:
      return kernels.q5_0;
    case TensorType::kQ5_1:
      return kernels.q5_1;
    case TensorType::kIQ4_NL:
      return kernels.iq4_nl;
    case TensorType::kMXFP4:
      return kernels.mxfp4;
    case TensorType::kQ4_K:
      return kernels.q4_k;
    case TensorType::kQ5_K:
      return kernels.q5_k;
    case TensorType::kQ6_K:
      return kernels.q6_k;
    case TensorType::kQ2_K:
      return kernels.q2_k;
    case TensorType::kQ3_K:
      return kernels.q3_k;
    case TensorType::kIQ4_XS:
      return kernels.iq4_xs;
    default:
      return kernels.f32;  // as which every other type is decoded
  }
}

}  // namespace

// The chunks of products, counted through: those of the first, of the second, ... One worker's way
// through a part of them, which only goes forward, so that hundreds of products are walked once.
class Multiplier::Chunks {
 public:
  Chunks(std::span<const Product> products, uint64_t chunk_bytes)
      : chunk_bytes_(chunk_bytes), next_(products.data()) {}

  // `index` rises from call to call and is below the number of all chunks.
  Chunk At(size_t index) {
    while (index >= end_) {
      product_ = next_++;
      begin_ = end_;
      end_ += ChunkCount(*product_->weights, chunk_bytes_);
      per_chunk_ = PanelsPerChunk(*product_->weights, chunk_bytes_);
    }
    const uint32_t first = static_cast<uint32_t>(index - begin_) * per_chunk_;
    return {.product = product_,
            .first_panel = first,
            .panel_count = std::min(per_chunk_, PanelCount(product_->weights->outputs) - first)};
  }

 private:
  const uint64_t chunk_bytes_;
  const Product* next_;
  // Where it is: the product that has chunks [begin_, end_).
  const Product* product_ = nullptr;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint32_t per_chunk_ = 0;
};

absl::StatusOr<Multiplier> Multiplier::Create(const Kernels& kernels, ThreadPool& pool,
                                              uint32_t row_count_max, uint32_t inputs_max) {
  Multiplier multiplier(kernels, pool);
  multiplier.row_count_max_ = row_count_max;
  multiplier.inputs_max_ = inputs_max;
  for (size_t i = 0; i < kBlocks.size(); ++i) {
    const QuantisedStrides strides = StridesFor(inputs_max, kBlocks[i]);
    Quantised& rows = multiplier.quantised_[i];
    OUTRIDER_ASSIGN_OR_RETURN(rows.quants, AlignedBuffer::Create(row_count_max * strides.quants));
    OUTRIDER_ASSIGN_OR_RETURN(
        rows.scales, AlignedBuffer::Create(row_count_max * strides.scales * sizeof(float)));
    OUTRIDER_ASSIGN_OR_RETURN(
        rows.sums, AlignedBuffer::Create(row_count_max * strides.sums * sizeof(int16_t)));
  }
  // F32 has the largest panels.
  multiplier.scratch_stride_ =
      PanelBytes(TensorType::kF32, inputs_max) + OddLines(inputs_max * sizeof(float));
  OUTRIDER_ASSIGN_OR_RETURN(
      multiplier.scratch_, AlignedBuffer::Create(pool.thread_count() * multiplier.scratch_stride_));
  multiplier.parts_ = std::make_unique<Part[]>(pool.thread_count());
  return multiplier;
}

void Multiplier::Multiply(const FloatRows& x, std::span<const Product> products) {
  OUTRIDER_CHECK(x.row_count <= row_count_max_ && x.inputs <= inputs_max_,
                 "a product is no larger than its Multiplier was created for");
  const ActivationRows floats = {
      .row_count = x.row_count, .inputs = x.inputs, .values = x.values, .value_stride = x.stride};
  std::array<ActivationRows, 2> quantised = {};
  const uint32_t workers = pool_->thread_count();
  const uint64_t chunk_bytes = ChunkBytes(products, workers);
  size_t chunk_count = 0;
  for (const Product& product : products) {
    OUTRIDER_CHECK(product.weights->inputs == x.inputs, "a matrix fits the rows it multiplies");
    OUTRIDER_CHECK(!product.rows || product.rows->first + product.rows->count <= x.row_count,
                   "a product takes rows that there are");
    chunk_count += ChunkCount(*product.weights, chunk_bytes);
    const ActivationForm form = FormFor(product.weights->type);
    if (form == ActivationForm::kFloat) continue;
    ActivationRows& rows = quantised[FormIndex(form)];
    if (rows.quants == nullptr) rows = Quantise(x, form);
  }

  DealChunks(chunk_count);
  pool_->ParallelRanges(workers, [&](size_t, size_t, uint32_t worker) {
    for (uint32_t i = 0; i < workers; ++i) {
      const uint32_t part = (worker + i) % workers;
      Chunks chunks(products, chunk_bytes);
      while (const std::optional<size_t> index = TakeChunk(chunk_count, part)) {
        const Chunk chunk = chunks.At(*index);
        const ActivationForm form = FormFor(chunk.product->weights->type);
        const ActivationRows& all =
            form == ActivationForm::kFloat ? floats : quantised[FormIndex(form)];
        RunChunk(chunk, RowsOf(*chunk.product, all), worker);
      }
    }
  });
}

void Multiplier::DealChunks(size_t chunk_count) {
  for (uint32_t part = 0; part < pool_->thread_count(); ++part) {
    parts_[part].next.store(pool_->RangeBegin(chunk_count, part), std::memory_order_relaxed);
  }
}

std::optional<size_t> Multiplier::TakeChunk(size_t chunk_count, uint32_t part) {
  const size_t end = pool_->RangeBegin(chunk_count, part + 1);
  std::atomic<size_t>& next = parts_[part].next;
  // A look first: workers who look for work in vain do not take the line from one another.
  if (next.load(std::memory_order_relaxed) >= end) return std::nullopt;
  const size_t taken = next.fetch_add(1, std::memory_order_relaxed);
  return taken < end ? std::optional(taken) : std::nullopt;
}

ActivationRows Multiplier::Quantise(const FloatRows& x, ActivationForm form) {
  Quantised& rows = quantised_[FormIndex(form)];
  const uint32_t block = kBlocks[FormIndex(form)];
  const QuantisedStrides strides = StridesFor(x.inputs, block);
  int8_t* const quants = rows.quants.As<int8_t>().data();
  float* const scales = rows.scales.As<float>().data();
  int16_t* const sums = rows.sums.As<int16_t>().data();
  const auto quantise_rows = [&](size_t begin, size_t end, uint32_t worker) {
    // One row's scales, before they are dealt to their blocks.
    float* const row_scales =
        scratch_.As<float>().data() + worker * scratch_stride_ / sizeof(float);
    for (size_t r = begin; r < end; ++r) {
      kernels_->rows.quantize(x.values + r * x.stride, x.inputs, block, quants + r * strides.quants,
                              row_scales, sums + r * strides.sums);
      for (size_t b = 0; b < x.inputs / block; ++b) scales[b * x.row_count + r] = row_scales[b];
    }
  };
  if (x.row_count < 2 * pool_->thread_count() || x.row_count * x.inputs < kSerialElements) {
    quantise_rows(0, x.row_count, 0);
  } else {
    pool_->ParallelRanges(x.row_count, quantise_rows);
  }
  return {.row_count = x.row_count,
          .inputs = x.inputs,
          .quants = quants,
          .quant_stride = strides.quants,
          .scales = scales,
          .scale_stride = x.row_count,
          .sums = sums,
          .sum_stride = strides.sums};
}

void Multiplier::RunChunk(const Chunk& chunk, const ActivationRows& x, uint32_t worker) {
  const WeightMatrix& weights = *chunk.product->weights;
  if (weights.layout == WeightLayout::kRows) return RunRowsChunk(chunk, x, worker);
  const uint32_t first_output = chunk.first_panel * kPanelOutputs;
  KernelFor(kernels_->products, weights.type)(
      weights.data + chunk.first_panel * PanelBytes(weights.type, weights.inputs),
      chunk.panel_count,
      std::min(chunk.panel_count * kPanelOutputs, weights.outputs - first_output), x,
      OutOf(*chunk.product, first_output), chunk.product->out_stride);
}

// GGUF rows: into a panel of this worker's, which stays in its cache until the product has read it.
void Multiplier::RunRowsChunk(const Chunk& chunk, const ActivationRows& x, uint32_t worker) {
  const WeightMatrix& weights = *chunk.product->weights;
  const bool has_panels = HasPanels(weights.type);
  const TensorType panel_type = has_panels ? weights.type : TensorType::kF32;
  const size_t panel_bytes = PanelBytes(panel_type, weights.inputs);
  const std::span<std::byte> scratch =
      scratch_.bytes().subspan(worker * scratch_stride_, scratch_stride_);
  const std::span<std::byte> panel = scratch.first(panel_bytes);
  const size_t row_bytes = RowBytes(weights.type, weights.inputs);
  for (uint32_t p = chunk.first_panel; p < chunk.first_panel + chunk.panel_count; ++p) {
    const uint32_t first_output = p * kPanelOutputs;
    const uint32_t rows = std::min(kPanelOutputs, weights.outputs - first_output);
    const std::span<const std::byte> bytes(weights.data + first_output * row_bytes,
                                           rows * row_bytes);
    if (has_panels) {
      PackPanel(weights.type, weights.inputs, bytes, panel);
    } else {
      DecodePanel(weights.type, weights.inputs, bytes,
                  {reinterpret_cast<float*>(scratch.data() + panel_bytes), weights.inputs},
                  {reinterpret_cast<float*>(panel.data()), panel_bytes / sizeof(float)});
    }
    KernelFor(kernels_->products, panel_type)(
        panel.data(), 1, rows, x, OutOf(*chunk.product, first_output), chunk.product->out_stride);
  }
}

}  // namespace outrider
