// Settings of a configuration file: the part of TOML that a server's flags need.
//
//   model = "/models/target.gguf"       # a string, a number, true or false
//   sessions = 64
//   [tls]
//   cert = "/etc/outrider/server.pem"   # the setting tls-cert
//
// Strings are basic ("...", with escapes) or literal ('...'). There are no arrays, dates, inline
// tables and strings of several lines; they are refused, as is everything that is not TOML. An
// underscore in a name is a hyphen.
//
// Errors: InvalidArgument, naming file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace outrider {

struct TomlSetting {
  std::string name;   // of a table's: tls-cert
  std::string value;  // as a flag would have it: a string without quotes, true, 64
  uint32_t line;
};

// `name` is the file's, for errors.
absl::StatusOr<std::vector<TomlSetting>> ParseTomlSettings(std::string_view text,
                                                           const std::string& name);

}  // namespace outrider
