// A recording of a draft along its target's text is a trace that the simulator takes.
#include "bench/recorder/record_acceptance.h"

#include <string>
#include <vector>

#include "bench/simulator/sources/trace.h"
#include "bench/simulator/studies/figures.h"
#include "bench/simulator/studies/lossless.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/client/stories_world.h"

namespace outrider {
namespace {

RecordingAsked Asked(std::string draft) {
  RecordingAsked asked;
  asked.target = std::string(OUTRIDER_STORIES_DIR) + "/stories.gguf";
  asked.draft = std::string(OUTRIDER_STORIES_DIR) + "/" + draft;
  asked.prompt = "Once upon a time";
  asked.tokens = 60;
  asked.sampling = Sampled(3);
  return asked;
}

// How often what the draft thinks most probable is what the target has chosen, in simulated passes.
double TokensAPass(const std::string& recording) {
  const ScratchDir dir;
  const auto world = *World::Create({.trace_path = dir.Write("run.trace", recording)});
  Scenario scenario;
  scenario.one_processor = true;
  scenario.policy = {PolicyKind::kChain, 4};
  scenario.prompts = {{world->trace()->prompt().begin(), world->trace()->prompt().end()}};
  scenario.max_tokens = 50;
  Simulation simulation(*world, scenario);
  EXPECT_TRUE(simulation.Run());
  EXPECT_TRUE(CheckTexts(simulation).ok()) << CheckTexts(simulation);
  return 1 / FiguresOf(simulation).passes_per_token;
}

TEST(RecordAcceptance, HasTheTargetsTextAndWhatTheDraftSaysThere) {
  const std::string recording = OrDie(RecordAcceptance(Asked("stories.gguf")));
  const Trace trace = OrDie(Trace::Parse(recording, "recording"));
  const std::vector<TokenId> prompt = TheTokenizer().Encode("Once upon a time");
  EXPECT_EQ(std::vector(trace.prompt().begin(), trace.prompt().end()), prompt);
  StopOptions stops;
  stops.max_tokens = 60;
  const Written alone = Alone(prompt, Sampled(3), stops, true);
  std::vector<TokenId> recorded = prompt;
  size_t line = recording.find("\nplace ");
  for (; line != std::string::npos; line = recording.find("\nplace ", line + 1)) {
    recorded.push_back(static_cast<TokenId>(std::stoi(recording.substr(line + 7))));
  }
  EXPECT_EQ(recorded, alone.tokens);
}

// A target drafts for itself without a fault, with its own noise; a damaged copy does worse.
TEST(RecordAcceptance, IsAsRightInPassesAsTheDraftIs) {
  EXPECT_GT(TokensAPass(OrDie(RecordAcceptance(Asked("stories.gguf")))),
            4.5);  // of 5, the last one cut
  const double damaged = TokensAPass(OrDie(RecordAcceptance(Asked("damaged_stories.gguf"))));
  EXPECT_LT(damaged, 4.2);
  EXPECT_GT(damaged, 1.1);
}

TEST(RecordAcceptance, SaysWhatItCannotRead) {
  RecordingAsked asked = Asked("none.gguf");
  EXPECT_NE(RecordAcceptance(asked).status().message().find("none.gguf"), std::string::npos);
  asked.target = "nowhere.gguf";
  EXPECT_NE(RecordAcceptance(asked).status().message().find("nowhere.gguf"), std::string::npos);
}

}  // namespace
}  // namespace outrider
