// Exits of the stories model, and sessions that write beside one another while a server's exits say
// what they like.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/model/exits.h"

namespace outrider {

// Of the stories model, after layers of its five.
inline TrainedExits StoriesExits(const std::vector<uint32_t>& layers, float strength) {
  const auto engine = OrDie(
      LoadCpuEngine(*Good().file, "stories", {}, KernelsFor(BestIsa()), *Good().pool, nullptr));
  return RandomExits(engine->spec(), engine->info().content_hash, layers, 8, strength);
}

// Every other one is sampled.
inline SessionOptions StoryOf(uint64_t session, uint32_t tokens) {
  constexpr std::array kPrompts = {"Once upon a time", "The dog", "A girl went", "One day, Tom"};
  SessionOptions options;
  options.prompt = TheTokenizer().Encode(kPrompts[session % kPrompts.size()]);
  options.continues_text = true;
  options.stops.max_tokens = tokens;
  if (session % 2 == 1) options.sampling = Sampled(session);
  return options;
}

// Returns how many hints came.
inline uint64_t WriteOne(const std::string& address, uint64_t session, uint32_t tokens,
                         const std::vector<TokenId>& expected) {
  const StoriesModel draft(session % 4 < 2 ? DamagedStories() : Stories());
  const auto verifier = OrDie(RemoteVerifier::Connect(address));
  const PolicyKind kind = session % 3 == 0 ? PolicyKind::kFsd : PolicyKind::kOurs;
  DraftedSession drafted(StoryOf(session, tokens), draft, kind, *verifier);
  Screen screen;
  const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
  EXPECT_TRUE(status.ok()) << status;
  const auto committed = drafted.session().committed();
  EXPECT_EQ(std::vector(committed.begin(), committed.end()), expected) << "session " << session;
  drafted.driver().Close();
  return drafted.session().stats().hints;
}

// What the target alone writes for such a story, prompt and reply.
using AloneWriter = std::function<std::vector<TokenId>(uint64_t session, uint32_t tokens)>;

// Sessions beside one another, each with a text and a policy of its own. Returns how many hints came.
inline uint64_t WriteBesideOthers(const std::string& address, uint64_t count, uint32_t tokens,
                                  const AloneWriter& alone) {
  std::vector<std::vector<TokenId>> expected;
  for (uint64_t i = 0; i < count; ++i) expected.push_back(alone(i, tokens));
  std::atomic<uint64_t> hints = 0;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] { hints += WriteOne(address, i, tokens, expected[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  return hints;
}

}  // namespace outrider
