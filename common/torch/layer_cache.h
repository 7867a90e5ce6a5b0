// One sequence's keys and values of one layer: [node slots, then cells; kv heads, length]. Cells of
// a chain that is not committed stand after the committed ones. A fork has the same tensors, and
// whoever is about to write copies those that somebody else has.
//
//   cache.Reserve(room, attention, device);          // before a run; grows by doubling
//   cache.Write(places, keys, values);               // a run's rows, layer by layer
//   ... cache.Keys(first, end), cache.Values(first, end) ...
//   cache.Copy(end_of_chain, slots_of_path);         // nodes that are committed become cells
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "common/model/model_spec.h"

namespace outrider {

// How much of a sequence its caches are to hold, now and in the end.
struct CacheRoom {
  int64_t node_count;  // slots, always all of them
  int64_t cell_count;
  int64_t cell_count_max;
};

class LayerCache {
 public:
  // To be written to. What is there stays.
  void Reserve(const CacheRoom& room, const AttentionSpec& shape, at::Device device);

  // Rows at the places `at`, numbers or not.
  void Write(const at::Tensor& at, const at::Tensor& keys, const at::Tensor& values);

  // What is at the places `from` is at those from `first` on, too.
  void Copy(int64_t first, const at::Tensor& from);

  // At places [first, end): [1, places, kv heads, length].
  at::Tensor Keys(int64_t first, int64_t end) const {
    return keys_.narrow(0, first, end - first).unsqueeze(0);
  }
  at::Tensor Values(int64_t first, int64_t end) const {
    return values_.narrow(0, first, end - first).unsqueeze(0);
  }

 private:
  at::Tensor keys_;
  at::Tensor values_;
};

}  // namespace outrider
