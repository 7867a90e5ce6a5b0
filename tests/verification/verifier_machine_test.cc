// The verifier machine, in worlds where only a seed decides what happens next. What holds over real
// links, faults and exits is the simulator's to show.
#include "common/verification/machine/verifier_machine.h"

#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/verification/device.h"
#include "tests/verification/verifier_news.h"
#include "tests/verification/verifier_world.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;

// One of the jobs that wait, with a chain of which each token is the target's choice with a
// probability of 0.7. Whether there was one.
bool AnswerDraft(VerifierWorld& world, std::mt19937_64& random) {
  if (world.drafts.empty()) return false;
  std::swap(world.drafts.back(), world.drafts[random() % world.drafts.size()]);
  const DraftJob job = std::move(world.drafts.back());
  world.drafts.pop_back();
  std::vector<TokenId>& told = world.told[job.session];
  EXPECT_LE(job.known_count, told.size());
  told.resize(job.known_count);
  told.insert(told.end(), job.tokens.begin(), job.tokens.end());
  std::vector<TokenId> chain;
  while (chain.size() < job.token_count_max) {
    const bool right = std::uniform_real_distribution<>()(random) < 0.7;
    chain.push_back(right ? ScriptedNext(told, chain) : 'a' + static_cast<TokenId>(random() % 26));
  }
  world.Tell(VerifierMachine::Drafted{job.session, chain, {}});
  return true;
}

struct Bustle {
  uint64_t device_count;
  uint64_t alike_count;  // whose prompts begin alike; every other one has the same key
  uint64_t run_chance;   // a run ends in one of so many events of its kind
};

struct Seen {
  uint64_t evictions = 0;
  uint64_t shared_tokens = 0;
  uint64_t drafted_here = 0;
};

std::string PromptOf(const Bustle& bustle, uint64_t i) {
  const std::string beginning = "prompt ";
  return (i < bustle.alike_count ? beginning + std::string(2 * kPageTokens, '.') : beginning) +
         std::to_string(i);
}

// Devices that draft well or badly, lose their links at any moment, and come back, on a server with
// too little memory for all of them, some with prompts that begin alike, some leaving drafting to the
// server now and then: each ends with the target's own text.
void WriteWhateverHappens(const Bustle& bustle, uint64_t seed, Seen& seen) {
  std::mt19937_64 random(seed);
  VerifierConfig config = SmallConfig();
  config.page_groups = {{.page_count = 3 * kPagesOfOne}};
  config.scheduler.row_count_max = 20;
  config.drafts = true;
  VerifierWorld world(config);
  constexpr v1::DryPolicy kPolicies[] = {v1::DRY_POLICY_ADAPTIVE, v1::DRY_POLICY_WAIT,
                                         v1::DRY_POLICY_ALONE};
  std::vector<std::unique_ptr<GrowingDevice>> devices;
  for (uint64_t i = 0; i < bustle.device_count; ++i) {
    auto open = OpenOf(i + 1, PromptOf(bustle, i), kPolicies[random() % 3]);
    open.mutable_open()->set_length_max(100 + random() % 100);
    open.mutable_open()->set_pass_nodes(random() % 10);
    devices.push_back(std::make_unique<GrowingDevice>(world, "key " + std::to_string(i % 2), open));
    devices.back()->Attach();
    world.Runs(random() % 4);
  }
  const auto is_done = [](const auto& device) { return device->finish() != v1::FINISH_NONE; };
  std::vector<bool> away(devices.size());
  for (int step = 0; step < 200'000 && !std::ranges::all_of(devices, is_done); ++step) {
    const size_t i = random() % devices.size();
    GrowingDevice& device = *devices[i];
    if (away[i]) {
      away[i] = random() % 4 > 0;
      if (!away[i]) device.Attach();
      continue;
    }
    switch (random() % 14) {
      case 0:
        if (random() % 4 > 0) break;
        device.Listen();  // or not: then what has come is lost
        device.Break();
        away[i] = random() % 2 == 0;
        if (!away[i]) device.Attach();
        break;
      case 1:
      case 2:
      case 3:
        device.Listen();
        if (device.fault()) {  // no room yet
          device.Break();
          device.Attach();
        }
        if (device.can_send()) device.Draft(random, 1 + random() % 5, 0.7);
        break;
      case 4:
        if (device.can_send()) device.Say(GoOf(device.verdict()));
        break;
      case 5:
        world.writes_at_once = !world.writes_at_once;
        break;
      case 6:
        world.Pass(milliseconds(random() % 50));
        break;
      case 7:
        if (device.can_send() && random() % 8 == 0) device.SayWhoDrafts(!device.server_drafts());
        break;
      case 8:
      case 9:
        seen.drafted_here += AnswerDraft(world, random);
        break;
      default:
        if (random() % bustle.run_chance == 0) world.Run();
        break;
    }
    device.Listen();
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    const auto& device = devices[i];
    const std::string prompt = PromptOf(bustle, i);
    EXPECT_EQ(device->text(), TextAfter(prompt, device->committed().size() - prompt.size()));
    EXPECT_EQ(device->finish(), v1::FINISH_LENGTH);
  }
  seen.evictions += world.machine().stats().evictions;
  seen.shared_tokens += world.machine().stats().shared_tokens;
}

Seen WriteInTwentyWorlds(const Bustle& bustle) {
  Seen seen;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    WriteWhateverHappens(bustle, seed, seen);
  }
  EXPECT_GT(seen.evictions, 0u);
  EXPECT_GT(seen.shared_tokens, 0u);
  return seen;
}

TEST(VerifierMachine, TheTextIsTheTargetsWhateverHappens) {
  const Seen seen = WriteInTwentyWorlds({.device_count = 5, .alike_count = 3, .run_chance = 1});
  EXPECT_GT(seen.drafted_here, 150u);
}

// Many begin alike, and much happens between two runs.
TEST(VerifierMachine, TheTextIsTheTargetsHoweverLongRunsTake) {
  WriteInTwentyWorlds({.device_count = 10, .alike_count = 10, .run_chance = 16});
}

}  // namespace
}  // namespace outrider
