#include "server/loaded_target.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/engine/engine.h"
#include "common/engine/engine_target.h"
#include "common/formats/models/model_file.h"
#include "common/kernels/isa.h"
#include "common/kernels/kernels.h"
#include "common/text/tokenizer_source.h"
#include "common/torch/load_engine.h"
#include "server/exits.h"
#include "server/model_log.h"

namespace outrider {
namespace {

constexpr uint32_t kDefaultContext = 4096;
// 256 tokens of a prompt, and 64 rows of others' passes: a prompt of 512 is two reads of the weights
// whoever writes beside it.
constexpr uint32_t kRunRows = 256 + 64;

// What a log wants of a model that takes its time: a line a quarter.
class LoadLog {
 public:
  LoadLog(const std::string& path, EventLog& log) : path_(path), log_(log) {}

  void Progress(uint64_t done, uint64_t total) {
    const uint64_t quarter = total > 0 ? 4 * done / total : 4;
    if (quarter <= quarter_) return;
    quarter_ = quarter;
    if (RealClock().Now() < begin_ + std::chrono::seconds(1)) return;
    const uint64_t percent = 25 * quarter;
    log_.Say("loading", {{"file", path_}, {"percent", percent}},
             Concat("loading ", path_, ": ", percent, " %"));
  }

 private:
  const std::string& path_;
  EventLog& log_;
  const MonotonicTime begin_ = RealClock().Now();
  uint64_t quarter_ = 0;
};

absl::StatusOr<std::unique_ptr<Target>> LoadTarget(const ServerFlags& flags, ThreadPool& pool,
                                                   EventLog& event_log) {
  OUTRIDER_ASSIGN_OR_RETURN(
      const Isa isa,
      SelectIsa(flags.isa ? std::optional<std::string_view>(*flags.isa) : std::nullopt));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> model, ModelFile::Open(flags.model));
  SayNotices(*model, flags.model, event_log);
  const EngineOptions options = {.context_length = flags.context.value_or(std::min(
                                     model->hyperparameters().context_length, kDefaultContext)),
                                 .sequence_count_max = flags.sessions,
                                 .node_count_max = flags.pass_nodes,
                                 .row_count_max = kRunRows,
                                 .kv_bytes = flags.kv_memory};
  LoadLog log(flags.model, event_log);
  const LoadProgress progress = [&](uint64_t done, uint64_t total, std::string_view) {
    log.Progress(done, total);
  };
  OUTRIDER_ASSIGN_OR_RETURN(
      std::unique_ptr<Engine> engine,
      LoadEngine(flags.device, *model, flags.model, options, KernelsFor(isa), pool, progress));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<EngineTarget> target,
                            EngineTarget::Create(std::move(engine)));
  OUTRIDER_RETURN_IF_ERROR(AttachExits(flags.exits, flags.model, *target));
  return target;
}

}  // namespace

absl::StatusOr<LoadedTarget> LoadedTarget::Load(const ServerFlags& flags, EventLog& log) {
  LoadedTarget loaded;
  OUTRIDER_ASSIGN_OR_RETURN(loaded.tokenizer_, OpenTokenizer(flags.model));
  OUTRIDER_ASSIGN_OR_RETURN(loaded.pool_, ThreadPool::Create(flags.threads));
  OUTRIDER_ASSIGN_OR_RETURN(loaded.target_, LoadTarget(flags, *loaded.pool_, log));
  return loaded;
}

}  // namespace outrider
