#include "server/config/config_file.h"

#include <cstdio>
#include <cstdlib>
#include <istream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/quote.h"
#include "common/base/status.h"
#include "server/config/toml_settings.h"

namespace outrider {
namespace {

constexpr char kEnvironmentTwin[] = "OUTRIDER_CONFIG";

// Empty: it is not set. An empty one counts as none, as everywhere.
std::string Environment(const std::string& name) {
  const char* const value = name.empty() ? nullptr : std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

bool IsFlag(const CLI::Option& option) {
  return option.get_expected_min() == 0;
}

std::string NameOf(const CLI::Option& option) {
  return option.get_single_name();
}

// What could be in a file: not --help, and nothing that is done at once and ends the program.
bool IsSetting(const CLI::Option& option) {
  return option.get_configurable() && !option.get_lnames().empty();
}

}  // namespace

// Where CLI11 would fill in what the file says before it looks at the environment, this does what is
// left to be done, and hands it nothing.
class ConfigFile::Reader final : public CLI::Config {
 public:
  explicit Reader(CLI::App& app) : app_(app) {}

  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::string text(std::istreambuf_iterator<char>(input), {});
    const std::string path = app_.get_config_ptr()->as<std::string>();
    const auto settings = ParseTomlSettings(text, path);
    if (!settings.ok()) throw Error(std::string(Message(settings.status())));
    for (const TomlSetting& setting : *settings) Apply(setting, Concat(path, ":", setting.line));
    return {};
  }

  bool has_set(const CLI::Option& option) const { return set_.contains(&option); }

 private:
  static CLI::ConfigError Error(const std::string& message) {
    return CLI::ConfigError(message, CLI::ExitCodes::ConfigError);
  }

  void Apply(const TomlSetting& setting, const std::string& place) const {
    CLI::Option* const option = app_.get_option_no_throw("--" + setting.name);
    if (option == nullptr || !IsSetting(*option)) {
      throw Error(Concat(place, ": there is no setting ", Quote(setting.name),
                         "; outrider-server --help tells which there are"));
    }
    if (option->count() > 0 || !Environment(option->get_envname()).empty()) return;
    const bool is_truth = setting.value == "true" || setting.value == "false";
    if (IsFlag(*option) && !is_truth) {
      throw Error(Concat(place, ": ", setting.name, " is true or false"));
    }
    try {
      option->add_result(IsFlag(*option) ? option->get_flag_value(NameOf(*option), setting.value)
                                         : setting.value);
      option->run_callback();
    } catch (const CLI::Error& error) {
      throw Error(Concat(place, ": ", error.what()));
    }
    set_.insert(option);
  }

  CLI::App& app_;
  mutable std::set<const CLI::Option*> set_;
};

ConfigFile::ConfigFile(CLI::App& app) : app_(app), reader_(std::make_shared<Reader>(app)) {
  const std::string path = Environment(kEnvironmentTwin);
  app.set_config(
      "--config", path,
      "A TOML file with settings by the names of these flags: sessions = 64. A flag goes "
      "before the environment, and that before the file",
      /*config_required=*/!path.empty());
  app.get_config_ptr()->envname(kEnvironmentTwin);
  app.config_formatter(reader_);
  app.add_flag("--check-config", is_check_,
               "Checks settings, keys and certificates, prints what is set and by what, and ends")
      ->configurable(false);
}

ConfigFile::~ConfigFile() = default;

void ConfigFile::Print() const {
  for (const CLI::Option* const option : app_.get_options()) {
    if (!IsSetting(*option) || option == app_.get_config_ptr()) continue;
    const std::string name = NameOf(*option);
    const bool is_given = option->count() > 0;
    const std::string value = is_given ? option->as<std::string>() : option->get_default_str();
    if (!is_given && value.empty()) continue;
    const char* const by = !is_given                                     ? "default"
                           : reader_->has_set(*option)                   ? "file"
                           : Environment(option->get_envname()) == value ? "environment"
                                                                         : "command line";
    std::printf("%s = %s  # %s\n", name.c_str(), Quote(value).c_str(), by);
  }
}

}  // namespace outrider
