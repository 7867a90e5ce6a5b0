// Products of the same rows with two or three matrices of one type, which are wanted at the same
// time: one grid has the panels of all of them. So blocks of one fill up the GPU where those of
// another leave room, and there is one kernel to begin and to end.
//
// What is computed for a row and a matrix is what its product by itself would be, by the same body.
//
//   grid: rows / kRows rounded up, the blocks of all matrices' panels
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/cuda/kernels/products.h"

namespace outrider::gpu {

struct JointProducts {
  static constexpr uint32_t kMax = 3;

  Product each[kMax];
  uint32_t count;
};

// Whether there is a kernel for several products by a body.
template <typename Body>
constexpr bool GoesJointly() {
  if constexpr (requires { Body::kGoesJointly; }) {
    return Body::kGoesJointly;
  } else {
    return false;
  }
}

template <typename Body>
struct Jointly {
  static constexpr uint32_t kThreads = Body::kThreads;
  static constexpr uint32_t kBlocksAtOnce = BlocksAtOnce<Body>();

  Body each[JointProducts::kMax];
  uint32_t count;

  static Jointly Of(const JointProducts& products) {
    Jointly made = {{}, products.count};
    for (uint32_t i = 0; i < products.count; ++i) made.each[i] = Body{products.each[i]};
    return made;
  }

  OUTRIDER_HD size_t SharedBytes() const { return each[0].SharedBytes(); }
  uint32_t grid_y() const {
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < count; ++i) blocks += PanelBlocksOf(each[i]);
    return blocks;
  }

  template <typename Block>
  OUTRIDER_HD void operator()(Block& block) const {
    uint32_t i = 0, y = block.y();
    for (; i + 1 < count && y >= PanelBlocksOf(each[i]); ++i) y -= PanelBlocksOf(each[i]);
    block.MoveTo(block.x(), y);
    each[i](block);
  }
};

}  // namespace outrider::gpu
