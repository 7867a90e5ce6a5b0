// What a server shows its operators: a log, and a port for probes and metrics. There before the model
// is loaded, and until the last session has gone.
#pragma once

#include <unistd.h>

#include <memory>

#include "absl/status/statusor.h"
#include "common/verification/verifier_driver.h"
#include "server/operations/admin_port.h"
#include "server/operations/entrance_log.h"
#include "server/operations/event_log.h"
#include "server/operations/operation_flags.h"

namespace outrider {

class Operations {
 public:
  static absl::StatusOr<std::unique_ptr<Operations>> Open(const OperationFlags& flags);

  EventLog& log() { return log_; }
  EntranceLog& entrance() { return entrance_; }
  AdminPort* admin() { return admin_.get(); }  // null: none was asked for

  // A line for every session that is over, and for every fault of one.
  VerifierDriver::Log SessionLog();

 private:
  explicit Operations(const OperationFlags& flags)
      : log_(flags.log, STDERR_FILENO, flags.log_lines_per_second), entrance_(log_) {}

  EventLog log_;
  EntranceLog entrance_;
  std::unique_ptr<AdminPort> admin_;
};

}  // namespace outrider
