// What every program of ours does with its command line: flags in, a sentence and an exit code out.
//
//   CLI::App app("what it is for", "outrider-server");
//   app.add_option(...);
//   return RunProgram(app, argc, argv, [&] { return Serve(flags); });
//
// Needs CLI11 of whoever includes it, as base does not.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "common/base/status.h"

namespace outrider {

inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;

// Parses, then calls `body`, which parsing may have set, and whose error goes to standard error
// after the program's name. Returns what main() does: 0, kExitFailure, or kExitUsage when the
// command line is wrong.
inline int RunProgram(CLI::App& app, int argc, char** argv,
                      const std::function<absl::Status()>& body) {
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;  // --help is an error to CLI11
  }
  const absl::Status status = body();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), std::string(Message(status)).c_str());
  return kExitFailure;
}

}  // namespace outrider
