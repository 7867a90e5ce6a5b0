#include "adapters/exits/state_recorder.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/engine/cpu_engine.h"

namespace outrider {

absl::StatusOr<std::unique_ptr<StateRecorder>> StateRecorder::Load(
    const ModelFile& model, const std::string& path, std::vector<uint32_t> layers,
    const Kernels& kernels, ThreadPool& pool, const LoadProgress& progress) {
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<CpuEngine> engine,
      LoadCpuEngine(model, path, {.node_count_max = 0}, kernels, pool, progress));
  OUTRIDER_ASSIGN_OR_RETURN(const SequenceId text, engine->Open());
  return std::unique_ptr<StateRecorder>(
      new StateRecorder(std::move(engine), text, std::move(layers)));
}

StateRecorder::StateRecorder(std::unique_ptr<Engine> engine, SequenceId text,
                             std::vector<uint32_t> layers)
    : engine_(std::move(engine)), text_(text), layers_(std::move(layers)) {}

absl::Status StateRecorder::Read(std::span<const TokenId> tokens,
                                 std::span<const std::span<float>> hidden,
                                 std::span<float> logits) {
  const uint32_t context_length = engine_->info().context_length;
  if (tokens.size() > context_length) {
    return InvalidArgument("a text of ", tokens.size(), " tokens does not fit into the context of ",
                           context_length);
  }
  const size_t embedding = spec().embedding_length;
  const size_t vocabulary = spec().vocabulary_size;
  engine_->Truncate(text_, 0);
  for (size_t first = 0; first < tokens.size();) {
    const auto count = static_cast<uint32_t>(
        std::min<size_t>(engine_->info().row_count_max, tokens.size() - first));
    std::vector<HiddenAfterLayer> states;
    for (size_t i = 0; i < hidden.size(); ++i) {
      states.push_back({layers_[i], hidden[i].subspan(first * embedding, count * embedding)});
    }
    std::vector<LogitsOfRow> rows;
    for (uint32_t row = 0; row < count; ++row) {
      rows.push_back({row, logits.subspan((first + row) * vocabulary, vocabulary)});
    }
    const RunPart part = {.sequence = text_, .chain = tokens.subspan(first, count)};
    EngineRun run = {.parts = {&part, 1}, .logits = rows, .hidden = states};
    OUTRIDER_RETURN_IF_ERROR(engine_->Reserve(text_, count, 0));
    OUTRIDER_RETURN_IF_ERROR(engine_->Run(run));
    engine_->Commit(text_, count, {});
    first += count;
  }
  return absl::OkStatus();
}

}  // namespace outrider
