#include "server/operations/operation_flags.h"

#include <map>

#include "CLI/CLI.hpp"
#include "server/config/choice_flag.h"

namespace outrider {
namespace {

const std::map<std::string, EventLog::Form> kForms = {{"text", EventLog::Form::kText},
                                                      {"json", EventLog::Form::kJson}};

constexpr uint32_t kLinesPerSecondMax = 1'000'000;

}  // namespace

void AddOperationFlags(CLI::App& app, OperationFlags& flags) {
  app.add_option("--admin", flags.admin,
                 "A port of its own for operators, plain HTTP: /health/live, /health/ready, "
                 "/metrics; host:port (default: none)")
      ->envname("OUTRIDER_ADMIN");
  app.add_flag("--admin-open", flags.admin_open,
               "That port may be on an address that others reach: whoever does can read what it "
               "says, which is numbers and the model's name")
      ->envname("OUTRIDER_ADMIN_OPEN");
  AddChoice(app, "--log-format", flags.log, kForms,
            "The log on standard error: text for people, json, a line an event, for collectors")
      ->envname("OUTRIDER_LOG_FORMAT");
  app.add_option("--log-lines-per-second", flags.log_lines_per_second,
                 "Lines of the log a second, in the mean; more are left out, and counted. Each "
                 "session has one when it is over")
      ->envname("OUTRIDER_LOG_LINES_PER_SECOND")
      ->check(CLI::Range(1u, kLinesPerSecondMax))
      ->capture_default_str();
}

}  // namespace outrider
