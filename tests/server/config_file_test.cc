// Where a setting comes from: flag before environment before file.
#include "server/config/config_file.h"

#include <cctype>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/config/server_flags.h"

namespace outrider {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ConfigFileTest : public testing::Test {
 protected:
  ~ConfigFileTest() override {
    for (const char* const name : {"OUTRIDER_SESSIONS", "OUTRIDER_CONFIG"}) unsetenv(name);
  }

  void Write(const std::string& text) const { std::ofstream(path_) << text; }

  // What is wrong, if something is.
  std::string Parse(std::vector<std::string> arguments) {
    CLI::App app("", "outrider-server");
    flags_ = ServerFlags();
    AddServerFlags(app, flags_);
    const ConfigFile config(app);
    std::reverse(arguments.begin(), arguments.end());
    try {
      app.parse(arguments);
    } catch (const CLI::ParseError& error) {
      return error.what();
    }
    is_check_ = config.is_check();
    return "";
  }

  // One for each test: they run beside one another.
  const std::string path_ =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".toml";
  ServerFlags flags_;
  bool is_check_ = false;
};

TEST_F(ConfigFileTest, SetsWhatNobodyElseDoes) {
  Write(
      "model = \"m.gguf\"\nsessions = 5\nthreads = 3\ninsecure = true\nkv_memory = \"2MiB\"\n"
      "exit-scope = 'full'\n[log]\nformat = 'json'\n[tls]\ncert = 'c.pem'\n[idle]\nseconds = 9\n");
  setenv("OUTRIDER_SESSIONS", "6", 1);
  EXPECT_EQ(Parse({"--config", path_, "--threads", "7"}), "");
  EXPECT_EQ(flags_.model, "m.gguf");
  EXPECT_EQ(flags_.threads, 7u) << "a flag goes before the file";
  EXPECT_EQ(flags_.sessions, 6u) << "the environment goes before the file";
  EXPECT_EQ(flags_.kv_memory, 2u << 20);
  EXPECT_TRUE(flags_.security.transport.insecure);
  EXPECT_EQ(flags_.security.transport.certificate, "c.pem");
  EXPECT_EQ(flags_.exits.scope, ExitScope::kFull);
  EXPECT_EQ(flags_.operations.log, EventLog::Form::kJson);
  EXPECT_EQ(flags_.limits.machine.idle_max, std::chrono::seconds(9));
  EXPECT_FALSE(is_check_);
  EXPECT_EQ(Parse({"--config", path_, "--sessions", "8", "--check-config"}), "");
  EXPECT_EQ(flags_.sessions, 8u) << "a flag goes before the environment";
  EXPECT_TRUE(is_check_);
}

// So a limit is added with all that belongs to one.
TEST_F(ConfigFileTest, EveryLimitHasAFlagATwinASettingAndBounds) {
  CLI::App app("", "outrider-server");
  ServerFlags flags;
  AddServerFlags(app, flags);
  size_t limits = 0;
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_group() != "Limits") continue;
    const std::string name = option->get_single_name();
    SCOPED_TRACE(name);
    ++limits;
    std::string twin = "OUTRIDER_";
    for (const char letter : name) {
      twin += letter == '-' ? '_' : static_cast<char>(std::toupper(letter));
    }
    EXPECT_EQ(option->get_envname(), twin);
    EXPECT_FALSE(option->get_description().empty());
    Write(name + " = " + option->get_default_str() + "\n");
    EXPECT_EQ(Parse({"--model", "m", "--config", path_}), "") << "what it is by default is allowed";
    for (const char* const number : {"-1", "9999999999999999", "some"}) {
      EXPECT_NE(Parse({"--model", "m", "--" + name, number}), "") << number;
    }
  }
  EXPECT_GE(limits, 28u);
}

TEST_F(ConfigFileTest, WhatStrangersMayTakeIsSet) {
  EXPECT_EQ(Parse({"--model", "m", "--handshake-seconds", "3", "--header-bytes", "2KiB",
                   "--shut-out-seconds", "60", "--log-lines-per-second", "5000"}),
            "");
  EXPECT_EQ(flags_.limits.handshake_max, std::chrono::seconds(3));
  EXPECT_EQ(flags_.limits.header_bytes, 2u << 10);
  EXPECT_EQ(flags_.limits.shut_out, std::chrono::minutes(1));
  EXPECT_EQ(flags_.operations.log_lines_per_second, 5000u);
  Write("model = 'm'\n[log]\nlines-per-second = 300\n");
  EXPECT_EQ(Parse({"--config", path_}), "");
  EXPECT_EQ(flags_.operations.log_lines_per_second, 300u);
  EXPECT_THAT(Parse({"--model", "m", "--log-lines-per-second", "0"}), HasSubstr("--log-lines"));
  EXPECT_THAT(Parse({"--model", "m", "--header-bytes", "100"}), HasSubstr("--header-bytes"));
  EXPECT_THAT(Parse({"--model", "m", "--shut-out-seconds", "3601"}), HasSubstr("3600"));
}

TEST_F(ConfigFileTest, IsFoundByTheEnvironment) {
  Write("model = 'm.gguf'\nsessions = 5\n");
  setenv("OUTRIDER_CONFIG", path_.c_str(), 1);
  EXPECT_EQ(Parse({}), "");
  EXPECT_EQ(flags_.sessions, 5u);
  setenv("OUTRIDER_CONFIG", "/nowhere/c.toml", 1);
  EXPECT_THAT(Parse({"--model", "m.gguf"}), HasSubstr("/nowhere/c.toml"));
}

TEST_F(ConfigFileTest, WhatIsWrongIsSaidWithFileLineAndSetting) {
  const auto error = [&](const std::string& text) {
    Write(text);
    return Parse({"--model", "m.gguf", "--config", path_});
  };
  EXPECT_THAT(error("\nsesions = 5"), AllOf(HasSubstr(path_ + ":2: "), HasSubstr("\"sesions\"")));
  EXPECT_THAT(error("sessions = 0"), AllOf(HasSubstr(path_ + ":1: --sessions"), HasSubstr("1024")));
  EXPECT_THAT(error("sessions = 'many'"), HasSubstr(":1: "));
  EXPECT_THAT(error("log-format = 'xml'"), AllOf(HasSubstr(":1: "), HasSubstr("xml")));
  EXPECT_THAT(error("insecure = 7.5"), HasSubstr(":1: insecure is true or false"));
  EXPECT_THAT(error("help = true"), HasSubstr("there is no setting \"help\""));
  EXPECT_THAT(error("config = 'other.toml'"), HasSubstr("there is no setting \"config\""));
  EXPECT_THAT(error("new-key = 'robot'"), HasSubstr("there is no setting \"new-key\""));
  EXPECT_THAT(error("check-config = true"), HasSubstr("there is no setting \"check-config\""));
  EXPECT_THAT(Parse({"--model", "m.gguf", "--config", "/nowhere/c.toml"}),
              HasSubstr("/nowhere/c.toml"));
}

}  // namespace
}  // namespace outrider
