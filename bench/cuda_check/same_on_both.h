// A piece of work for two queues, a GPU's and the emulated one, which leave the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/testing/emulated_queue.h"
#include "common/kernels/testing/product_inputs.h"
#include "gtest/gtest.h"
#include "tests/cuda/gpu_engine_maker.h"
#include "tests/model/engine.h"

namespace outrider {

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

inline bool IsNan(uint32_t bits) {
  return (bits & 0x7fffffffu) > 0x7f800000u;
}

inline void ExpectSame(const std::function<void(Try&)>& work, const std::string& what) {
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
inline std::vector<float> Outlying(size_t count, uint64_t seed) {
  Seeded seeded(seed);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = seeded.Unit() * (i % 37 == 0 ? 1000.0f : 1.0f);
  return values;
}

// Weights of all types that there are kernels for.
struct Kind {
  const char* name;
  gpu::PanelKind kind;
};
inline constexpr Kind kKinds[] = {{"F32", gpu::PanelKind::kF32},   {"F16", gpu::PanelKind::kF16},
                                  {"BF16", gpu::PanelKind::kBf16}, {"Q8_0", gpu::PanelKind::kQ8_0},
                                  {"Q4_0", gpu::PanelKind::kQ4_0}, {"Q4_K", gpu::PanelKind::kQ4_K},
                                  {"Q5_K", gpu::PanelKind::kQ5_K}, {"Q6_K", gpu::PanelKind::kQ6_K}};

inline const PanelType& TypeNamed(const std::string& name) {
  for (const PanelType& type : kPanelTypes) {
    if (type.name == name) return type;
  }
  OUTRIDER_CHECK(false, "the type is among them");
}

}  // namespace outrider
