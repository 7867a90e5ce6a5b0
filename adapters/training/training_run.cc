#include "adapters/training/training_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "adapters/training/checkpoint.h"
#include "adapters/training/loss_curve.h"
#include "common/base/clock.h"
#include "common/base/interrupt.h"
#include "common/base/progress_bar.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

constexpr auto kCheckpointEvery = std::chrono::minutes(3);
constexpr uint64_t kValidations = 50;  // of a run, about
constexpr uint64_t kValidationTokens = 16384;
constexpr uint64_t kRowsPerValidated = 4;  // are learned from, so that short runs mostly learn

std::string CheckpointPath(const std::string& out) {
  return out + ".checkpoint";
}

class Runner {
 public:
  Runner(const TrainingRun& run, std::span<NamedParameter> parameters, at::Device device,
         TokenRows& rows, TokenRows* validation, const Loss& loss)
      : run_(run),
        parameters_(parameters),
        validation_(validation),
        tokens_per_step_(uint64_t{run.options.rows_per_step} * rows.row_length()),
        trainer_(parameters, device, rows, loss, run.options) {}

  absl::Status Run() {
    OUTRIDER_RETURN_IF_ERROR(Resume());
    CatchInterrupt();
    const uint64_t steps = run_.options.schedule.steps;
    ProgressBar bar("training", (steps - step()) * tokens_per_step_, ProgressUnit::kTokens);
    saved_ = RealClock().Now();
    while (step() < steps) {
      OUTRIDER_RETURN_IF_ERROR(trainer_.Step());
      OUTRIDER_RETURN_IF_ERROR(Validate());
      bar.Advance(tokens_per_step_, Figures());
      if (Interrupted()) return SaveAndStop();
      if (RealClock().Now() - saved_ >= kCheckpointEvery) OUTRIDER_RETURN_IF_ERROR(Save());
    }
    bar.Finish();
    return Save();
  }

 private:
  uint64_t step() const { return trainer_.state().step; }

  absl::Status Resume() {
    const std::string path = CheckpointPath(run_.out);
    std::error_code ignored;
    if (!std::filesystem::exists(path, ignored)) return absl::OkStatus();
    OUTRIDER_RETURN_IF_ERROR(
        LoadCheckpoint(path, run_.asked, parameters_, trainer_.mutable_state()));
    std::fprintf(stderr, "%s: going on after step %llu of %llu\n", path.c_str(),
                 static_cast<unsigned long long>(step()),
                 static_cast<unsigned long long>(run_.options.schedule.steps));
    return absl::OkStatus();
  }

  absl::Status Validate() {
    const uint64_t steps = run_.options.schedule.steps;
    if (validation_ == nullptr) return absl::OkStatus();
    const uint64_t row_count =
        std::min<uint64_t>(validation_->row_count(),
                           std::max<uint64_t>(1, kValidationTokens / validation_->row_length()));
    const uint64_t every = std::max({uint64_t{1}, steps / kValidations,
                                     kRowsPerValidated * row_count / run_.options.rows_per_step});
    if (step() % every != 0 && step() != steps) return absl::OkStatus();
    OUTRIDER_ASSIGN_OR_RETURN(const float loss,
                              trainer_.Evaluate(*validation_, static_cast<uint32_t>(row_count)));
    trainer_.mutable_state().validations.push_back({step(), loss});
    return absl::OkStatus();
  }

  std::string Figures() const {
    const TrainingState& state = trainer_.state();
    const std::string validation =
        state.validations.empty() ? "" : ", validation " + Fixed(state.validations.back().loss, 3);
    return Concat("step ", state.step, ", loss ", Fixed(state.losses.back(), 3), validation);
  }

  absl::Status Save() {
    saved_ = RealClock().Now();
    OUTRIDER_RETURN_IF_ERROR(
        SaveCheckpoint(CheckpointPath(run_.out), run_.asked, parameters_, trainer_.state()));
    std::filesystem::path curve = run_.out;
    curve.replace_extension();
    return WriteLossCurve(curve.string(), trainer_.state(), run_.options.schedule, tokens_per_step_,
                          "Loss of " + curve.filename().string());
  }

  absl::Status SaveAndStop() {
    OUTRIDER_RETURN_IF_ERROR(Save());
    return absl::CancelledError(
        Concat("stopped after step ", step(), " of ", run_.options.schedule.steps, " and saved to ",
               CheckpointPath(run_.out), "; the same command goes on from there"));
  }

  const TrainingRun& run_;
  const std::span<NamedParameter> parameters_;
  TokenRows* const validation_;
  const uint64_t tokens_per_step_;
  Trainer trainer_;
  MonotonicTime saved_{};
};

}  // namespace

absl::Status Train(const TrainingRun& run, std::span<NamedParameter> parameters, at::Device device,
                   TokenRows& rows, TokenRows* validation, const Loss& loss) {
  return Runner(run, parameters, device, rows, validation, loss).Run();
}

void RemoveCheckpoint(const std::string& out) {
  std::error_code ignored;
  std::filesystem::remove(CheckpointPath(out), ignored);
}

}  // namespace outrider
