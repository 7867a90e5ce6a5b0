// Products of rows that have been grouped by expert (expert_rows.h), each group with the matrix of
// its expert: the bodies of products.h, which a block goes through once for each tile of rows that
// its expert has. How many these are is known on the device alone, so a block of a group without
// rows returns at once, and one of many rows reads its panel again for every tile, from the cache
// nearest to it.
//
// What is computed for a row is what its expert's product would compute for it alone, so its bits
// depend on no other.
//
//   grid: panels, groups
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/products.h"

namespace outrider::gpu {

// Rows of one expert have places that follow one another.
struct ExpertRows {
  uint32_t expert;
  uint32_t first_place;
  uint32_t count;  // 0: nobody has chosen it
};

// out[place, n] = what the product of the place's expert is
struct GroupedProduct {
  Product product;           // the first expert's, whose panels, and bias, the others' follow; x
                             // and out are by place
  const ExpertRows* groups;  // [group_count]
  uint32_t group_count;

  OUTRIDER_HD Product ProductOf(const ExpertRows& group) const {
    const uint32_t panel_count = (product.outputs + kTileOutputs - 1) / kTileOutputs;
    Product own = product;
    own.panels += size_t{group.expert} * panel_count * product.panel_bytes;
    if (own.bias != nullptr) own.bias += size_t{group.expert} * product.outputs;
    own.x = product.x.Some(group.first_place, group.count);
    own.out += size_t{group.first_place} * product.out_stride;
    return own;
  }
};

template <typename Body>
struct ProductOfGroups {
  static constexpr uint32_t kThreads = Body::kThreads;

  GroupedProduct groups;

  OUTRIDER_HD size_t SharedBytes() const { return Body{groups.product}.SharedBytes(); }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    const uint32_t panel = block.x();
    const ExpertRows group = groups.groups[block.y()];
    if (group.count == 0) return;
    // A body for each tile: kept through all of them it takes more registers, F32's more than nvcc
    // gives it.
    for (uint32_t tile = 0; tile * Body::kRows < group.count; ++tile) {
      block.MoveTo(tile, panel);
      Body{groups.ProductOf(group)}(block);
    }
  }
};

}  // namespace outrider::gpu
