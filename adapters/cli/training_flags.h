// The flags that all commands share which train a model from text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "adapters/text/token_rows.h"
#include "adapters/training/trainer.h"
#include "common/formats/models/hyperparameters.h"
#include "common/formats/tensors/tensor_type.h"
#include "common/text/tokenizer.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace outrider {

// Of a model that begins from nothing.
struct ShapeFlags {
  uint32_t embedding_length = 320;
  uint32_t layer_count = 8;
  uint32_t head_count = 5;
  uint32_t kv_head_count = 0;        // 0: as many as heads
  uint32_t feed_forward_length = 0;  // 0: 8/3 of the embedding, to the next 32
  uint32_t context_length = 512;
};

// Returns the options, for the caller to say what they exclude.
std::vector<CLI::Option*> AddShapeFlags(CLI::App& command, ShapeFlags& flags);

// A Llama with tied embeddings. InvalidArgument when the numbers do not fit each other.
absl::StatusOr<Hyperparameters> LlamaOf(const ShapeFlags& flags, uint32_t vocabulary_size,
                                        const std::string& name);

struct TrainingFlags {
  std::string out;
  std::string type = "f16";
  uint64_t steps = 0;  // 0: all rows once
  uint32_t batch = 8;  // rows
  double learning_rate = 1e-3;
  uint64_t seed = 1;
  int threads = 0;  // 0: as many as there are processors
};

void AddTrainingFlags(CLI::App& command, TrainingFlags& flags);

// The processors of this machine, unless the user said how many.
uint32_t ThreadsOf(const TrainingFlags& flags);

// Checks that the output can be written, before hours are spent on it, and sets libtorch up.
absl::Status PrepareToTrain(const TrainingFlags& flags);

// AdamW along a cosine that ends at a tenth of the rate after `flags.steps`, which are set to one
// epoch of the rows when they were not given; passes share the pool.
TrainerOptions OptionsOf(const TrainingFlags& flags, const TokenRows& rows, ThreadPool& pool);

TensorType TypeOf(const TrainingFlags& flags);

TokenRows Packed(std::span<const std::vector<TokenId>> documents, const Tokenizer& tokenizer,
                 size_t row_length, uint64_t seed);

// A hash of what is trained on, for the checkpoint to tell one run from another.
uint64_t HashOf(std::span<const std::vector<TokenId>> documents);

}  // namespace outrider
