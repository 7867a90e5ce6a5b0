// What a text has cost of passes, flash, disk and energy, a token: what --verbose says at its end.
//
//   UseReport report;                      // counting begins
//   TerminalScreen screen(report.energy());    // sampled while the text is written
//   ...
//   report.Print(conversation->stats(), device->flash_use(), device->pruning_use());
//
// Threads: that which waits for the text.
#pragma once

#include <optional>

#include "client/device/conversation.h"
#include "client/device/device.h"
#include "common/base/energy_meter.h"
#include "common/base/process_io.h"

namespace outrider {

class UseReport {
 public:
  UseReport() : before_(ReadProcessIo()) {}

  EnergyMeter& energy() { return energy_; }
  // On standard error.
  void Print(const ConversationStats& stats, const std::optional<FlashUse>& flash,
             const std::optional<PruningUse>& pruning);

 private:
  void PrintPasses(const ConversationStats& stats) const;
  static void PrintPruning(const PruningUse& use, const ConversationStats& stats);
  static void PrintFlash(const FlashUse& use, const ConversationStats& stats);
  static void PrintExperts(const ExpertReads& reads, const ConversationStats& stats);
  void PrintDisk() const;
  void PrintEnergy(const ConversationStats& stats);

  const ProcessIo before_;
  EnergyMeter energy_;
};

}  // namespace outrider
