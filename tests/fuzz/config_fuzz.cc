// config.json: whatever it says, HyperparametersFromConfig answers in bounded time and memory, and
// what it accepts keeps the promises the forward pass relies on.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/formats/models/hyperparameters.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = outrider::HyperparametersFromConfig(
      {reinterpret_cast<const char*>(data), size}, "config.json");
  if (!model.ok()) return 0;
  OUTRIDER_CHECK(model->vocabulary_size > 0 && model->embedding_length > 0 && model->key_length > 0,
                 "no size is zero");
  OUTRIDER_CHECK(model->head_count.size() == model->total_block_count() &&
                     model->head_count_kv.size() == model->total_block_count(),
                 "every block has heads");
  for (size_t block = 0; block < model->head_count.size(); ++block) {
    OUTRIDER_CHECK(model->head_count_kv[block] > 0 &&
                       model->head_count[block] % model->head_count_kv[block] == 0,
                   "heads share keys evenly");
  }
  OUTRIDER_CHECK(model->norm_epsilon > 0 && model->rope.base > 0, "numbers are numbers");
  return 0;
}
