// A real session over a real socket whose link breaks, once, at a chosen byte.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/emulators/link_emulator.h"
#include "client/verifier/remote_verifier.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"
#include "tests/remote/wire_place.h"

namespace outrider {
namespace {

using Way = LinkEmulator::Way;

constexpr size_t kCuts = 200;
constexpr uint32_t kTokens = 60;
constexpr int kTrialsMax = 10;
// Mostly they wait for one another's back-off.
constexpr size_t kSessionsAtOnce = 8;

SessionOptions Story(bool sampled) {
  SessionOptions options;
  options.prompt = TheTokenizer().Encode("Once upon a time");
  options.continues_text = true;
  options.stops.max_tokens = kTokens;
  options.link.patience = std::chrono::seconds(20);  // a broken client fails in good time
  if (sampled) options.sampling = Sampled(5);
  return options;
}

struct Result {
  absl::Status status;
  std::string text;
  std::vector<TokenId> tokens;
  SessionStats stats;
  std::array<uint64_t, 2> passed;
  std::optional<std::string> cut_at;  // WirePlace
};

Result WriteThrough(const LinkEmulator::Options& options, bool sampled, PolicyKind policy,
                    const StoriesModel& draft) {
  const auto link = OrDie(LinkEmulator::Start(options));
  const auto verifier = OrDie(RemoteVerifier::Connect(Concat("127.0.0.1:", link->port())));
  DraftedSession drafted(Story(sampled), draft, policy, *verifier);
  Screen screen;
  Result result;
  result.status = drafted.driver().Run(Session::Start{}, screen);
  result.text = screen.Take();
  result.tokens.assign(drafted.session().committed().begin(), drafted.session().committed().end());
  result.stats = drafted.session().stats();
  result.passed = {link->passed(Way::kUp), link->passed(Way::kDown)};
  if (const auto passed = link->passed_before_cut()) {
    result.cut_at =
        WirePlace::AtEnd(*passed, options.cut->way == Way::kUp ? *v1::ClientMessage::descriptor()
                                                               : *v1::ServerMessage::descriptor());
  }
  drafted.driver().Close();
  return result;
}

// Half of the cuts up and half down, evenly over what a session carries: cut number 2 i, up, comes
// at i hundredths of it. Sessions differ in their bytes, as threads do in time; one that has ended
// before its cut is tried again with a sooner one.
Result WriteThroughCut(uint16_t port, size_t number, const StoriesModel& draft) {
  const bool sampled = number % 4 >= 2;
  const PolicyKind policy = kPolicyKinds[number % kPolicyKinds.size()];
  const Way way = number % 2 == 0 ? Way::kUp : Way::kDown;
  const auto which = static_cast<size_t>(way);
  Result result = WriteThrough({.server_port = port}, sampled, policy, draft);
  double share = static_cast<double>(number / 2) / (kCuts / 2);
  for (int trials = 0; trials < kTrialsMax && result.status.ok() && !result.cut_at; ++trials) {
    const double bytes = share * static_cast<double>(result.passed[which]);
    result = WriteThrough({.server_port = port, .cut = {{way, static_cast<uint64_t>(bytes)}}},
                          sampled, policy, draft);
    share *= 0.8;
  }
  return result;
}

TEST(LinkCutTest, AtAnyByteItCostsTimeAndNoToken) {
  const ServerProcess server;
  std::vector<Result> results(kCuts);
  std::atomic<size_t> next = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kSessionsAtOnce; ++i) {
    threads.emplace_back([&] {
      const StoriesModel draft(DamagedStories());
      for (size_t number; (number = next++) < kCuts;) {
        results[number] = WriteThroughCut(server.port(), number, draft);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  const SessionOptions greedy = Story(false);
  const SessionOptions sampled = Story(true);
  const std::array<Written, 2> alone = {
      Alone(greedy.prompt, greedy.sampling, greedy.stops, true),
      Alone(sampled.prompt, sampled.sampling, sampled.stops, true)};
  std::map<std::string, size_t> places;
  for (size_t number = 0; number < kCuts; ++number) {
    const Result& result = results[number];
    const Written& right = alone[number % 4 >= 2];
    ASSERT_TRUE(result.status.ok()) << result.status << ", cut " << number;
    EXPECT_EQ(result.tokens, right.tokens) << "cut " << number;
    EXPECT_EQ(result.text, right.text) << "cut " << number;
    ASSERT_TRUE(result.cut_at.has_value()) << number;
    ++places[Concat(number % 2 == 0 ? "up, " : "down, ", *result.cut_at)];
    // The server never lost the session: nothing was begun anew.
    EXPECT_EQ(result.stats.reopenings, 0u) << "cut " << number << ": " << *result.cut_at;
    EXPECT_LE(result.stats.attachments, 2u) << "cut " << number << ": " << *result.cut_at;
  }
  for (const auto& [place, count] : places) {
    std::printf("links cut %s: %zu\n", place.c_str(), count);
  }
  for (const char* place : {"up, handshake", "up, open", "up, grow", "up, between",
                            "down, handshake", "down, verdict", "down, between"}) {
    EXPECT_GT(places[place], 0u) << place;
  }
}

}  // namespace
}  // namespace outrider
