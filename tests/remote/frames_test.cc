// What somebody who counts bytes on a link learns of a session: of padded messages, no size but those
// that were chosen.
#include <set>
#include <string>

#include "bench/emulators/link_emulator.h"
#include "client/verifier/remote_verifier.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/remote/server_process.h"
#include "tests/remote/wire_place.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;
using Way = LinkEmulator::Way;

constexpr uint32_t kTokens = 120;
constexpr const char* kPrompt = "Once upon a time";
constexpr size_t kWatched = 20;  // messages, or about that, of each way

// The sizes of messages that such a link has carried until its cut; the text is as it should be.
std::set<size_t> SizesOf(const ServerProcess& server, Way way, uint32_t frame_bytes) {
  const uint64_t bytes = kWatched * (frame_bytes == 0 ? 40 : frame_bytes + 14) + 600;
  const auto link = OrDie(LinkEmulator::Start(
      {.server_port = server.port(), .cut = LinkEmulator::Cut{.way = way, .bytes = bytes}}));
  const auto verifier = OrDie(RemoteVerifier::Connect(Concat("127.0.0.1:", link->port())));
  SessionOptions options;
  options.prompt = TheTokenizer().Encode(kPrompt);
  options.continues_text = true;
  options.stops.max_tokens = kTokens;
  options.frame_bytes = frame_bytes;
  const std::string alone = Alone(options.prompt, {}, options.stops, true).text;
  DraftedSession drafted(options, Damaged(), PolicyKind::kOurs, *verifier);
  Screen screen;
  const absl::Status status = drafted.driver().Run(Session::Start{}, screen);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(screen.Take(), alone);
  drafted.driver().Close();
  EXPECT_EQ(drafted.session().stats().attachments, 2u);  // it went on over another connection
  const auto passed = link->passed_before_cut();
  EXPECT_TRUE(passed.has_value());
  const std::vector<size_t> sizes = WirePlace::MessageSizes(passed.value_or(""));
  EXPECT_GE(sizes.size(), frame_bytes == 0 ? 5 : kWatched / 2);
  return std::set(sizes.begin(), sizes.end());
}

TEST(FramesTest, EveryMessageHasTheChosenSizeBothWays) {
  const ServerProcess server;
  for (const Way way : {Way::kUp, Way::kDown}) {
    EXPECT_THAT(SizesOf(server, way, 256), ElementsAre(256u));
    for (const size_t size : SizesOf(server, way, 32)) EXPECT_EQ(size % 32, 0u);
    EXPECT_GT(SizesOf(server, way, 0).size(), 1u);  // which would tell something
  }
}

TEST(FramesTest, AReplyThatIsWrittenAtTheServerTellsNothingEither) {
  const ServerProcess server(0, {"--draft", DamagedStories()});
  for (const uint32_t frame_bytes : {0, 64}) {
    const auto link = OrDie(LinkEmulator::Start(
        {.server_port = server.port(),
         .cut = LinkEmulator::Cut{.way = Way::kDown, .bytes = kWatched * (frame_bytes + 40)}}));
    const auto verifier = OrDie(RemoteVerifier::Connect(Concat("127.0.0.1:", link->port())));
    v1::GenerateRequest request;
    request.set_draft(true);
    SetPrompt(TheTokenizer().Encode(kPrompt), *request.mutable_open());
    request.mutable_open()->mutable_stops()->set_max_tokens(kTokens);
    request.mutable_open()->set_frame_bytes(frame_bytes);
    // Until it is cut: this one is not resumed.
    (void)verifier->Generate(request, [](const v1::GenerateResponse&) { return true; });
    ASSERT_TRUE(link->passed_before_cut().has_value());
    const std::vector<size_t> sizes = WirePlace::MessageSizes(*link->passed_before_cut());
    EXPECT_THAT(sizes, SizeIs(testing::Ge(kWatched / 2)));
    const std::set<size_t> different(sizes.begin(), sizes.end());
    if (frame_bytes == 0) {
      EXPECT_GT(different.size(), 1u);
    } else {
      EXPECT_THAT(different, ElementsAre(frame_bytes));
    }
  }
}

}  // namespace
}  // namespace outrider
