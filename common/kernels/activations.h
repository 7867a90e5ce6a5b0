// Rows of activations in the form a product wants them (NUMERICS.md, section 3): floats as they
// are, or int8 in blocks of 32 or of 256 with a scale each and, for offsets, the sum of every 16
// quants.
#pragma once

#include <cstddef>
#include <cstdint>

namespace outrider {

enum class ActivationForm { kFloat, kInt8Per32, kInt8Per256 };

// A view; row r of values, quants and sums, and block b of scales, starts at r or b times the
// stride.
struct ActivationRows {
  uint32_t row_count = 0;
  uint32_t inputs = 0;            // elements of a row
  const float* values = nullptr;  // [row_count, inputs], for kFloat
  size_t value_stride = 0;
  // Of values, for a GPU's tensor cores (cuda/kernels/split_products.h); null: they are not there.
  const uint32_t* terms = nullptr;  // [row_count, inputs], of the same stride
  const int8_t* quants = nullptr;   // [row_count, inputs], 64-byte aligned rows, for the others
  size_t quant_stride = 0;
  // [inputs / block, row_count]: those that meet a block of weights lie side by side, one broadcast
  // with a constant offset each. (Rows of them took an address register per row: 16 % at 16 rows.)
  const float* scales = nullptr;
  size_t scale_stride = 0;
  const int16_t* sums = nullptr;  // [row_count, inputs / 16]
  size_t sum_stride = 0;
};

// Rows [first, first + count). static: files compiled for one instruction set include this, and
// each has a copy of its own. constexpr: so do kernels of a GPU.
static constexpr ActivationRows SomeRows(const ActivationRows& x, uint32_t first, uint32_t count) {
  ActivationRows rows = x;
  rows.row_count = count;
  // A kind that these are not of has neither a pointer nor a stride of zero to be multiplied with.
  if (x.values != nullptr) rows.values += first * x.value_stride;
  if (x.terms != nullptr) rows.terms += first * x.value_stride;
  if (x.quants != nullptr) rows.quants += first * x.quant_stride;
  if (x.scales != nullptr) rows.scales += first;
  if (x.sums != nullptr) rows.sums += first * x.sum_stride;
  return rows;
}

}  // namespace outrider
