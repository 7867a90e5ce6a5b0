// Every kernel on the GPU and, thread after thread, on this machine: the same bytes. That the
// latter are right is tests/cuda's to show.
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/cuda/testing/emulated_queue.h"
#include "common/kernels/testing/product_inputs.h"
#include "gtest/gtest.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/model/engine.h"

namespace outrider {
namespace {

// Memory of a device that one try uses, and what it leaves there.
class Try {
 public:
  explicit Try(DeviceQueue& queue) : queue_(queue) {}

  DeviceQueue& queue() { return queue_; }

  template <typename T>
  T* Put(const std::vector<T>& values) {
    return Put<T>(values.data(), values.size());
  }
  template <typename T>
  T* Put(const T* values, size_t count) {
    const size_t bytes = count * sizeof(T);
    buffers_.push_back(OrDie(DeviceBuffer::Create(queue_, bytes, "a test's values")));
    queue_.Upload(buffers_.back().data(), values, bytes);
    return buffers_.back().As<T>();
  }
  // Floats to be written to.
  float* Room(size_t count) { return Put(std::vector<float>(count, -1.0f)); }

  template <typename T>
  void Keep(const T* from, size_t count) {
    const size_t bytes = (count * sizeof(T) + 3) / 4 * 4;
    const size_t at = kept_.size();
    kept_.resize(at + bytes / 4);
    queue_.Download(kept_.data() + at, reinterpret_cast<const std::byte*>(from), count * sizeof(T));
    OUTRIDER_CHECK_OK(queue_.Wait());
  }
  const std::vector<uint32_t>& kept() const { return kept_; }

 private:
  DeviceQueue& queue_;
  std::vector<DeviceBuffer> buffers_;
  std::vector<uint32_t> kept_;
};

bool IsNan(uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u;
}

void ExpectSame(const std::function<void(Try&)>& work, const std::string& what) {
  EmulatedQueue emulated;
  const std::unique_ptr<DeviceQueue> queue = OrDie(OpenQueue());
  Try here(emulated), there(*queue);
  work(here);
  work(there);
  ASSERT_EQ(here.kept().size(), there.kept().size());
  for (size_t i = 0; i < here.kept().size(); ++i) {
    const uint32_t expected = here.kept()[i], actual = there.kept()[i];
    if (IsNan(expected) && IsNan(actual)) continue;
    ASSERT_EQ(actual, expected) << what << ", word " << i;
  }
}

// Ordinary numbers with outliers among them.
std::vector<float> Outlying(size_t count, uint64_t seed) {
  Seeded seeded(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = seeded.Unit() * (i % 37 == 0 ? 1000.0f : 1.0f);
  return values;
}

struct Kind {
  const char* name;
  gpu::PanelKind kind;
};
constexpr Kind kKinds[] = {{"F32", gpu::PanelKind::kF32},   {"F16", gpu::PanelKind::kF16},
                           {"BF16", gpu::PanelKind::kBf16}, {"Q8_0", gpu::PanelKind::kQ8_0},
                           {"Q4_0", gpu::PanelKind::kQ4_0}, {"Q4_K", gpu::PanelKind::kQ4_K},
                           {"Q5_K", gpu::PanelKind::kQ5_K}, {"Q6_K", gpu::PanelKind::kQ6_K}};

const PanelType& TypeNamed(const std::string& name) {
  for (const PanelType& type : kPanelTypes) {
    if (type.name == name) return type;
  }
  OUTRIDER_CHECK(false, "the type is among them");
}

TEST(KernelsOnGpu, Products) {
  constexpr uint32_t kInputs = 2560, kOutputs = 75;
  for (const Kind& kind : kKinds) {
    const PanelType& type = TypeNamed(kind.name);
    const size_t panel_bytes = type.Size(kInputs);
    for (const uint32_t row_count : {1u, 7u, 16u, 17u, 64u, 65u}) {
      for (const Rows rows : {Rows::kRandom, Rows::kHighest, Rows::kTiny, Rows::kNotFinite}) {
        Bytes panels = MakePanels(type, 5, kInputs, Weights::kRandom, 5);
        RowsOf made(row_count, kInputs, type.block(), rows, 7);
        const std::vector<float> bias = Outlying(kOutputs, 3);
        const auto multiply = [&](Try& t) {
          ActivationRows x = made.First(row_count);
          if (type.block() == 1) {
            x.values = t.Put(x.values, row_count * x.value_stride);
          } else {
            x.quants = t.Put(x.quants, row_count * x.quant_stride);
            x.scales = t.Put(x.scales, kInputs / type.block() * x.scale_stride);
            x.sums = t.Put(x.sums, row_count * x.sum_stride);
          }
          float* const out = t.Room(size_t{row_count} * kOutputs);
          t.queue().Multiply({.panels = t.Put(panels.data(), panels.size()),
                              .panel_bytes = panel_bytes,
                              .outputs = kOutputs,
                              .inputs = kInputs,
                              .bias = t.Put(bias),
                              .x = x,
                              .out = out,
                              .out_stride = kOutputs},
                             kind.kind);
          t.Keep(out, size_t{row_count} * kOutputs);
        };
        ExpectSame(multiply, std::string(kind.name) + ", " + std::to_string(row_count) + " rows");
      }
    }
  }
}

TEST(KernelsOnGpu, Norms) {
  for (const uint32_t length : {64u, 4096u, 16384u}) {
    for (const bool has_bias : {false, true}) {
      ExpectSame(
          [&](Try& t) {
            float* const stream = t.Put(Outlying(3 * length, 1));
            float* const out = t.Room(3 * length);
            t.queue().Run(gpu::NormRows{.stream = stream,
                                        .part = t.Put(Outlying(3 * length, 2)),
                                        .weight = t.Put(Outlying(length, 3)),
                                        .bias = has_bias ? t.Put(Outlying(length, 4)) : nullptr,
                                        .out = out,
                                        .which = nullptr,
                                        .length = length,
                                        .epsilon = 1e-5f},
                          3, 1);
            t.Keep(stream, 3 * length);
            t.Keep(out, 3 * length);
          },
          "norm of " + std::to_string(length));
    }
  }
}

TEST(KernelsOnGpu, SumsAndCopies) {
  constexpr uint32_t kLength = 4096;
  for (const bool has_part : {false, true}) {
    ExpectSame(
        [&](Try& t) {
          float* const stream = t.Put(Outlying(3 * kLength, 1));
          float* const out = t.Room(3 * kLength);
          t.queue().Run(gpu::NormRows{.stream = stream,
                                      .part = has_part ? t.Put(Outlying(3 * kLength, 2)) : nullptr,
                                      .weight = nullptr,
                                      .bias = nullptr,
                                      .out = out,
                                      .which = nullptr,
                                      .length = kLength,
                                      .epsilon = 1e-5f},
                        3, 1);
          t.Keep(stream, 3 * kLength);
          t.Keep(out, 3 * kLength);
        },
        has_part ? "sums" : "copies");
  }
}

TEST(KernelsOnGpu, Quants) {
  constexpr uint32_t kRows = 5, kInputs = 2560;
  for (const uint32_t block : {32u, 256u}) {
    ExpectSame(
        [&](Try& t) {
          std::vector<float> x = Outlying(kRows * kInputs, 5);
          for (size_t i = 0; i < 300; ++i) x[i] = 0.0f;
          x[1000] = std::numeric_limits<float>::quiet_NaN();
          x[2000] = std::numeric_limits<float>::infinity();
          x[4000] = 1e-40f;
          int8_t* const quants = t.Put(std::vector<int8_t>(kRows * kInputs));
          float* const scales = t.Room(kRows * (kInputs / block));
          int16_t* const sums = t.Put(std::vector<int16_t>(kRows * kInputs / 16));
          const gpu::QuantizeRows quantize = {t.Put(x), quants,  scales, sums,
                                              kRows,    kInputs, block};
          t.queue().Run(quantize, kRows, quantize.grid_y());
          t.Keep(quants, kRows * kInputs);
          t.Keep(scales, kRows * (kInputs / block));
          t.Keep(sums, kRows * kInputs / 16);
        },
        "blocks of " + std::to_string(block));
  }
}

TEST(KernelsOnGpu, Gates) {
  std::vector<float> x = Outlying(4000, 6);
  for (size_t i = 0; i < 2000; ++i) x[i] = (static_cast<float>(i) - 1000.0f) * 0.1f;
  for (const gpu::Gate kind :
       {gpu::Gate::kSiluGated, gpu::Gate::kGeluTanhGated, gpu::Gate::kGeluTanh}) {
    ExpectSame(
        [&](Try& t) {
          float* const up = t.Put(x);
          const gpu::GateRows gate = {t.Put(x), up, 2000, kind};
          t.queue().Run(gate, 2, gate.grid_y());
          t.Keep(up, 4000);
        },
        "gate " + std::to_string(static_cast<int>(kind)));
  }
}

// Rows of several lengths over pages in no order, grouped heads.
TEST(KernelsOnGpu, Attention) {
  constexpr uint32_t kHeads = 4, kKvHeads = 2, kPages = 12;
  for (const uint32_t length : {16u, 64u, 128u, 256u}) {
    const size_t page_halves = size_t{2} * kKvHeads * kChunk * length;
    std::mt19937 random(length);
    std::vector<uint16_t> pages(kPages * page_halves);
    for (uint16_t& half : pages) {
      half = static_cast<uint16_t>((random() & 0x83ff) | (12 + random() % 4) << 10);
    }
    ExpectSame(
        [&](Try& t) {
          const uint16_t* const there = t.Put(pages);
          std::vector<KeyRun> runs;
          std::vector<uint32_t> chunk_runs;
          std::vector<gpu::SeenRuns> seen;
          for (const uint32_t count : {1u, 32u, 45u, 300u}) {
            const uint32_t first = count == 45 ? 7 : 0;
            const auto first_chunk = static_cast<uint32_t>(chunk_runs.size());
            for (uint32_t index = first; index < first + count;) {
              const uint32_t end = std::min((index / kChunk + 1) * kChunk, first + count);
              if (index == first || index % kChunk == 0) {
                chunk_runs.push_back(static_cast<uint32_t>(runs.size()));
              }
              // The last chunk of each comes in runs of one, as drafted nodes do.
              const uint32_t run = end == first + count ? 1 : end - index;
              const size_t page = (index / kChunk * 5 + count) % kPages;
              runs.push_back({there + page * page_halves, index % kChunk, run});
              index += run;
            }
            seen.push_back(
                {first, static_cast<uint32_t>(chunk_runs.size()) - first_chunk, first_chunk});
          }
          chunk_runs.push_back(static_cast<uint32_t>(runs.size()));
          const size_t row_floats = size_t{kHeads} * length;
          float* const out = t.Room(seen.size() * row_floats);
          t.queue().Run(gpu::AttendRows{.query = t.Put(Outlying(seen.size() * row_floats, 8)),
                                        .out = out,
                                        .seen = t.Put(seen),
                                        .chunk_runs = t.Put(chunk_runs),
                                        .runs = t.Put(runs),
                                        .head_count = kHeads,
                                        .kv_head_count = kKvHeads,
                                        .key_length = length,
                                        .value_length = length,
                                        .scale = 0.01f,
                                        .keys_at = 0,
                                        .values_at = size_t{kKvHeads} * kChunk * length,
                                        .slot_count = kChunk},
                        static_cast<uint32_t>(seen.size()), kHeads);
          t.Keep(out, seen.size() * row_floats);
        },
        "heads of " + std::to_string(length));
  }
}

}  // namespace
}  // namespace outrider
