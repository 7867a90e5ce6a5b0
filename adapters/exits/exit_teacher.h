// Rows of text as exits learn from them: what the target's core has in hand after each of their
// layers, what it says in the end, and which tokens a draft would propose.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "adapters/exits/state_recorder.h"
#include "adapters/training/trainer.h"
#include "common/base/mutex.h"
#include "common/torch/torch_transformer.h"

namespace outrider {

// Of the tokens of a batch that have a target, one row each.
struct ExitRows {
  std::vector<at::Tensor> hidden;  // by exit, [rows, embedding]
  at::Tensor logits;               // [rows, vocabulary]: the target's
  at::Tensor candidates;           // [rows, count], token ids, the likeliest first
};

class ExitTeacher {
 public:
  // Both outlive it. Without a draft the candidates are the target's own likeliest tokens.
  ExitTeacher(StateRecorder& recorder, size_t exit_count, const TorchTransformer* draft,
              int64_t candidate_count);

  // Where the batch lies, and the draft. No gradient leads into it. From any thread; they take
  // turns.
  ExitRows Read(const RowBatch& batch);

 private:
  void ReadTexts(const RowBatch& batch, std::vector<at::Tensor>& hidden, at::Tensor& logits);
  at::Tensor Candidates(const RowBatch& batch, const at::Tensor& logits) const;

  Mutex mu_;  // held while a text is read
  StateRecorder& recorder_;
  const size_t exit_count_;
  const TorchTransformer* const draft_;
  const int64_t candidate_count_;
};

}  // namespace outrider
