// What a server shows its operators: a log, and a port for probes and metrics. There before the model
// is loaded, and until the last session has gone.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/verification/verifier_driver.h"
#include "server/operations/admin_port.h"
#include "server/operations/entrance_log.h"
#include "server/operations/event_log.h"

namespace CLI {
class App;
}

namespace outrider {

struct OperationFlags {
  std::string admin;        // host:port; empty: no such port
  bool admin_open = false;  // others may reach it
  EventLog::Form log = EventLog::Form::kText;
};

// Each with its environment twin.
void AddOperationFlags(CLI::App& app, OperationFlags& flags);

class Operations {
 public:
  static absl::StatusOr<std::unique_ptr<Operations>> Open(const OperationFlags& flags);

  EventLog& log() { return log_; }
  EntranceLog& entrance() { return entrance_; }
  AdminPort* admin() { return admin_.get(); }  // null: none was asked for

  // A line for every session that is over, and for every fault of one.
  VerifierDriver::Log SessionLog();

 private:
  explicit Operations(EventLog::Form form) : log_(form), entrance_(log_) {}

  EventLog log_;
  EntranceLog entrance_;
  std::unique_ptr<AdminPort> admin_;
};

}  // namespace outrider
