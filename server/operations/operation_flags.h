// What operators are shown, as flags have it.
#pragma once

#include <cstdint>
#include <string>

#include "server/operations/event_log.h"

namespace CLI {
class App;
}

namespace outrider {

struct OperationFlags {
  std::string admin;        // host:port; empty: no such port
  bool admin_open = false;  // others may reach it
  EventLog::Form log = EventLog::Form::kText;
  uint32_t log_lines_per_second = EventLog::kLinesPerSecond;
};

// Each with its environment twin.
void AddOperationFlags(CLI::App& app, OperationFlags& flags);

}  // namespace outrider
