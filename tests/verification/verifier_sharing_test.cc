// The verifier machine, event by event: strangers who want all of the target's memory.
#include "common/verification/machine/verifier_machine.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using StreamNumber = VerifierMachine::StreamNumber;

// Eight sessions have all there is.
constexpr uint32_t kAll = 8;

v1::ClientMessage OpenShort(uint64_t nonce, std::string_view prompt, uint32_t tokens) {
  auto open = OpenOf(nonce, prompt, v1::DRY_POLICY_ALONE);
  open.mutable_open()->mutable_stops()->set_max_tokens(tokens);
  return open;
}

TEST(VerifierMachine, WhoHasAllMemoryIdleKeepsNobodyOut) {
  VerifierWorld world;
  for (uint64_t nonce = 1; nonce <= kAll; ++nonce) {
    world.Send(world.Connect("", "there"), OpenOf(nonce, "mine", v1::DRY_POLICY_WAIT));
  }
  world.Runs();
  const StreamNumber stream = world.Connect("", "here");
  world.Send(stream, OpenShort(1, "yours", 5));  // no time has passed
  EXPECT_FALSE(world.line(stream).ended);
  EXPECT_EQ(world.machine().stats().evictions, 1u);
  world.Runs();
  EXPECT_EQ(VerdictsOf(world.News(stream)).back().hash(), HashOf(TextAfter("yours", 5)));
}

// Whoever is in the run keeps its memory until that is over, and who wants some waits so long.
TEST(VerifierMachine, WhoHasAllMemoryAtWorkKeepsNobodyOut) {
  VerifierWorld world;
  std::vector<std::unique_ptr<GrowingDevice>> crowd;
  for (uint64_t nonce = 1; nonce <= kAll; ++nonce) {
    crowd.push_back(std::make_unique<GrowingDevice>(
        world, "many", OpenShort(nonce, "of many" + std::to_string(nonce), 30)));
    crowd.back()->Attach();
    if (nonce == 1) world.Run();
  }
  world.Runs(3);
  ASSERT_NE(world.run(), nullptr);
  GrowingDevice one(world, "one", OpenShort(1, "alone", 10));
  one.Attach();
  one.Listen();
  EXPECT_TRUE(one.attached());
  EXPECT_EQ(world.machine().stats().sessions_waiting, 1u);
  EXPECT_EQ(world.machine().stats().evictions, 0u);
  world.Run();
  EXPECT_EQ(world.machine().stats().evictions, 1u);
  EXPECT_EQ(world.machine().stats().sessions_waiting, 1u) << "who has given it waits in its turn";
  world.Runs(12);
  one.Listen();
  EXPECT_EQ(one.text(), TextAfter("alone", 10)) << "and is written at once";
  world.Runs();
  for (uint64_t nonce = 1; nonce <= kAll; ++nonce) {
    GrowingDevice& device = *crowd[nonce - 1];
    device.Listen();
    EXPECT_EQ(device.text(), TextAfter("of many" + std::to_string(nonce), 30));
  }
}

TEST(VerifierMachine, WhoHasAShareOfItsOwnTakesNoMore) {
  VerifierWorld world;
  const auto has_room = [&](std::string_view key, uint64_t nonce) {
    const StreamNumber stream = world.Connect(key);
    world.Send(stream, OpenShort(nonce, "text", 200));
    return !world.line(stream).ended.has_value();
  };
  for (uint64_t nonce = 1; nonce <= kAll; ++nonce) EXPECT_TRUE(has_room("many", nonce));
  for (uint64_t nonce = 1; nonce <= kAll / 2; ++nonce) {
    EXPECT_TRUE(has_room("some", nonce));
    world.Runs(2);
  }
  EXPECT_EQ(world.machine().stats().evictions, kAll / 2);
  EXPECT_FALSE(has_room("some", kAll));
  EXPECT_FALSE(has_room("many", kAll + 1));
}

}  // namespace
}  // namespace outrider
