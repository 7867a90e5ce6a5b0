// What our own core computes on the way through a text: hidden states after some layers, and the
// logits in the end. Exits are trained on these, so that training sees what inference sees:
// quantised products, halves in the cache and all.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<StateRecorder> recorder,
//                             StateRecorder::Load(*model, path, {4, 5, 6}, kernels, *pool,
//                             progress));
//   OUTRIDER_RETURN_IF_ERROR(recorder->Read(tokens, hidden, logits));
//
// Memory:  an engine for one text at a time, a chunk of it in a run.
// Threads: one call at a time; it shares its work out over the pool.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/thread_pool.h"
#include "common/engine/engine.h"
#include "common/formats/models/model_file.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/kernels/kernels.h"
#include "common/model/model_spec.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

class StateRecorder {
 public:
  // `layers` rise and end before the last one. `path` starts every message.
  static absl::StatusOr<std::unique_ptr<StateRecorder>> Load(
      const ModelFile& model, const std::string& path, std::vector<uint32_t> layers,
      const Kernels& kernels, ThreadPool& pool, const LoadProgress& progress);

  const ModelSpec& spec() const { return engine_->spec(); }
  uint64_t content_hash() const { return engine_->info().content_hash; }

  // Reads a text of its own, no longer than the context. Into hidden[i], [tokens, embedding], the
  // states after layers[i], before any norm; into `logits`, [tokens, vocabulary], what the model
  // says after each token.
  absl::Status Read(std::span<const TokenId> tokens, std::span<const std::span<float>> hidden,
                    std::span<float> logits);

 private:
  StateRecorder(std::unique_ptr<Engine> engine, SequenceId text, std::vector<uint32_t> layers);

  const std::unique_ptr<Engine> engine_;
  const SequenceId text_;
  const std::vector<uint32_t> layers_;
};

}  // namespace outrider
