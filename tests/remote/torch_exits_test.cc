// A target on libtorch with exits, over a real socket: hints come, and change no token.
#include <string>
#include <vector>

#include "client/verifier/remote_verifier.h"
#include "common/formats/models/exits_file.h"
#include "common/verification/wire_options.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "tests/base/scratch_dir.h"
#include "tests/remote/server_process.h"
#include "tests/remote/stories_exits.h"

namespace outrider {
namespace {

TEST(TorchExitsTest, ChangeNoToken) {
  const ScratchDir dir;
  const std::string exits = dir.File("stories.exits.gguf");
  OUTRIDER_CHECK_OK(WriteExits(StoriesExits({1, 2, 3}, 0.5f), exits));

  // The same engine alone, and without exits: its arithmetic is its own, so no other will do.
  const ServerProcess plain(0, {"--device", "torch"});
  const auto verifier = OrDie(RemoteVerifier::Connect(plain.address()));
  const auto alone = [&](uint64_t session, uint32_t tokens) {
    const SessionOptions story = StoryOf(session, tokens);
    v1::GenerateRequest request;
    SetPrompt(story.prompt, *request.mutable_open());
    ToWire(story.sampling, *request.mutable_open()->mutable_sampling());
    ToWire(story.stops, *request.mutable_open()->mutable_stops());
    request.mutable_open()->mutable_stops()->set_continues_text(true);
    std::vector<TokenId> written = story.prompt;
    const absl::Status status = verifier->Generate(request, [&](const v1::GenerateResponse& said) {
      for (const uint32_t token : said.tokens()) written.push_back(static_cast<TokenId>(token));
      return true;
    });
    EXPECT_TRUE(status.ok()) << status;
    return written;
  };

  ServerProcess server(0, {"--device", "torch", "--sessions", "64", "--exits", exits});
  EXPECT_GT(WriteBesideOthers(server.address(), 1, 80, alone), 0u);  // greedily
  EXPECT_GT(WriteBesideOthers(server.address(), 8, 60, alone), 0u);  // half of them sampled
  WriteBesideOthers(server.address(), 64, 12, alone);
  EXPECT_EQ(server.Stop(), 0);
}

}  // namespace
}  // namespace outrider
