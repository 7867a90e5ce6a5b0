#include "common/engine/host_watch.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/models/model_file.h"
#include "common/model/layer_observer.h"

namespace outrider {

HostWatch::HostWatch(const ModelSpec& spec, const EngineInfo& info, HostSource source)
    : spec_(spec),
      info_(info),
      source_(std::move(source)),
      rows_(info.row_count_max),
      dropped_(std::make_unique<bool[]>(info.row_count_max)) {
  std::iota(rows_.begin(), rows_.end(), 0u);
}

absl::Status HostWatch::AttachExits(const TrainedExits& exits, const std::string& path,
                                    const ExitOptions& options, ExitSink& sink) {
  if (weights_ == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model,
                              ModelFile::Open(source_.path));
    OUTRIDER_ASSIGN_OR_RETURN(
        weights_, ResidentWeights::Load(*model, spec_, source_.path, source_.pool, nullptr));
  }
  OUTRIDER_ASSIGN_OR_RETURN(exits_, ExitHeads::Create(exits, path,
                                                      {.spec = spec_,
                                                       .info = info_,
                                                       .head = weights_->head(),
                                                       .kernels = source_.kernels,
                                                       .pool = source_.pool},
                                                      options, sink));
  return absl::OkStatus();
}

void HostWatch::SwitchExit(uint32_t exit, bool on) {
  OUTRIDER_CHECK(exits_ != nullptr, "exits are attached before they are switched");
  exits_->Switch(exit, on);
}

void HostWatch::BeginRun(const EngineRun& run) {
  run_ = &run;
  if (exits_ != nullptr) exits_->BeginRun(run.walks);
}

bool HostWatch::ExitsLook(uint32_t layer) const {
  return exits_ != nullptr && !run_->walks.empty() && layer + 1 < spec_.layer_count() &&
         exits_->StandAfter(layer);
}

bool HostWatch::Wants(uint32_t layer) const {
  return ExitsLook(layer) ||
         std::ranges::find(run_->hidden, layer, &HiddenAfterLayer::layer) != run_->hidden.end();
}

void HostWatch::See(uint32_t layer, std::span<const float> states) {
  for (const HiddenAfterLayer& asked : run_->hidden) {
    if (asked.layer == layer) std::ranges::copy(states, asked.out.begin());
  }
  if (!ExitsLook(layer)) return;
  const uint32_t width = spec_.embedding_length;
  const size_t row_count = states.size() / width;
  const auto rows = std::span<const uint32_t>(rows_).first(row_count);
  LayerView view(rows, states.data(), width, width, {dropped_.get(), row_count});
  exits_->AfterLayer(layer, view);
}

}  // namespace outrider
