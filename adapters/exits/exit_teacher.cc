#include "adapters/exits/exit_teacher.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <span>

#include "common/base/check.h"

namespace outrider {
namespace {

std::span<float> Rows(at::Tensor& tensor, int64_t first, int64_t count) {
  const int64_t length = tensor.size(1);
  return {tensor.data_ptr<float>() + first * length, static_cast<size_t>(count * length)};
}

}  // namespace

ExitTeacher::ExitTeacher(StateRecorder& recorder, size_t exit_count, const TorchTransformer* draft,
                         int64_t candidate_count)
    : recorder_(recorder),
      exit_count_(exit_count),
      draft_(draft),
      candidate_count_(candidate_count) {}

ExitRows ExitTeacher::Read(const RowBatch& batch) {
  const at::NoGradGuard no_grad;
  const ModelSpec& spec = recorder_.spec();
  const int64_t count = batch.tokens.numel();
  std::vector<at::Tensor> hidden;
  for (size_t exit = 0; exit < exit_count_; ++exit) {
    hidden.push_back(at::zeros({count, spec.embedding_length}, at::kFloat));
  }
  at::Tensor logits = at::zeros({count, spec.vocabulary_size}, at::kFloat);
  {
    const MutexLock lock(mu_);
    ReadTexts(batch.To(at::kCPU), hidden, logits);
  }
  const at::Device& device = batch.tokens.device();
  for (at::Tensor& states : hidden) states = states.to(device);
  logits = logits.to(device);

  const at::Tensor kept = batch.targets.flatten().ne(TokenRows::kNoTarget).nonzero().squeeze(1);
  ExitRows rows;
  for (const at::Tensor& states : hidden) rows.hidden.push_back(states.index_select(0, kept));
  rows.candidates = Candidates(batch, logits).index_select(0, kept);
  rows.logits = logits.index_select(0, kept);
  return rows;
}

// Every text of every row by itself: texts do not see each other.
void ExitTeacher::ReadTexts(const RowBatch& batch, std::vector<at::Tensor>& hidden,
                            at::Tensor& logits) {
  const int64_t length = batch.tokens.size(1);
  const int64_t* const tokens = batch.tokens.data_ptr<int64_t>();
  const int64_t* const documents = batch.documents.data_ptr<int64_t>();
  const auto row_ends = [length](int64_t at) { return at % length == 0; };
  for (int64_t first = 0, end = 0; first < batch.tokens.numel(); first = end) {
    do ++end;
    while (!row_ends(end) && documents[end] == documents[first]);
    const std::vector<TokenId> text(tokens + first, tokens + end);
    std::vector<std::span<float>> states;
    for (at::Tensor& state : hidden) states.push_back(Rows(state, first, end - first));
    // Rows are no longer than the context, and weights in memory cannot fail.
    OUTRIDER_CHECK_OK(recorder_.Read(text, states, Rows(logits, first, end - first)));
  }
}

at::Tensor ExitTeacher::Candidates(const RowBatch& batch, const at::Tensor& logits) const {
  if (draft_ == nullptr) return std::get<1>(logits.topk(candidate_count_));
  TorchForwardOptions options;
  options.documents = batch.documents;
  const at::Tensor drafted = draft_->Forward(batch.tokens, options).logits.flatten(0, 1);
  return std::get<1>(drafted.topk(candidate_count_));
}

}  // namespace outrider
