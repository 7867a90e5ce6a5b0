// What a device drafts with: a small model on an engine, or what the text has said before. Every
// conversation has a drafter of its own; those of a model share its engine, and take turns.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/device/flash_turns.h"
#include "common/base/mutex.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/kernels.h"
#include "common/model/weights/resident_weights.h"
#include "common/speculation/drafting/drafter.h"
#include "common/tokens/sampling.h"

namespace outrider {

// As a draft's model: what the text has said before (ngram_drafter.h). A file of that name is
// ./ngram.
inline constexpr std::string_view kNgramDraft = "ngram";

class Draft {
 public:
  struct Limits {
    uint32_t context_length;  // the target's: the model's own may be less, and then it drafts up to
                              // there
    uint32_t node_count_max;
    uint32_t conversation_count_max;
  };

  // One without a model, for a vocabulary of so many tokens.
  Draft(const Limits& limits, int32_t vocabulary_size);

  // What the engine of such a model is made for.
  static EngineOptions OptionsFor(const Limits& limits, const ModelFile& model);

  // On an engine of that name (torch/load_engine.h), which computes on `pool` where it is this processor, and on one
  // thread if it is so small that more would only wait for one another.
  static absl::StatusOr<std::unique_ptr<Draft>> Load(const std::string& path,
                                                     const std::string& engine,
                                                     const Limits& limits, const Kernels& kernels,
                                                     std::shared_ptr<ThreadPool> pool,
                                                     const LoadProgress& progress);
  // On this processor, where it computes when `turns`, which outlive it, let it.
  static absl::StatusOr<std::unique_ptr<Draft>> Load(const std::string& path, const Limits& limits,
                                                     const Kernels& kernels,
                                                     std::shared_ptr<ThreadPool> pool,
                                                     FlashTurns& turns,
                                                     const LoadProgress& progress);

  // For one conversation, which the draft outlives. InvalidArgument for sampling that cannot be,
  // ResourceExhausted when there are as many conversations as there may be.
  absl::StatusOr<std::unique_ptr<Drafter>> NewDrafter(const SamplingOptions& sampling);

  int32_t vocabulary_size() const { return vocabulary_size_; }
  // Whether it computes on the processor that everything else here runs on.
  bool on_host_processor() const { return engine_ == nullptr || engine_->info().on_host_processor; }
  // Of its model; 0: it has none.
  uint64_t content_hash() const { return engine_ == nullptr ? 0 : engine_->info().content_hash; }

 private:
  static std::unique_ptr<Draft> Over(const Limits& limits, std::shared_ptr<ThreadPool> pool,
                                     std::unique_ptr<Engine> engine);

  const Limits limits_;
  int32_t vocabulary_size_;
  std::shared_ptr<ThreadPool> pool_;  // a target's too, where they take turns
  std::unique_ptr<Engine> engine_;    // null: there is no model
  Mutex turn_;                        // at the engine
};

}  // namespace outrider
