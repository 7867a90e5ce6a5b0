// Prints a hash of what each product kernel computes from seeded panels and rows, so that two
// processors can be compared where no test framework reaches: the lines must be equal everywhere.
// Fails where a table of an Arm processor disagrees with the reference; products_isa_test.cc does
// that for x86.
//
// Free of GoogleTest and Abseil: tests/kernels/CMakeLists.txt builds it for Arm from a few files.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

#include "common/kernels/products/product_tables.h"
#include "common/kernels/testing/product_inputs.h"

namespace outrider {
namespace {

constexpr uint32_t kRowsMax = 5;

// FNV-1a over the words. Which NaN a NaN is, is not specified.
uint64_t Hash(const std::vector<float>& values, uint64_t state) {
  for (const float value : values) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
    state = (state ^ bits) * 0x100000001b3u;
  }
  return state;
}

// Over 1 to kRowsMax rows, odd panels and inputs that hurt.
uint64_t HashOf(const ProductKernels& kernels, const PanelType& type) {
  uint64_t state = 0xcbf29ce484222325u;
  for (const Weights weights : {Weights::kRandom, Weights::kZeroBits, Weights::kOneBits,
                                Weights::kLowest, Weights::kAnyScales}) {
    for (const Rows rows : {Rows::kRandom, Rows::kHighest, Rows::kLowest, Rows::kAlternating,
                            Rows::kTiny, Rows::kNotFinite}) {
      constexpr uint32_t kInputs = 512;
      constexpr uint32_t kOutputs = 47;
      Bytes panels = MakePanels(type, 3, kInputs, weights, 1);
      RowsOf x(kRowsMax, kInputs, type.block(), rows, 2);
      for (uint32_t row_count = 1; row_count <= kRowsMax; ++row_count) {
        std::vector<float> out(size_t{row_count} * kOutputs);
        (kernels.*type.kernel)(panels.data(), 3, kOutputs, x.First(row_count), out.data(),
                               kOutputs);
        state = Hash(out, state);
      }
    }
  }
  return state;
}

struct NamedProducts {
  const char* name;
  const ProductKernels* kernels;
};

std::vector<NamedProducts> TablesHere() {
  std::vector<NamedProducts> tables;
#if defined(__aarch64__)
  constexpr unsigned long kHwcapDotprod = 1ul << 20;
  constexpr unsigned long kHwcap2I8mm = 1ul << 13;
  if ((getauxval(AT_HWCAP) & kHwcapDotprod) != 0) tables.push_back({"dotprod", &kDotprodProducts});
  if ((getauxval(AT_HWCAP2) & kHwcap2I8mm) != 0) tables.push_back({"i8mm", &kI8mmProducts});
#endif
  return tables;
}

int Main() {
  int failures = 0;
  for (const PanelType& type : kPanelTypes) {
    const uint64_t expected = HashOf(kScalarProducts, type);
    std::printf("%s %016" PRIx64 "\n", type.name, expected);
    for (const auto& [name, kernels] : TablesHere()) {
      if (HashOf(*kernels, type) == expected) continue;
      std::fprintf(stderr, "%s: %s disagrees with the reference\n", type.name, name);
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace outrider

int main() {
  return outrider::Main();
}
