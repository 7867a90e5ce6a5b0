// What a model's streamed weights will take of memory and of flash, before anything is read: what a
// planner goes by.
//
//   const StreamShape shape = ShapeOf(*model, spec);
//   MemoryBytes(shape, options)      // what StreamingWeights::Open() will take, at the most
//   BytesPerPass(shape, options)     // what a pass will read, but for parts of blocks
#pragma once

#include <cstdint>
#include <vector>

#include "common/formats/models/model_file.h"
#include "common/model/model_spec.h"
#include "common/model/weights/streaming/stream_options.h"

namespace outrider {

struct StreamShape {
  std::vector<uint64_t> layer_bytes;  // in a slot, by layer
  uint64_t head_bytes = 0;
  std::vector<uint64_t> layer_file_bytes;  // that are read for it
  uint64_t head_file_bytes = 0;
  // Whatever is pinned: norms and biases, what is to be read, rows that are looked up; and of each
  // read in flight.
  uint64_t kept_bytes = 0;
  uint64_t staging_bytes = 0;

  uint32_t layer_count() const { return static_cast<uint32_t>(layer_bytes.size()); }
};

StreamShape ShapeOf(const ModelFile& model, const ModelSpec& spec);

uint64_t MemoryBytes(const StreamShape& shape, const StreamOptions& options);
uint64_t BytesPerPass(const StreamShape& shape, const StreamOptions& options);

// Whether layer n of `count` is one of the `pinned`, which are evenly spread.
bool IsPinnedLayer(uint64_t n, uint64_t pinned, uint64_t count);

}  // namespace outrider
