// Which kernel computes a product: by the type of its weights and by how many rows there are. The
// bits are the same whatever is chosen.
#pragma once

#include <cstdint>

#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/row_kernels.h"

namespace outrider::gpu {

// Up to two tiles of rows, panels are read twice, the second time from the cache, and every warp of
// the GPU has something to do. With more, reading them once is sooner.
inline constexpr uint32_t kFewRows = 16;

// use(body, grid_x, grid_y)
template <typename Body, typename Use>
void UseBody(const Product& product, const Use& use) {
  use(Body{product}, (product.x.row_count + Body::kRows - 1) / Body::kRows,
      (product.outputs + kTileOutputs - 1) / kTileOutputs);
}

template <typename Type, typename Use>
void UseQuantProduct(const Product& product, const Use& use) {
  if (product.x.row_count <= kFewRows) {
    UseBody<FewRowsProduct<Type>>(product, use);
  } else {
    UseBody<ManyRowsProduct<Type>>(product, use);
  }
}

template <typename Use>
void UseProduct(const Product& product, PanelKind kind, const Use& use) {
  switch (kind) {
    case PanelKind::kF32:
      return UseBody<FloatProduct<F32Weights>>(product, use);
    case PanelKind::kF16:
      return UseBody<FloatProduct<F16Weights>>(product, use);
    case PanelKind::kBf16:
      return UseBody<FloatProduct<Bf16Weights>>(product, use);
    case PanelKind::kQ8_0:
      return UseQuantProduct<Q8_0Block>(product, use);
    case PanelKind::kQ4_0:
      return UseQuantProduct<Q4_0Block>(product, use);
    case PanelKind::kQ4_K:
      return UseQuantProduct<Q4_KBlock>(product, use);
    case PanelKind::kQ5_K:
      return UseQuantProduct<Q5_KBlock>(product, use);
    case PanelKind::kQ6_K:
      return UseQuantProduct<Q6_KBlock>(product, use);
  }
}

}  // namespace outrider::gpu
