// A flag whose values have names. What was said stays a name, so that settings can be shown as they
// were given.
//
// Needs CLI11 of whoever includes it, as base does not.
#pragma once

#include <map>
#include <string>

#include "CLI/CLI.hpp"

namespace outrider {

// `choices` outlives the app, and has the value that is there.
template <typename Value>
CLI::Option* AddChoice(CLI::App& app, const std::string& flag, Value& value,
                       const std::map<std::string, Value>& choices, const std::string& text) {
  std::string name_there;
  for (const auto& [name, choice] : choices) {
    if (choice == value) name_there = name;
  }
  return app
      .add_option_function<std::string>(
          flag, [&value, &choices](const std::string& name) { value = choices.at(name); }, text)
      ->check(CLI::IsMember(&choices).description(""))
      ->default_str(name_there);
}

}  // namespace outrider
