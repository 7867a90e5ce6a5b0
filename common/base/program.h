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
#include "common/base/quote.h"
#include "common/base/status.h"

namespace outrider {

// For flags that are counts, or other numbers above zero. (CLI11's own tells of a range that is
// written out in 300 digits.)
inline CLI::Validator AboveZero() {
  const auto check = [](const std::string& text) {
    double number = 0;
    const bool is_number = CLI::detail::lexical_cast(text, number);
    return is_number && number > 0 ? std::string() : Concat(Quote(text), " is not above zero");
  };
  return CLI::Validator(check, "POSITIVE", "above zero");
}

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
  // What files say of themselves may be in it.
  std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), Harmless(Message(status)).c_str());
  return kExitFailure;
}

}  // namespace outrider
