// What a pass moves and computes on a GPU, counted by what kernels are asked for: for judging what was
// measured, and what cannot be had.
//
//   const PassCosts costs = CountPass(kLlama2_7B, gpu::PanelKind::kQ4_0, {16, 1024});
//   costs.weight_bytes / bandwidth        // the floor: seconds that reading the weights takes
//
// Of models like Llama: a norm before either part of a layer, a gated feed-forward part, no biases,
// all matrices of one type.
#pragma once

#include <cstdint>

#include "common/cuda/kernels/row_kernels.h"

namespace outrider {

struct LlamaShape {
  uint32_t layer_count;
  uint32_t embedding_length;
  uint32_t head_count;
  uint32_t kv_head_count;
  uint32_t head_length;
  uint32_t fed_length;  // between `up` and `down`
  uint32_t vocabulary_size;
};

inline constexpr LlamaShape kLlama2_7B = {.layer_count = 32,
                                          .embedding_length = 4096,
                                          .head_count = 32,
                                          .kv_head_count = 32,
                                          .head_length = 128,
                                          .fed_length = 11008,
                                          .vocabulary_size = 32000};

struct PassRows {
  uint32_t row_count;   // a root and its nodes, each with a greedy choice of its own
  uint32_t seen_count;  // positions that each of them sees
};

struct PassCosts {
  // Of all matrices, as they lie on the device, and how often kernels ask for each of these: the
  // first time of memory, and then of the cache.
  uint64_t weight_bytes = 0;
  uint32_t weight_reads = 0;
  // What kernels leave for one another of the rows, and read of that; where it fits it is in the
  // cache.
  uint64_t row_bytes = 0;
  // Keys and values that are seen, each once; and as kernels ask for them, row by row and head by
  // head.
  uint64_t kv_bytes = 0;
  uint64_t kv_asked_bytes = 0;
  // By tensor cores, which multiply whole tiles of rows: in int8, or in bfloat16, where floats come
  // in terms.
  uint64_t tile_multiplications = 0;
  // Fused multiply-adds of the ordinary units: of float weights and of attention; and links of the
  // chains that add up blocks of quantised ones, a conversion, a product and such an addition each.
  uint64_t float_multiplications = 0;
  uint64_t chain_links = 0;
  // Of the ordinary units too: what it takes to come by these terms.
  uint64_t split_operations = 0;
  uint32_t kernel_count = 0;
};

PassCosts CountPass(const LlamaShape& shape, gpu::PanelKind weights, const PassRows& rows);

// What an exit scores (common/cuda/device_exits.h), whose adapter is F32's.
struct ExitShape {
  uint32_t rank;
  uint32_t frequent_count;  // tokens
  uint32_t round_count;     // candidates of a run besides
};

inline constexpr ExitShape kUsualExit = {.rank = 64, .frequent_count = 1024, .round_count = 256};

// Of one exit, beside the pass: rows of one band. What a pass itself waits for is a copy of the rows.
PassCosts CountExit(const LlamaShape& shape, gpu::PanelKind weights, const ExitShape& exit,
                    uint32_t row_count);
// Read and written once a run, for the round's tokens: memory gives 32 bytes at a time.
uint64_t GatheredBytesOfRound(const LlamaShape& shape, gpu::PanelKind weights,
                              const ExitShape& exit);

// Llama-2-7B in BF16, in F16 and in Q4_0, passes of 1, 16 and 64 rows: in Markdown, beside what an H100 takes
// for it at its peaks.
void PrintPassCosts();
// Five exits beside those.
void PrintExitCosts();

}  // namespace outrider
