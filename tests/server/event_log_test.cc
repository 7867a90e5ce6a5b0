#include "server/operations/event_log.h"

#include <fcntl.h>

#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;

class EventLogTest : public testing::Test {
 protected:
  EventLogTest() {
    int ends[2];
    OUTRIDER_CHECK(pipe2(ends, O_CLOEXEC) == 0, "a process can have a pipe");
    OUTRIDER_CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "it need not wait");
    out_ = FileDescriptor(ends[0]);
    in_ = FileDescriptor(ends[1]);
  }

  void Begin(EventLog::Form form, uint32_t lines_per_second = EventLog::kLinesPerSecond) {
    log_.emplace(form, in_.get(), lines_per_second);
  }

  // Written since the last time.
  std::vector<std::string> Lines() {
    log_->Flush();
    std::string text;
    char bytes[4096];
    for (ssize_t count; (count = read(out_.get(), bytes, sizeof(bytes))) > 0;) {
      text.append(bytes, static_cast<size_t>(count));
    }
    std::vector<std::string> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  FileDescriptor out_;
  FileDescriptor in_;
  std::optional<EventLog> log_;
};

TEST_F(EventLogTest, IsForPeople) {
  Begin(EventLog::Form::kText);
  log_->Write("session", {{"session", uint64_t{7}}, {"key", "robot 7"}, {"seconds", 1.5}});
  log_->Say("draining", {{"seconds", uint64_t{3}}}, "draining: 3 s");
  EXPECT_THAT(Lines(), ElementsAre(MatchesRegex("20..-..-..T..:..:..\\....Z session session=7 "
                                                "key=\"robot 7\" seconds=1.5"),
                                   "draining: 3 s"));
}

TEST_F(EventLogTest, IsForCollectors) {
  Begin(EventLog::Form::kJson);
  log_->Write("session", {{"session", uint64_t{7}}, {"key", "a\n\"\xFF"}, {"seconds", 1.5}});
  log_->Say("draining", {{"seconds", uint64_t{3}}}, "draining: 3 s");
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 2u);
  const auto session = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(session["event"], "session");
  EXPECT_EQ(session["session"], 7);
  EXPECT_EQ(session["key"], "a\n\"\xEF\xBF\xBD");
  EXPECT_EQ(session["seconds"], 1.5);
  EXPECT_EQ(nlohmann::json::parse(lines[1])["seconds"], 3);
}

TEST_F(EventLogTest, WhatStrangersSayStaysOneShortLine) {
  for (const EventLog::Form form : {EventLog::Form::kText, EventLog::Form::kJson}) {
    Begin(form);
    log_->Write("fault", {{"why", std::string(100'000, '\n')}});
    const std::vector<std::string> lines = Lines();
    ASSERT_EQ(lines.size(), 1u);
    EXPECT_LE(lines[0].size(), EventLog::kLineBytesMax);
    if (form == EventLog::Form::kText) continue;
    EXPECT_TRUE(nlohmann::json::accept(lines[0]));
  }
}

TEST_F(EventLogTest, OfVeryManyItSaysHowManyThereWere) {
  Begin(EventLog::Form::kText);
  const size_t count = EventLog::kWaitingMax + 5 * EventLog::kLinesPerSecond;
  size_t written = 0;
  for (size_t i = 0; i < count; ++i) {
    log_->Write("fault", {});
    if (i % 256 == 0) written += Lines().size();
  }
  written += Lines().size();
  EXPECT_LT(written, count);
  EXPECT_GE(written, EventLog::kWaitingMax);
}

TEST_F(EventLogTest, WhereASecondMayHaveMoreLinesNoneIsLeftOut) {
  Begin(EventLog::Form::kText, 1'000'000'000);
  const size_t count = EventLog::kWaitingMax + 5 * EventLog::kLinesPerSecond;
  size_t written = 0;
  for (size_t i = 0; i < count; ++i) {
    log_->Write("session", {});
    if (i % 256 == 0) written += Lines().size();
  }
  written += Lines().size();
  EXPECT_EQ(written, count);
}

// It takes a moment, but neither the writers nor the end wait for whoever should read.
TEST_F(EventLogTest, NobodyWaitsForAReader) {
  Begin(EventLog::Form::kText);
  const std::string words(1000, 'x');
  for (int i = 0; i < 500; ++i) log_->Say("much", {}, words);
  log_.reset();
}

}  // namespace
}  // namespace outrider
