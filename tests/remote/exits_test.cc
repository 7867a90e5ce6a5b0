// A server's early exits over a real socket: what they say comes while the pass is running, and
// changes no token.
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/simulator/world/time_profile.h"
#include "client/verifier/remote_verifier.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/formats/models/exits_file.h"
#include "common/text/fingerprint.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"
#include "tests/remote/stories_exits.h"
#include "tests/test_files.h"

namespace outrider {
namespace {

class ExitsTest : public testing::Test {
 protected:
  std::string Write(const TrainedExits& exits) {
    const std::string path = dir_.File("stories.exits.gguf");
    OUTRIDER_CHECK_OK(WriteExits(exits, path));
    return path;
  }

  ScratchDir dir_;
};

// --- tokens ---

// By the target in this process.
std::vector<TokenId> AloneHere(uint64_t session, uint32_t tokens) {
  const SessionOptions options = StoryOf(session, tokens);
  return Alone(options.prompt, options.sampling, options.stops, true).tokens;
}

TEST_F(ExitsTest, ChangeNoToken) {
  // Whatever they say: these are of random weights, and mostly wrong.
  const std::string exits = Write(StoriesExits({1, 2, 3}, 0.5f));
  ServerProcess server(0, {"--sessions", "64", "--exits", exits});
  uint64_t hints = WriteBesideOthers(server.address(), 1, 80, AloneHere);
  hints += WriteBesideOthers(server.address(), 8, 60, AloneHere);
  hints += WriteBesideOthers(server.address(), 64, 12, AloneHere);
  EXPECT_GT(hints, 0u);
  EXPECT_EQ(server.Stop(), 0);
}

// --- time ---

// Keeps when each message came.
class Arrivals final : public Verifier::Listener {
 public:
  struct Arrival {
    v1::ServerMessage message;
    MonotonicTime at;
  };

  explicit Arrivals(Verifier& verifier) : verifier_(verifier) {}

  void OnMessage(uint64_t stream, v1::ServerMessage&& message) override {
    verifier_.Read(stream);
    MutexLock lock(mu_);
    if (message.has_verdict()) ++verdict_count_;
    arrivals_.push_back({std::move(message), RealClock().Now()});
    changed_.NotifyAll();
  }
  void OnWritten(uint64_t) override {}
  void OnDown(uint64_t, const absl::Status&) override {
    MutexLock lock(mu_);
    is_down_ = true;
    changed_.NotifyAll();
  }

  std::vector<Arrival> AwaitVerdicts(uint32_t count) {
    MutexLock lock(mu_);
    const MonotonicTime deadline = RealClock().Now() + std::chrono::seconds(60);
    while (verdict_count_ < count && changed_.WaitUntil(mu_, deadline)) continue;
    return arrivals_;
  }
  void AwaitDown() {
    MutexLock lock(mu_);
    while (!is_down_) changed_.Wait(mu_);
  }

 private:
  Verifier& verifier_;
  Mutex mu_;
  CondVar changed_;
  std::vector<Arrival> arrivals_ ABSL_GUARDED_BY(mu_);
  uint32_t verdict_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_down_ ABSL_GUARDED_BY(mu_) = false;
};

v1::ClientMessage OpenWithHints() {
  v1::ClientMessage message;
  v1::Open& open = *message.mutable_open();
  open.set_nonce(1);
  open.set_attempt(1);
  open.set_dry_policy(v1::DRY_POLICY_ALONE);
  open.set_hints(true);
  SetPrompt(TheTokenizer().Encode("Once upon a time"), open);
  return message;
}

// When an exit's hint came, as a share of the pass.
struct HintTime {
  uint32_t exit;
  double of_pass;
};

// Of a server whose passes take that long and that goes on alone, so that a pass begins when the
// verdict before it leaves.
std::vector<HintTime> HintTimes(const std::string& model, const std::string& exits,
                                double pass_ms) {
  ServerProcess server(0, {"--exits", exits, "--pass", std::to_string(pass_ms)},
                       OUTRIDER_PACED_SERVER, model);
  const auto verifier = OrDie(RemoteVerifier::Connect(server.address()));
  Arrivals arrivals(*verifier);
  verifier->Open(1, arrivals);
  v1::ClientMessage open = OpenWithHints();
  verifier->Send(1, open);
  const std::vector<Arrivals::Arrival> came = arrivals.AwaitVerdicts(6);
  verifier->Close(1);
  arrivals.AwaitDown();

  std::optional<MonotonicTime> begin;
  std::vector<HintTime> times;
  for (const Arrivals::Arrival& arrival : came) {
    if (arrival.message.has_verdict()) begin = arrival.at;
    if (!arrival.message.has_hint() || !begin) continue;
    times.push_back({arrival.message.hint().exit(), ToMilliseconds(arrival.at - *begin) / pass_ms});
  }
  return times;
}

TEST_F(ExitsTest, HintsComeWhenTheirLayerIsDoneAndNotWhenThePassIs) {
  // After 2 of 5 layers and after 4; identities, so that they say something sensible.
  const std::string exits = Write(StoriesExits({1, 3}, 0));
  const std::vector<HintTime> times = HintTimes(Stories(), exits, 200);
  for (const HintTime& time : times) {
    const double depth = time.exit == 0 ? 0.4 : 0.8;
    EXPECT_GE(time.of_pass, depth - 0.1);
    EXPECT_LT(time.of_pass, depth + 0.1);
  }
  EXPECT_GE(times.size(), 5u);
}

// The demonstration target has an exit after 4 of its 8 layers: what it says is there before 60 % of
// the pass is over.
TEST_F(ExitsTest, TheHalfWayHintIsThereBeforeSixTenthsOfThePass) {
  const std::string model = TestFile("../../deploy/demo-models/target.gguf");
  const std::string exits = TestFile("../../deploy/demo-models/target.exits.gguf");
  uint32_t half_way = 0;
  for (const HintTime& time : HintTimes(model, exits, 200)) {
    if (time.exit != 0) continue;
    EXPECT_GE(time.of_pass, 0.45);
    EXPECT_LT(time.of_pass, 0.6);
    ++half_way;
  }
  EXPECT_GE(half_way, 3u);
}

// --- files ---

TEST_F(ExitsTest, ThoseOfAnotherModelAreRefusedWithBothHashes) {
  TrainedExits exits = StoriesExits({1}, 0);
  exits.target.content_hash = 0x1234;
  const std::string path = Write(exits);
  const std::string command = Concat(OUTRIDER_SERVER, " --listen 127.0.0.1:0 --model ", Stories(),
                                     " --exits ", path, " 2>&1");
  FILE* const program = popen(command.c_str(), "r");
  ASSERT_NE(program, nullptr);
  std::string said;
  for (int letter = 0; (letter = fgetc(program)) != EOF;) said += static_cast<char>(letter);
  EXPECT_EQ(WEXITSTATUS(pclose(program)), 1);
  EXPECT_NE(said.find("0000000000001234"), std::string::npos) << said;
  const auto engine = OrDie(
      LoadCpuEngine(*Good().file, "stories", {}, KernelsFor(BestIsa()), *Good().pool, nullptr));
  EXPECT_NE(said.find(FingerprintDigits(engine->info().content_hash)), std::string::npos) << said;
}

}  // namespace
}  // namespace outrider
