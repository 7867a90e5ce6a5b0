// What a user at a terminal sees of a conversation: the text on standard output, progress and
// reports on standard error. Ctrl-C ends a reply, and text that nobody reads by then is not shown.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "client/device/conversation.h"
#include "common/base/energy_meter.h"
#include "common/base/monotonic_time.h"
#include "common/base/progress_bar.h"
#include "common/model/weights/resident_weights.h"

namespace outrider {

class TerminalScreen final : public Conversation::Observer {
 public:
  // `energy` is sampled while it is asked whether the user has interrupted, and outlives it.
  explicit TerminalScreen(EnergyMeter& energy) : energy_(energy) {}

  void OnText(std::string_view text) override;
  void OnPromptProgress(uint32_t processed, uint32_t total) override;
  void OnReport(const absl::Status& status) override;
  bool Interrupted() override;

  // All text since the last call.
  std::string TakeText();
  // A reply is over: what stands half-way on the screen is finished.
  void EndReply();

 private:
  EnergyMeter& energy_;
  MonotonicTime sampled_at_ = {};
  std::string text_;
  std::optional<ProgressBar> bar_;  // of the prompt that is being read
};

// Draws the loading of models, one after the other.
class LoadingBars {
 public:
  ~LoadingBars();

  LoadProgress progress();

 private:
  std::optional<ProgressBar> bar_;
  uint64_t done_ = 0;
};

}  // namespace outrider
