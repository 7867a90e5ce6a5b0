// Which kernel computes a product: by the type of its weights and by how many rows there are. The
// bits are the same whatever is chosen.
#pragma once

#include <cstdint>

#include "common/cuda/kernels/grouped_products.h"
#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quant_products.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/kernels/split_products.h"

namespace outrider::gpu {

// use(body, grid_x, grid_y)
template <typename Body, typename Use>
void UseBody(const Product& product, const Use& use) {
  use(Body{product}, (product.x.row_count + Body::kRows - 1) / Body::kRows,
      (product.outputs + Body::kPanels * kTileOutputs - 1) / (Body::kPanels * kTileOutputs));
}

inline constexpr uint32_t kFewRows = 16;

template <typename Type>
using OneTileDealt = DealtStripsProduct<Type, 1>;
template <typename Type>
using TwoTilesDealt = DealtStripsProduct<Type, 2>;
template <typename Type>
using OneTileOwned = OwnRowsQuantProduct<Type, 1, 1>;
template <typename Type>
using TwoTilesOwned = OwnRowsQuantProduct<Type, 2, 2>;

// So many warps, each with a panel and rows of its own, keep a GPU of more than a hundred
// multiprocessors as busy as dealing strips to more of them would, and need not tell one another
// anything.
inline constexpr uint32_t kManyWarps = 1000;

// `copies` of a product are computed side by side.
template <typename Type, typename Use>
void UseQuantProduct(const Product& product, uint32_t copies, const Use& use) {
  const uint32_t rows = product.x.row_count;
  const uint64_t warps = uint64_t{copies} * ((product.outputs + kTileOutputs - 1) / kTileOutputs) *
                         ((rows + kTileRows - 1) / kTileRows);
  if (rows > kFewRows) {
    UseBody<TwoTilesOwned<Type>>(product, use);
  } else if (warps >= kManyWarps) {
    UseBody<OneTileOwned<Type>>(product, use);
  } else if (rows > kTileRows) {
    UseBody<TwoTilesDealt<Type>>(product, use);
  } else {
    UseBody<OneTileDealt<Type>>(product, use);
  }
}

// Of F16 and BF16: with 4096 outputs, few rows are 128 blocks of 16 warps and 64 rows are as many
// of 8, about one for each multiprocessor of an H100. Rows of their own are as many blocks from 512
// rows on, and ask the cache for half as many rows and a quarter of the weights.
inline constexpr uint32_t kSomeRows = 256;

template <typename Weights>
using FewRowsSplit = DealtSegmentsProduct<Weights, 2, 2, 16>;
template <typename Weights>
using SomeRowsSplit = DealtSegmentsProduct<Weights, 4, 4, 8>;

template <typename Weights, typename Use>
void UseSplitProduct(const Product& product, const Use& use) {
  static_assert(FewRowsSplit<Weights>::kRows == kFewRows);
  if (product.x.row_count <= kFewRows) {
    UseBody<FewRowsSplit<Weights>>(product, use);
  } else if (product.x.row_count <= kSomeRows) {
    UseBody<SomeRowsSplit<Weights>>(product, use);
  } else {
    UseBody<OwnRowsProduct<Weights>>(product, use);
  }
}

// Whether products with these weights have bits of a GPU's own, and not the processor's.
inline bool HasOwnBits(PanelKind kind) {
  return kind == PanelKind::kF16 || kind == PanelKind::kBf16;
}

template <typename Use>
void UseProduct(const Product& product, PanelKind kind, const Use& use, uint32_t copies = 1) {
  switch (kind) {
    case PanelKind::kF32:
      return UseBody<FloatProduct>(product, use);
    case PanelKind::kF16:
      return UseSplitProduct<F16Weights>(product, use);
    case PanelKind::kBf16:
      return UseSplitProduct<Bf16Weights>(product, use);
    case PanelKind::kQ8_0:
      return UseQuantProduct<Q8_0Block>(product, copies, use);
    case PanelKind::kQ4_0:
      return UseQuantProduct<Q4_0Block>(product, copies, use);
    case PanelKind::kQ4_K:
      return UseQuantProduct<Q4_KBlock>(product, copies, use);
    case PanelKind::kQ5_K:
      return UseQuantProduct<Q5_KBlock>(product, copies, use);
    case PanelKind::kQ6_K:
      return UseQuantProduct<Q6_KBlock>(product, copies, use);
  }
}

// By how many rows an expert has on average: how many it has is not known here.
template <typename Use>
void UseGroupedProduct(const GroupedProduct& groups, PanelKind kind, const Use& use) {
  Product of_one = groups.product;
  of_one.x.row_count = (of_one.x.row_count + groups.group_count - 1) / groups.group_count;
  const auto use_body = [&]<typename Body>(const Body&, uint32_t, uint32_t panels) {
    use(ProductOfGroups<Body>{groups}, panels, groups.group_count);
  };
  UseProduct(of_one, kind, use_body, groups.group_count);
}

}  // namespace outrider::gpu
