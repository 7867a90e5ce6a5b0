// One row's attention as a test sees it: keys and values by position. Stored() puts them into pages
// the way a cache might: each chunk in one run, in runs of one, or cut and placed at random. Free
// of GoogleTest and Abseil, for rows_digest.cc.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/formats/tensors/half.h"
#include "common/kernels/attention.h"

namespace outrider {

// A small generator of our own: the same numbers on every platform.
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  uint32_t Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state_ >> 32);
  }
  uint32_t Below(uint32_t end) { return Next() % end; }
  // About normal, exact in its making: a sum of twelve uniform numbers.
  float Gaussian(float scale) {
    int32_t sum = 0;
    for (int i = 0; i < 12; ++i) sum += static_cast<int32_t>(Next() >> 12);
    return static_cast<float>(sum - 6 * (1 << 20)) * 0x1p-20f * scale;
  }
  std::vector<float> Gaussians(size_t count, float scale) {
    std::vector<float> values(count);
    for (float& value : values) value = Gaussian(scale);
    return values;
  }

 private:
  uint64_t state_;
};

struct AttentionCase {
  uint32_t head_count;
  uint32_t key_length;
  uint32_t value_length;
  uint32_t first_position;
  uint32_t count;                // positions
  std::vector<float> queries;    // [head_count, key_length]
  std::vector<uint16_t> keys;    // [count, key_length]
  std::vector<uint16_t> values;  // [count, value_length]
  float soft_cap = 0.0f;
  std::vector<float> sinks = {};  // [head_count], or none
};

inline AttentionCase MakeAttentionCase(uint32_t head_count, uint32_t key_length,
                                       uint32_t value_length, uint32_t first_position,
                                       uint32_t count, uint64_t seed) {
  Numbers numbers(seed);
  AttentionCase made = {.head_count = head_count,
                        .key_length = key_length,
                        .value_length = value_length,
                        .first_position = first_position,
                        .count = count,
                        .queries = {},
                        .keys = {},
                        .values = {}};
  made.queries = numbers.Gaussians(size_t{head_count} * key_length, 2.0f);
  for (size_t i = 0; i < size_t{count} * key_length; ++i) {
    made.keys.push_back(FloatToHalf(numbers.Gaussian(1.0f)));
  }
  for (size_t i = 0; i < size_t{count} * value_length; ++i) {
    made.values.push_back(FloatToHalf(numbers.Gaussian(1.0f)));
  }
  return made;
}

enum class CutInto { kWholeChunks, kSingles, kRandom };

class StoredKeys {
 public:
  // The keys of a page begin `keys_at` halves past a multiple of 64 bytes.
  StoredKeys(const AttentionCase& from, CutInto cut, uint64_t seed, size_t keys_at = 3)
      : case_(from), keys_at_(keys_at) {
    Numbers numbers(seed);
    const size_t page_halves =
        32 + keys_at + kChunk * (size_t{from.key_length} + from.value_length);
    for (uint32_t done = 0; done < from.count;) {
      const uint32_t position = from.first_position + done;
      uint32_t count = std::min(kChunk - position % kChunk, from.count - done);
      uint32_t slot = position % kChunk;
      if (cut == CutInto::kSingles) count = 1;
      if (cut == CutInto::kRandom) count = 1 + numbers.Below(count);
      if (cut != CutInto::kWholeChunks) slot = numbers.Below(kChunk - count + 1);
      pages_.emplace_back(page_halves, uint16_t{0x7e00});  // NaN where nothing is stored
      uint16_t* page = pages_.back().data();
      page += (64 - reinterpret_cast<uintptr_t>(page) % 64) % 64 / sizeof(uint16_t);
      std::copy_n(from.keys.begin() + size_t{done} * from.key_length, count * from.key_length,
                  page + keys_at_ + slot * from.key_length);
      std::copy_n(from.values.begin() + size_t{done} * from.value_length, count * from.value_length,
                  page + values_at() + slot * from.value_length);
      runs_.push_back({page, slot, count});
      done += count;
    }
  }

  AttentionTask Task(float* outputs) const {
    // 1 / sqrt(key_length), but for roundings
    float scale = 1.0f;
    while (scale * scale * static_cast<float>(case_.key_length) > 1.0f) scale *= 0.96875f;
    return {.queries = case_.queries.data(),
            .outputs = outputs,
            .head_count = case_.head_count,
            .key_length = case_.key_length,
            .value_length = case_.value_length,
            .scale = scale,
            .first_position = case_.first_position,
            .runs = runs_.data(),
            .run_count = static_cast<uint32_t>(runs_.size()),
            .keys_at = keys_at_,
            .values_at = values_at(),
            .soft_cap = case_.soft_cap,
            .sinks = case_.sinks.empty() ? nullptr : case_.sinks.data()};
  }

 private:
  size_t values_at() const { return keys_at_ + size_t{kChunk} * case_.key_length; }

  const AttentionCase& case_;
  const size_t keys_at_;  // in halves
  std::vector<std::vector<uint16_t>> pages_;
  std::vector<KeyRun> runs_;
};

}  // namespace outrider
