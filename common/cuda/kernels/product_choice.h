// Which kernel computes a product: by the type of its weights and by how many rows there are. The
// bits are the same whatever is chosen.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/few_rows_split.h"
#include "common/cuda/kernels/grouped_products.h"
#include "common/cuda/kernels/joint_products.h"
#include "common/cuda/kernels/products.h"
#include "common/cuda/kernels/quant_products.h"
#include "common/cuda/kernels/row_kernels.h"
#include "common/cuda/kernels/some_rows_split.h"

namespace outrider::gpu {

// use(body, grid_x, grid_y)
template <typename Body, typename Use>
void UseBody(const Product& product, const Use& use) {
  const Body body = {product};
  uint32_t x = (product.x.row_count + Body::kRows - 1) / Body::kRows;
  if constexpr (requires { Body::kShares; }) x *= Body::kShares;
  use(body, x, PanelBlocksOf(body));
}

inline constexpr uint32_t kFewRows = 16;

// With integers of its own for each block of 256, a warp has registers for two tiles of rows.
template <typename Type>
inline constexpr uint32_t kTilesMax = Type::kIsScaled ? 2 : RowTiles::kTilesTogether;

template <typename Type>
using OneTileDealt = DealtSegmentsProduct<Type, 1>;
template <typename Type>
using TwoTilesDealt = DealtSegmentsProduct<Type, 2>;
template <typename Type>
using SomeTilesDealt = DealtSegmentsProduct<Type, kTilesMax<Type>>;
template <typename Type>
using TilesOwned = OwnRowsQuantProduct<Type, kTilesMax<Type>>;

// With more rows, what warps with rows of their own save of rows' copies is more than they lose.
inline constexpr uint32_t kDealtRows = 64;

// A block of a few rows copies them once for all its panels. With so many blocks all of an H100's
// multiprocessors have two; more would only take turns.
inline constexpr uint32_t kBlocksWanted = 264;

inline uint32_t PanelsOfBlock(uint32_t outputs) {
  return ((outputs + kTileOutputs - 1) / kTileOutputs + kBlocksWanted - 1) / kBlocksWanted;
}

template <typename Type, typename Use>
void UseQuantProduct(Product product, const Use& use) {
  const uint32_t rows = product.x.row_count;
  product.panels_of_block = PanelsOfBlock(product.outputs);
  if (rows > kDealtRows) {
    UseBody<TilesOwned<Type>>(product, use);
  } else if (rows > kFewRows) {
    UseBody<SomeTilesDealt<Type>>(product, use);
  } else if (rows > kTileRows) {
    UseBody<TwoTilesDealt<Type>>(product, use);
  } else {
    UseBody<OneTileDealt<Type>>(product, use);
  }
}

// Whether products with these weights have bits of a GPU's own however few inputs there are, and
// need not have the processor's (quant_products.h).
inline bool HasOwnBits(PanelKind kind) {
  return kind == PanelKind::kF16 || kind == PanelKind::kBf16;
}

// Of F16 and BF16. A few rows' block of two panels is one for each multiprocessor of an H100 with
// 4096 outputs, of one panel with half as many. Up to 32 rows these are sooner than blocks of 64,
// and with few outputs up to 64.
inline constexpr uint32_t kFewOutputs = 2048;
// So few are fetched and, of weights of one term, multiplied for nothing: then blocks of one panel
// go round better.
inline constexpr uint32_t kFewestRows = 4;

inline uint32_t FewSplitRows(uint32_t outputs) {
  return outputs <= kFewOutputs ? 64 : 32;
}

// Whether so many rows are split (SplitRows) before they meet such weights.
inline bool TakesTerms(PanelKind kind, uint32_t outputs, uint32_t row_count) {
  return HasOwnBits(kind) && row_count > FewSplitRows(outputs);
}

// Up to so many blocks of 64 rows share out the inputs: with more, a multiprocessor has its own.
inline constexpr uint32_t kSharedBlocks = 96;

// Floats that products with so many rows and outputs at the most leave in their room (SumsRoom),
// beside kSharedBlocks counters.
inline size_t RoomFor(size_t row_count, size_t outputs) {
  using Body = SomeRowsSplit<Bf16Weights, kQuarters>;
  const size_t blocks = (row_count + Body::kRows - 1) / Body::kRows *
                        ((outputs + Body::kOutputs - 1) / Body::kOutputs);
  return std::min<size_t>(blocks, kSharedBlocks) * Body::kRows * Body::kOutputs * kQuarters;
}

template <typename Weights, uint32_t kPanels, typename Use>
void UseFewRowsOf(const Product& product, const Use& use) {
  if (product.x.row_count <= kTileRows) {
    UseBody<FewRowsSplit<Weights, kPanels, 1>>(product, use);
  } else {
    UseBody<FewRowsSplit<Weights, kPanels, 2>>(product, use);
  }
}

template <typename Weights, typename Use>
void UseFewRowsSplit(const Product& product, const Use& use) {
  const uint32_t rows = product.x.row_count;
  const bool are_fewest = Weights::kTerms == 1 && rows <= kFewestRows;
  if (are_fewest || (product.outputs <= kFewOutputs && rows <= kFewRows)) {
    UseFewRowsOf<Weights, 1>(product, use);
  } else {
    UseFewRowsOf<Weights, 2>(product, use);
  }
}

template <typename Weights, typename Use>
void UseSomeRowsSplit(const Product& product, const Use& use) {
  UseBody<SomeRowsSplit<Weights, 1>>(product, [&](const auto& body, uint32_t x, uint32_t y) {
    if (product.room.sums != nullptr && size_t{x} * y <= kSharedBlocks) {
      UseBody<SomeRowsSplit<Weights, kQuarters>>(product, use);
    } else {
      use(body, x, y);
    }
  });
}

template <typename Weights, typename Use>
void UseSplitProduct(const Product& product, const Use& use) {
  if (product.x.row_count <= FewSplitRows(product.outputs)) {
    UseFewRowsSplit<Weights>(product, use);
  } else {
    UseSomeRowsSplit<Weights>(product, use);
  }
}

// Those with the processor's bits, of quantised weights as far as a segment goes.
template <typename Use>
void UseExactProduct(const Product& product, PanelKind kind, const Use& use) {
  switch (kind) {
    case PanelKind::kF32:
      return UseBody<FloatProduct>(product, use);
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
    case PanelKind::kF16:
    case PanelKind::kBf16:
      return;  // have bits of their own
  }
}

template <typename Use>
void UseProduct(const Product& product, PanelKind kind, const Use& use) {
  if (kind == PanelKind::kF16) return UseSplitProduct<F16Weights>(product, use);
  if (kind == PanelKind::kBf16) return UseSplitProduct<Bf16Weights>(product, use);
  UseExactProduct(product, kind, use);
}

// Chosen as for one matrix that has the outputs of all; asked for one by one where what is chosen is
// not for several.
template <typename Use>
void UseJointProducts(const JointProducts& products, PanelKind kind, const Use& use) {
  Product whole = products.each[0];
  for (uint32_t i = 1; i < products.count; ++i) whole.outputs += products.each[i].outputs;
  UseProduct(whole, kind, [&]<typename Body>(const Body&, uint32_t grid_x, uint32_t) {
    if constexpr (GoesJointly<Body>()) {
      JointProducts shared_out = products;
      for (Product& each : shared_out.each) each.panels_of_block = PanelsOfBlock(whole.outputs);
      const auto joint = Jointly<Body>::Of(shared_out);
      use(joint, grid_x, joint.grid_y());
    } else {
      for (uint32_t i = 0; i < products.count; ++i) UseProduct(products.each[i], kind, use);
    }
  });
}

// By how many rows an expert has on average: how many it has is not known here. With F16 and BF16
// always a few, tile after tile: the body for more has no registers left for a matrix's place.
template <typename Use>
void UseGroupedProduct(const GroupedProduct& groups, PanelKind kind, const Use& use) {
  Product of_one = groups.product;
  of_one.x.row_count = (of_one.x.row_count + groups.group_count - 1) / groups.group_count;
  const auto use_groups = [&]<typename Body>(const Body& body, uint32_t, uint32_t panels) {
    ProductOfGroups<Body> grouped = {groups};
    grouped.groups.product.panels_of_block = body.product.panels_of_block;
    use(grouped, panels, groups.group_count);
  };
  if (kind == PanelKind::kF16) return UseFewRowsSplit<F16Weights>(of_one, use_groups);
  if (kind == PanelKind::kBf16) return UseFewRowsSplit<Bf16Weights>(of_one, use_groups);
  UseExactProduct(of_one, kind, use_groups);
}

}  // namespace outrider::gpu
