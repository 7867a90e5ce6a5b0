#include "common/base/chrome_trace.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/clock.h"
#include "common/base/process_memory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/base/scratch_dir.h"

namespace outrider {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;

constexpr ChromeTrace::Label kPass = {"pass", {"nodes", "", "tokens"}};
constexpr ChromeTrace::Label kDone = {"done"};

nlohmann::json EventsIn(const std::string& path) {
  return nlohmann::json::parse(Contents(path));
}

// Those of tracks, and not what names them.
std::vector<nlohmann::json> Happened(const nlohmann::json& events) {
  std::vector<nlohmann::json> happened;
  for (const auto& event : events) {
    if (event["ph"] != "M") happened.push_back(event);
  }
  return happened;
}

// Who plans memory counts what it may take by itself.
TEST(ChromeTrace, TakesNoMemoryBeforeItIsUsed) {
  const ScratchDir dir;
  const uint64_t before = ResidentBytes();
  const auto trace = *ChromeTrace::Create(dir.File("trace.json"));
  EXPECT_LT(ResidentBytes(), before + ChromeTrace::kBytesMax / 4);
}

TEST(ChromeTrace, IsWhatWasNoted) {
  const ScratchDir dir;
  const auto trace = *ChromeTrace::Create(dir.File("trace.json"));
  const ChromeTrace::Track first = trace->AddTrack("target");
  const ChromeTrace::Track second = trace->AddTrack("link");
  const MonotonicTime begin = RealClock().Now();
  trace->Span(second, kPass, begin, begin + microseconds(1500), {7, 8, 9});
  trace->Instant(first, kDone, begin + microseconds(1500));
  ASSERT_TRUE(trace->Write().ok());

  const nlohmann::json events = EventsIn(dir.File("trace.json"));
  std::vector<std::string> names;
  for (const auto& event : events) {
    if (event["name"] == "thread_name") names.push_back(event["args"]["name"]);
  }
  EXPECT_THAT(names, ElementsAre("target", "link"));
  const std::vector<nlohmann::json> happened = Happened(events);
  ASSERT_EQ(happened.size(), 2u);
  EXPECT_EQ(happened[0]["name"], "pass");
  EXPECT_EQ(happened[0]["ph"], "X");
  EXPECT_EQ(happened[0]["tid"], 2);
  EXPECT_DOUBLE_EQ(happened[0]["dur"], 1500);
  EXPECT_EQ(happened[0]["args"], nlohmann::json({{"nodes", 7}, {"tokens", 9}}));
  EXPECT_EQ(happened[1]["ph"], "i");
  EXPECT_EQ(happened[1]["tid"], 1);
  EXPECT_NEAR(double{happened[1]["ts"]} - double{happened[0]["ts"]}, 1500, 0.002);
}

TEST(ChromeTrace, OfManyThreadsHasAll) {
  const ScratchDir dir;
  const auto trace = *ChromeTrace::Create(dir.File("trace.json"));
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kEach = 1000;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&trace, i] {
      const ChromeTrace::Track track = trace->AddTrack(std::to_string(i));
      for (uint32_t n = 0; n < kEach; ++n) trace->Instant(track, kPass, RealClock().Now(), {n});
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(trace->Write().ok());
  std::vector<uint32_t> next(kThreads + 1);
  for (const nlohmann::json& event : Happened(EventsIn(dir.File("trace.json")))) {
    EXPECT_EQ(event["args"]["nodes"], next[event["tid"]]++);
  }
  next.erase(next.begin());
  EXPECT_THAT(next, ElementsAre(kEach, kEach, kEach, kEach));
}

TEST(ChromeTrace, TellsHowManyFoundNoRoom) {
  const ScratchDir dir;
  const auto trace = *ChromeTrace::Create(dir.File("trace.json"));
  const ChromeTrace::Track track = trace->AddTrack("target");
  for (size_t i = 0; i < ChromeTrace::kEventsMax + 5; ++i)
    trace->Instant(track, kDone, MonotonicTime{});
  ASSERT_TRUE(trace->Write().ok());
  const std::vector<nlohmann::json> happened = Happened(EventsIn(dir.File("trace.json")));
  ASSERT_EQ(happened.size(), ChromeTrace::kEventsMax + 1);
  EXPECT_EQ(happened.back()["args"]["count"], 5);
}

TEST(ChromeTrace, ThatIsNotWrittenLeavesNothing) {
  const ScratchDir dir;
  { const auto trace = *ChromeTrace::Create(dir.File("trace.json")); }
  EXPECT_TRUE(dir.Names().empty());
  EXPECT_FALSE(ChromeTrace::Create(dir.File("no/such/trace.json")).ok());
}

}  // namespace
}  // namespace outrider
