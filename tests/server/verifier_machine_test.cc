#include "server/verifier_machine.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/verifier_world.h"

namespace outrider {
namespace {

TEST(VerifierMachine, ASessionIsOpenedAndItsDraftIsWalked) {
  VerifierWorld world;
  const auto stream = world.Connect();
  world.Send(stream, OpenOf(1, "once"));
  world.Runs();
  const std::vector<TokenId> text = ScriptedText(Tokens("once"), 10);
  world.Send(stream, ChainOf(0, 1, std::span(text).first(3)));
  world.Runs();
  const auto news = world.News(stream);
  ASSERT_EQ(news.size(), 2u);
  EXPECT_TRUE(news[0].has_opened());
  ASSERT_TRUE(news[1].has_verdict());
  EXPECT_EQ(news[1].verdict().leaf(), 3u);
  EXPECT_EQ(news[1].verdict().next(), static_cast<uint32_t>(text[3]));
  EXPECT_EQ(news[1].verdict().length(), 8u);
}

}  // namespace
}  // namespace outrider
