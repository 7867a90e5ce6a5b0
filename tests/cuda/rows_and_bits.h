// What tests of kernels share: rows that hurt, references, and comparisons to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "gtest/gtest.h"
#include "tests/kernels/paged_keys.h"

namespace outrider::gpu {

inline const RowKernels& Reference() {
  return KernelsFor(Isa::kScalar).rows;
}

// NaN is NaN, whichever it is.
template <typename T>
void ExpectBits(const std::vector<T>& actual, const std::vector<T>& expected,
                const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] != actual[i] && expected[i] != expected[i]) continue;
    ASSERT_EQ(std::memcmp(&actual[i], &expected[i], sizeof(T)), 0)
        << what << ", " << i << ": " << +actual[i] << " for " << +expected[i];
  }
}

// Ordinary numbers with outliers among them.
inline std::vector<float> Outlying(size_t count, uint64_t seed) {
  Numbers numbers(seed);
  std::vector<float> values = numbers.Gaussians(count, 1.0f);
  for (size_t i = 0; i < count; i += 37) values[i] *= 1000.0f;
  return values;
}

}  // namespace outrider::gpu
