#include "bench/cuda_check/pass_costs.h"

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <type_traits>

#include "common/base/check.h"
#include "common/cuda/kernels/exit_kernels.h"
#include "common/cuda/kernels/product_choice.h"
#include "common/kernels/weight_matrix.h"

namespace outrider {
namespace {

constexpr uint64_t kFloat = sizeof(float);
constexpr uint64_t kHalf = sizeof(uint16_t);

TensorType TypeOf(gpu::PanelKind kind) {
  switch (kind) {
    case gpu::PanelKind::kF32:
      return TensorType::kF32;
    case gpu::PanelKind::kF16:
      return TensorType::kF16;
    case gpu::PanelKind::kBf16:
      return TensorType::kBF16;
    case gpu::PanelKind::kQ8_0:
      return TensorType::kQ8_0;
    case gpu::PanelKind::kQ4_0:
      return TensorType::kQ4_0;
    case gpu::PanelKind::kQ4_K:
      return TensorType::kQ4_K;
    case gpu::PanelKind::kQ5_K:
      return TensorType::kQ5_K;
    case gpu::PanelKind::kQ6_K:
      return TensorType::kQ6_K;
  }
  OUTRIDER_CHECK(false, "every kind is one of these");
}

// Adds up what kernels are asked for, in the order of GpuTransformer.
class Count {
 public:
  Count(gpu::PanelKind kind, uint64_t row_count) : rows_(row_count) { TakeWeights(kind); }

  // What comes next is multiplied with weights of that kind.
  void TakeWeights(gpu::PanelKind kind) {
    kind_ = kind;
    type_ = TypeOf(kind);
    form_ = FormFor(type_);
  }

  const PassCosts& costs() const { return costs_; }

  // A row of a kernel that is none of the two below reads and writes so many floats.
  void Kernel(uint64_t row_floats) {
    ++costs_.kernel_count;
    costs_.row_bytes += rows_ * row_floats * kFloat;
  }

  // Rows of so many elements are quantised where the weights' type wants that, and then multiplied
  // with matrices of so many outputs.
  void Products(uint32_t inputs, std::initializer_list<uint32_t> outputs) {
    uint64_t input_bytes = inputs * kFloat;
    if (form_ != ActivationForm::kFloat) {
      const uint32_t block = form_ == ActivationForm::kInt8Per32 ? 32 : 256;
      const uint64_t quantised = inputs + inputs / block * kFloat + inputs / 16 * kHalf;
      ++costs_.kernel_count;
      costs_.row_bytes += rows_ * (input_bytes + quantised);
      input_bytes = quantised;
    }
    if (std::ranges::any_of(outputs, [&](uint32_t each) { return TakesTerms(each); })) {
      ++costs_.kernel_count;
      costs_.row_bytes += rows_ * 2 * input_bytes;
      costs_.split_operations += rows_ * inputs * kSplitOperations;
    }
    for (const uint32_t each : outputs) Product(inputs, each, input_bytes);
    costs_.kernel_count += KernelsOf(inputs, outputs);
  }

  // Every query head of a row goes over the keys and values of its own.
  void Attention(const LlamaShape& shape, uint64_t seen_count) {
    const uint64_t cell_bytes = 2 * shape.head_length * kHalf;
    Kernel(uint64_t{2} * shape.head_count * shape.head_length);
    costs_.kv_bytes += shape.kv_head_count * seen_count * cell_bytes;
    costs_.kv_asked_bytes += rows_ * shape.head_count * seen_count * cell_bytes;
    costs_.float_multiplications += rows_ * shape.head_count * seen_count * 2 * shape.head_length;
  }

 private:
  bool TakesTerms(uint32_t outputs) const {
    return gpu::TakesTerms(kind_, outputs, static_cast<uint32_t>(rows_));
  }

  // The terms of two floats of a row are an upper half and a difference each, a permutation and a
  // conversion of both.
  static constexpr uint64_t kSplitOperations = 3;

  // So often for every warp that has other outputs, where rows have not been split before. A weight
  // in BF16 is its own term; those of two in F16 are a conversion, an upper half and a difference
  // each, and two permutations; so often for every warp that has other rows.
  template <typename Body>
  void AddSplit(uint64_t inputs, uint64_t outputs) {
    constexpr uint64_t kWarpOutputs = Body::kWarpPanels * gpu::kTileOutputs;
    constexpr uint64_t kTerms = Body::WeightsType::kTerms;
    const uint64_t tile_rows = RoundUp(rows_, Body::kRows);
    costs_.tile_multiplications += kTerms * gpu::kRowTerms * tile_rows * inputs * outputs;
    if (!TakesTerms(static_cast<uint32_t>(outputs))) {
      costs_.split_operations +=
          tile_rows * inputs * (RoundUp(outputs, kWarpOutputs) / kWarpOutputs) * kSplitOperations;
    }
    costs_.split_operations += RoundUp(rows_, Body::kWarpRows) / Body::kWarpRows * inputs *
                               outputs / 2 * (kTerms == 1 ? 0 : 8);
  }

  // Blocks that share out the inputs leave their sums, and one reads them.
  void AddShares(uint64_t shares, uint64_t outputs) {
    if (shares > 1) costs_.row_bytes += rows_ * outputs * 2 * shares * kFloat;
  }

  static uint64_t RoundUp(uint64_t count, uint64_t unit) {
    return (count + unit - 1) / unit * unit;
  }

  // Products of so many outputs, of the same rows.
  uint32_t KernelsOf(uint32_t inputs, std::initializer_list<uint32_t> outputs) const {
    gpu::JointProducts joint = {};
    for (const uint32_t each : outputs) {
      gpu::Product& product = joint.each[joint.count++];
      product.outputs = each;
      product.inputs = inputs;
      product.x.row_count = static_cast<uint32_t>(rows_);
    }
    uint32_t kernels = 0;
    gpu::UseJointProducts(joint, kind_, [&](const auto&, uint32_t, uint32_t) { ++kernels; });
    return kernels;
  }

  void Product(uint32_t inputs, uint32_t outputs, uint64_t input_bytes) {
    costs_.weight_bytes += PackedBytes(type_, outputs, inputs);
    costs_.row_bytes += rows_ * (input_bytes + outputs * kFloat);
    const uint64_t weight_count = uint64_t{inputs} * outputs;
    if (form_ != ActivationForm::kFloat) {
      costs_.chain_links += rows_ * weight_count / (form_ == ActivationForm::kInt8Per32 ? 32 : 256);
    }
    gpu::Product product = {};
    product.outputs = outputs;
    product.inputs = inputs;
    product.x.row_count = static_cast<uint32_t>(rows_);
    float sums;
    product.room.sums = &sums;  // nobody looks
    gpu::UseProduct(product, kind_, [&]<typename Body>(const Body&, uint32_t, uint32_t) {
      const uint64_t reads = RoundUp(rows_, Body::kRows) / Body::kRows;
      costs_.weight_reads = static_cast<uint32_t>(reads);
      if constexpr (requires { typename Body::WeightsType; }) {
        AddSplit<Body>(inputs, outputs);
        if constexpr (requires { Body::kShares; }) AddShares(Body::kShares, outputs);
      } else if constexpr (std::is_same_v<Body, gpu::FloatProduct>) {
        costs_.float_multiplications += rows_ * weight_count;
      } else {
        costs_.tile_multiplications += reads * Body::kRows * weight_count;
      }
    });
  }

  gpu::PanelKind kind_;
  TensorType type_;
  ActivationForm form_;
  const uint64_t rows_;
  PassCosts costs_;
};

}  // namespace

PassCosts CountPass(const LlamaShape& shape, gpu::PanelKind weights, const PassRows& rows) {
  const uint32_t width = shape.embedding_length;
  const uint32_t query = shape.head_count * shape.head_length;
  const uint32_t kept = shape.kv_head_count * shape.head_length;
  Count count(weights, rows.row_count);
  count.Kernel(width);  // embeddings; of their matrix only the rows' own are read
  for (uint32_t layer = 0; layer < shape.layer_count; ++layer) {
    // What the part before gave joins the residual stream as it is normed; before the first there
    // is none.
    count.Kernel(layer == 0 ? 2 * width : 4 * width);
    count.Products(width, {query, kept, kept});
    // Queries turn where they are, by a sine and a cosine for each pair; keys and values become
    // halves.
    count.Kernel(2 * query + shape.head_length + 2 * kept + kept);
    count.Attention(shape, rows.seen_count);
    count.Products(query, {width});
    count.Kernel(4 * width);
    count.Products(width, {shape.fed_length, shape.fed_length});
    count.Kernel(3 * shape.fed_length);
    count.Products(shape.fed_length, {width});
  }
  count.Kernel(3 * width);  // the last part joins
  count.Kernel(2 * width);  // the final norm
  count.Products(width, {shape.vocabulary_size});
  count.Kernel(shape.vocabulary_size);  // the largest
  return count.costs();
}

PassCosts CountExit(const LlamaShape& shape, gpu::PanelKind weights, const ExitShape& exit,
                    uint32_t row_count) {
  const uint32_t width = shape.embedding_length;
  Count count(gpu::PanelKind::kF32, row_count);
  count.Kernel(2 * width);  // the norm before the adapter
  count.Products(width, {exit.rank});
  count.Kernel(2 * exit.rank);
  count.Products(exit.rank, {width});
  count.Kernel(3 * width);  // what it changes joins the states
  count.Kernel(2 * width);  // the final norm
  count.TakeWeights(weights);
  count.Products(width, {exit.frequent_count, exit.round_count});
  // Logits are gone over twice; rankings are written.
  count.Kernel(2 * (exit.frequent_count + exit.round_count) + sizeof(ExitRanking) / kFloat);
  return count.costs();
}

uint64_t GatheredBytesOfRound(const LlamaShape& shape, gpu::PanelKind weights,
                              const ExitShape& exit) {
  constexpr uint64_t kSector = 32;
  const gpu::PanelLines lines = gpu::LinesOf(weights, shape.embedding_length);
  return exit.round_count * kSector * (lines.of_dwords + lines.of_halves) +
         PackedBytes(TypeOf(weights), exit.round_count, shape.embedding_length);
}

namespace {

// An H100's, by its data sheet: bytes of memory, multiplications of int8 and of bfloat16 by tensor
// cores, and fused multiply-adds of floats by ordinary units, a second.
constexpr double kBandwidth = 3.35e12;
constexpr double kTiles = 1979e12 / 2;
constexpr double kFloatTiles = 989e12 / 2;
constexpr double kFloats = 67e12 / 2;

double Giga(uint64_t count) {
  return 1e-9 * static_cast<double>(count);
}

double Milliseconds(uint64_t count, double by_the_second) {
  return 1e3 * static_cast<double>(count) / by_the_second;
}

constexpr uint32_t kSeen = 1024;

uint64_t OperationsOf(const PassCosts& costs) {
  return costs.float_multiplications + 3 * costs.chain_links + costs.split_operations;
}

// By tensor cores, with such weights.
double TilesOf(gpu::PanelKind kind) {
  return gpu::HasOwnBits(kind) ? kFloatTiles : kTiles;
}

// The least that it takes, in milliseconds.
double BoundOf(const PassCosts& costs, gpu::PanelKind kind) {
  return std::max({Milliseconds(costs.weight_bytes + costs.kv_bytes, kBandwidth),
                   Milliseconds(costs.tile_multiplications, TilesOf(kind)),
                   Milliseconds(OperationsOf(costs), kFloats)});
}

void PrintLine(const char* name, gpu::PanelKind kind, uint32_t row_count) {
  const PassCosts costs = CountPass(kLlama2_7B, kind, {row_count, kSeen});
  const uint64_t operations = OperationsOf(costs);
  const double tiles_ms = Milliseconds(costs.tile_multiplications, TilesOf(kind));
  const double floor = Milliseconds(costs.weight_bytes, kBandwidth);
  const double bound = BoundOf(costs, kind);
  std::printf(
      "| %s, %u | %.2f | %.2f | %u | %.3f | %.2f, %.1f | %.0f, %.2f | %.1f, %.2f | %.2f | %u |\n",
      name, row_count, Giga(costs.weight_bytes), floor, costs.weight_reads, Giga(costs.row_bytes),
      Giga(costs.kv_bytes), Giga(costs.kv_asked_bytes), Giga(costs.tile_multiplications), tiles_ms,
      Giga(operations), Milliseconds(operations, kFloats), bound / floor, costs.kernel_count);
}

double Mega(uint64_t count) {
  return 1e-6 * static_cast<double>(count);
}

void PrintExitLine(const char* name, gpu::PanelKind kind, uint32_t row_count) {
  constexpr uint32_t kExits = 5;
  const PassCosts pass = CountPass(kLlama2_7B, kind, {row_count, kSeen});
  const PassCosts exit = CountExit(kLlama2_7B, kind, kUsualExit, row_count);
  const uint64_t gathered = GatheredBytesOfRound(kLlama2_7B, kind, kUsualExit);
  const uint64_t copied = uint64_t{2} * row_count * kLlama2_7B.embedding_length * kFloat;
  const double bound = kExits * BoundOf(exit, kind) + Milliseconds(gathered, kBandwidth);
  std::printf("| %s, %u | %.1f | %.1f | %.1f | %.2f, %.2f | %.3f | %.2f %% | %u, 1 | %.2f | %u |\n",
              name, row_count, Mega(kExits * exit.weight_bytes), Mega(gathered),
              Mega(kExits * exit.row_bytes), Giga(kExits * exit.tile_multiplications),
              Giga(kExits * OperationsOf(exit)), bound, 100 * bound / BoundOf(pass, kind),
              kExits * exit.kernel_count, Mega(kExits * copied), kExits);
}

}  // namespace

void PrintExitCosts() {
  std::printf(
      "| weights, rows | weights, MB | gathered, MB | of rows, MB | tensor cores, ordinary units: "
      "G | at the best, ms | of the pass at its best | kernels, and once a run | copied first, MB "
      "| "
      "kernels there |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const uint32_t row_count : {1u, 16u, 64u}) {
    PrintExitLine("BF16", gpu::PanelKind::kBf16, row_count);
  }
  for (const uint32_t row_count : {1u, 16u, 64u}) {
    PrintExitLine("Q4_0", gpu::PanelKind::kQ4_0, row_count);
  }
}

void PrintPassCosts() {
  std::printf(
      "| weights, rows | weights, GB | floor, ms | asked for, times | of rows, GB | keys and "
      "values, GB: "
      "once, as asked | tensor cores: G, ms | ordinary units: G, ms | at the best, of the floor | "
      "kernels |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const uint32_t row_count : {1u, 16u, 64u}) {
    PrintLine("BF16", gpu::PanelKind::kBf16, row_count);
  }
  for (const uint32_t row_count : {1u, 16u, 64u}) {
    PrintLine("F16", gpu::PanelKind::kF16, row_count);
  }
  for (const uint32_t row_count : {1u, 16u, 64u}) {
    PrintLine("Q4_0", gpu::PanelKind::kQ4_0, row_count);
  }
}

}  // namespace outrider
