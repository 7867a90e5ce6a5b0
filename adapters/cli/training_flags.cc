#include "adapters/cli/training_flags.h"

#include <algorithm>
#include <cstdio>
#include <thread>

#include "CLI/CLI.hpp"
#include "adapters/training/torch_setup.h"
#include "common/base/atomic_file.h"
#include "common/base/check.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "common/formats/models/content_hash.h"

namespace outrider {
namespace {

constexpr uint64_t kWarmUpShare = 50;  // of the steps, one in so many
constexpr double kFloorShare = 0.1;    // of the learning rate

uint32_t RoundedUp(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

}  // namespace

std::vector<CLI::Option*> AddShapeFlags(CLI::App& command, ShapeFlags& flags) {
  const auto add = [&command](const char* name, uint32_t& value, const char* help) {
    return command.add_option(name, value, help)->check(AboveZero())->group("Shape");
  };
  return {add("--embedding", flags.embedding_length, "Length of a hidden state")
              ->capture_default_str()
              ->envname("OUTRIDER_EMBEDDING"),
          add("--layers", flags.layer_count, "Layers")
              ->capture_default_str()
              ->envname("OUTRIDER_LAYERS"),
          add("--heads", flags.head_count, "Query heads of a layer; they share the embedding")
              ->capture_default_str()
              ->envname("OUTRIDER_HEADS"),
          add("--kv-heads", flags.kv_head_count, "Key and value heads; as many when absent")
              ->envname("OUTRIDER_KV_HEADS"),
          add("--feed-forward", flags.feed_forward_length,
              "Inner length of a feed-forward; 8/3 of the embedding when absent")
              ->envname("OUTRIDER_FEED_FORWARD"),
          add("--context", flags.context_length, "Positions, and tokens of a row of text")
              ->capture_default_str()
              ->envname("OUTRIDER_CONTEXT")};
}

absl::StatusOr<Hyperparameters> LlamaOf(const ShapeFlags& flags, uint32_t vocabulary_size,
                                        const std::string& name) {
  const uint32_t heads = flags.head_count;
  const uint32_t kv_heads = flags.kv_head_count == 0 ? heads : flags.kv_head_count;
  if (flags.embedding_length % (2 * heads) != 0) {
    return InvalidArgument("--embedding ", flags.embedding_length,
                           " does not give each of --heads ", heads,
                           " an even length; choose a multiple of ", 2 * heads);
  }
  if (heads % kv_heads != 0) {
    return InvalidArgument("--heads ", heads, " is no multiple of --kv-heads ", kv_heads);
  }
  Hyperparameters model;
  model.architecture = Architecture::kLlama;
  model.name = name;
  model.context_length = flags.context_length;
  model.embedding_length = flags.embedding_length;
  model.block_count = flags.layer_count;
  model.feed_forward_length = flags.feed_forward_length != 0
                                  ? flags.feed_forward_length
                                  : RoundedUp(flags.embedding_length * 8 / 3, 32);
  model.vocabulary_size = vocabulary_size;
  model.head_count.assign(flags.layer_count, heads);
  model.head_count_kv.assign(flags.layer_count, kv_heads);
  model.key_length = model.value_length = flags.embedding_length / heads;
  model.rope = {.style = RopeStyle::kInterleaved, .dimension_count = model.key_length};
  model.tied_embeddings = true;
  return model;
}

void AddTrainingFlags(CLI::App& command, TrainingFlags& flags) {
  command
      .add_option("--out", flags.out,
                  "The model, a GGUF file; the loss curve goes beside it as .csv and .svg")
      ->required()
      ->envname("OUTRIDER_OUT");
  command.add_option("--type", flags.type, "f16 or f32: how the matrices are stored")
      ->check(CLI::IsMember({"f16", "f32"}))
      ->capture_default_str()
      ->envname("OUTRIDER_TYPE");
  command
      .add_option("--steps", flags.steps,
                  "Steps of AdamW; when absent, as many as read the text once")
      ->check(AboveZero())
      ->envname("OUTRIDER_STEPS");
  command.add_option("--batch", flags.batch, "Rows of a step")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_BATCH");
  command
      .add_option("--learning-rate", flags.learning_rate,
                  "The highest; it rises over the first 2 % of the steps and falls along a cosine "
                  "to a tenth")
      ->check(AboveZero())
      ->capture_default_str()
      ->envname("OUTRIDER_LEARNING_RATE");
  command.add_option("--seed", flags.seed, "Decides the first weights and the order of the text")
      ->capture_default_str()
      ->envname("OUTRIDER_SEED");
  command.add_option("--threads", flags.threads, "Threads; all processors when absent")
      ->check(AboveZero())
      ->envname("OUTRIDER_THREADS");
}

uint32_t ThreadsOf(const TrainingFlags& flags) {
  if (flags.threads > 0) return static_cast<uint32_t>(flags.threads);
  return std::max(1u, std::thread::hardware_concurrency());
}

absl::Status PrepareToTrain(const TrainingFlags& flags) {
  OUTRIDER_RETURN_IF_ERROR(AtomicFile::Create(flags.out).status());
  PrepareTorch();
  if (TrainingDevice().is_cpu() && !HasOpenBlas()) {
    std::fprintf(stderr,
                 "libtorch multiplies with the reference BLAS here, many times slower than "
                 "with OpenBLAS: apt-get install libopenblas0-pthread\n");
  }
  return absl::OkStatus();
}

TrainerOptions OptionsOf(const TrainingFlags& flags, const TokenRows& rows, ThreadPool& pool) {
  TrainerOptions options;
  options.rows_per_step = flags.batch;
  options.schedule.steps =
      flags.steps > 0 ? flags.steps : (rows.row_count() + flags.batch - 1) / flags.batch;
  options.schedule.warm_up_steps = options.schedule.steps / kWarmUpShare;
  options.schedule.peak = flags.learning_rate;
  options.schedule.floor = flags.learning_rate * kFloorShare;
  options.bfloat16_products = HasBfloat16Products(TrainingDevice());
  options.pool = &pool;
  return options;
}

TensorType TypeOf(const TrainingFlags& flags) {
  return flags.type == "f32" ? TensorType::kF32 : TensorType::kF16;
}

TokenRows Packed(std::span<const std::vector<TokenId>> documents, const Tokenizer& tokenizer,
                 size_t row_length, uint64_t seed) {
  return TokenRows(documents, tokenizer.spec().bos, tokenizer.spec().eos, row_length, seed);
}

uint64_t HashOf(std::span<const std::vector<TokenId>> documents) {
  ContentHash hash;
  for (const std::vector<TokenId>& document : documents) {
    hash.Add(document.size());
    hash.Add(HashBytes(std::as_bytes(std::span(document)), 0));
  }
  return hash.value();
}

}  // namespace outrider
