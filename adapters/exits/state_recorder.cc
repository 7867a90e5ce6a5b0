#include "adapters/exits/state_recorder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/status.h"
#include "common/kernels/attention.h"

namespace outrider {
namespace {

constexpr uint32_t kChunkRows = 256;
constexpr uint32_t kLogitRows = 64;

}  // namespace

StateRecorder::StateRecorder(ModelSpec spec, std::vector<uint32_t> layers)
    : spec_(std::move(spec)), recorder_(std::move(layers), spec_.embedding_length, kChunkRows) {}

absl::StatusOr<std::unique_ptr<StateRecorder>> StateRecorder::Load(
    const ModelFile& model, const std::string& path, std::vector<uint32_t> layers,
    const Kernels& kernels, ThreadPool& pool, const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(ModelSpec spec, ModelSpec::From(model, path));
  std::unique_ptr<StateRecorder> made(new StateRecorder(std::move(spec), std::move(layers)));
  StateRecorder& recorder = *made;
  OUTRIDER_ASSIGN_OR_RETURN(recorder.weights_,
                            ResidentWeights::Load(model, recorder.spec_, path, pool, progress));
  const uint32_t context_length = recorder.spec_.context_length;
  OUTRIDER_ASSIGN_OR_RETURN(recorder.cache_,
                            KvCache::Create(recorder.spec_, context_length / kChunk + 1));
  recorder.sequence_ = std::make_unique<KvSequence>(*recorder.cache_, context_length, 0);
  OUTRIDER_ASSIGN_OR_RETURN(
      recorder.transformer_,
      Transformer::Create(recorder.spec_, *recorder.weights_, recorder.cache_->layout(), kernels,
                          pool, kChunkRows, kLogitRows));
  OUTRIDER_ASSIGN_OR_RETURN(Batch batch,
                            Batch::Create(kChunkRows, context_length, recorder.spec_.window));
  recorder.batch_ = std::make_unique<Batch>(std::move(batch));
  return made;
}

absl::Status StateRecorder::Read(std::span<const TokenId> tokens,
                                 std::span<const std::span<float>> hidden,
                                 std::span<float> logits) {
  if (tokens.size() > spec_.context_length) {
    return InvalidArgument("a text of ", tokens.size(), " tokens does not fit into the context of ",
                           spec_.context_length);
  }
  sequence_->Clear();
  for (size_t first = 0; first < tokens.size(); first += kChunkRows) {
    const auto chunk = tokens.subspan(first, std::min<size_t>(kChunkRows, tokens.size() - first));
    OUTRIDER_RETURN_IF_ERROR(sequence_->Reserve(static_cast<uint32_t>(chunk.size()), 0));
    batch_->Clear();
    batch_->AddChain(*sequence_, chunk);
    OUTRIDER_RETURN_IF_ERROR(transformer_->Forward(*batch_, &recorder_));
    sequence_->Advance(static_cast<uint32_t>(chunk.size()));
    CopyChunk(first, hidden, logits);
  }
  return absl::OkStatus();
}

void StateRecorder::CopyChunk(size_t first, std::span<const std::span<float>> hidden,
                              std::span<float> logits) {
  for (size_t i = 0; i < hidden.size(); ++i) {
    std::ranges::copy(recorder_.hidden(i), hidden[i].data() + first * spec_.embedding_length);
  }
  const auto row_count = static_cast<uint32_t>(transformer_->rows().size());
  for (uint32_t row = 0; row < row_count; row += kLogitRows) {
    std::vector<uint32_t> band(std::min(kLogitRows, row_count - row));
    std::iota(band.begin(), band.end(), row);
    const LogitRows projected = transformer_->Project(band);
    for (uint32_t i = 0; i < band.size(); ++i) {
      std::ranges::copy(projected.row(i),
                        logits.data() + (first + row + i) * spec_.vocabulary_size);
    }
  }
}

}  // namespace outrider
