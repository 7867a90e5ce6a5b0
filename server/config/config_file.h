// --config: a file that sets what no flag and no environment variable does.
//
//   CLI::App app(...);
//   AddServerFlags(app, flags);
//   ConfigFile config(app);       // adds --config and --check-config, after all other flags
//   app.parse(argc, argv);        // flag before environment before file
//   if (config.is_check()) config.Print();
//
// A setting has the name of its flag (toml_settings.h: [tls] cert is --tls-cert).
//
// Errors: those of the command line (CLI::ParseError), naming file and line.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace outrider {

class ConfigFile {
 public:
  // The app outlives it, and is parsed while it lives.
  explicit ConfigFile(CLI::App& app);
  ~ConfigFile();

  // Whether only this is asked for.
  bool is_check() const { return is_check_; }
  // All settings, as a file would have them, and where each comes from.
  void Print() const;

 private:
  class Reader;  // keeps the command line's header out of this one

  CLI::App& app_;
  std::shared_ptr<Reader> reader_;
  bool is_check_ = false;
};

}  // namespace outrider
