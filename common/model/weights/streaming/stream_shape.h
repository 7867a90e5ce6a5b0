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

// Experts come by key, and some of all layers' are in memory.
struct ExpertShape {
  uint32_t count = 0;        // of all layers; 0: no layer has any
  uint32_t used_count = 0;   // by one row, of all layers
  uint32_t place_least = 0;  // places, for reads not to wait for what is computed
  uint64_t place_bytes = 0;  // of the largest
  uint64_t file_bytes = 0;   // of all of them
};

struct StreamShape {
  std::vector<uint64_t> layer_bytes;  // in a slot, by layer
  uint64_t head_bytes = 0;
  std::vector<uint64_t> layer_file_bytes;  // that are read for it
  uint64_t head_file_bytes = 0;
  ExpertShape experts = {};
  // Whatever is pinned: norms and biases, what is to be read, rows that are looked up; and of each
  // read in flight.
  uint64_t kept_bytes = 0;
  uint64_t staging_bytes = 0;

  uint32_t layer_count() const { return static_cast<uint32_t>(layer_bytes.size()); }
};

StreamShape ShapeOf(const ModelFile& model, const ModelSpec& spec);

uint64_t MemoryBytes(const StreamShape& shape, const StreamOptions& options);
// Of a pass of one row, whose experts are at hand as often as if all were chosen alike.
uint64_t BytesPerPass(const StreamShape& shape, const StreamOptions& options);
// Of those, its experts.
uint64_t ExpertBytesPerPass(const StreamShape& shape, const StreamOptions& options);

// Whether layer n of `count` is one of the `pinned`, which are evenly spread.
bool IsPinnedLayer(uint64_t n, uint64_t pinned, uint64_t count);

}  // namespace outrider
