// A target that writes alone reads the end of a prompt with its first pass: a run fewer, and the same
// text. What was never read is forgotten.
#include "client/device/target_conversation.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/cpu_target.h"
#include "common/engine/other_target.h"
#include "common/kernels/isa.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/stories_world.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

constexpr uint32_t kRows = 16;
constexpr uint32_t kContext = 100;

// Counts its runs, of which it may fail.
class Counted final : public OtherTarget {
 public:
  using OtherTarget::OtherTarget;

  void Run(std::span<Reading> readings, std::span<const Pass> passes,
           std::span<PassResult> results) override {
    ++runs;
    if (!fails) return OtherTarget::Run(readings, passes, results);
    for (Reading& reading : readings) reading.status = absl::DataLossError("cannot be read");
    for (PassResult& result : results) result.status = absl::DataLossError("cannot be read");
  }

  int runs = 0;
  bool fails = false;
};

class Page final : public Conversation::Observer {
 public:
  explicit Page(const Counted& target) : target_(target) {}

  void OnText(std::string_view) override {}
  void OnTokens(std::span<const TokenId> more) override {
    if (tokens.empty()) runs_to_first = target_.runs;
    tokens.insert(tokens.end(), more.begin(), more.end());
  }
  void OnPromptProgress(uint32_t processed, uint32_t) override { read = processed; }
  bool Interrupted() override { return interrupted || read >= interrupt_at; }

  std::vector<TokenId> tokens;
  int runs_to_first = 0;
  uint32_t read = 0;
  uint32_t interrupt_at = UINT32_MAX;  // tokens of the prompt
  bool interrupted = false;

 private:
  const Counted& target_;
};

class TargetConversationTest : public testing::Test {
 protected:
  std::unique_ptr<TargetConversation> NewConversation() {
    return OrDie(TargetConversation::Create(
        target_, turn_, OrDie(Chooser::Create({}, TheTokenizer().vocabulary_size())),
        OrDie(StopConditions::Create({.max_tokens = 8}, TheTokenizer()))));
  }
  static std::vector<TokenId> Prompt(size_t length) {
    std::vector<TokenId> tokens = TheTokenizer().Encode(
        "Once upon a time there was a little girl named Lily. She had a red ball, and every day "
        "she "
        "went to the park to play with it. One day a big dog came and took the ball away from her. "
        "Lily was very sad, and she sat down under a tree and cried until her mother came and saw "
        "it "
        "and said that all would be well.");
    OUTRIDER_CHECK(tokens.size() >= length, "the text is long enough");
    tokens.resize(length);
    return tokens;
  }
  std::vector<TokenId> After(const std::vector<TokenId>& prompt) {
    Page page(target_);
    const auto conversation = NewConversation();
    EXPECT_EQ(OrDie(conversation->Continue(prompt, false, page)), Ending::kComplete);
    return page.tokens;
  }

  const std::unique_ptr<ThreadPool> pool_ = OrDie(ThreadPool::Create(1));
  const std::unique_ptr<EngineTarget> engine_ =
      OrDie(LoadCpuTarget(*OrDie(ModelFile::Open(Stories())), Stories(),
                          {.context_length = kContext,
                           .sequence_count_max = 2,
                           .node_count_max = 0,
                           .row_count_max = kRows},
                          KernelsFor(BestIsa()), *pool_, nullptr));
  Counted target_{*engine_};
  Mutex turn_;
};

TEST_F(TargetConversationTest, AFirstTokenTakesAsManyRunsAsThePromptHasRows) {
  for (const size_t length : {1, 2, 15, 16, 17, 31, 32, 40, 80}) {
    SCOPED_TRACE(length);
    const std::vector<TokenId> prompt = Prompt(length);
    const auto conversation = NewConversation();
    Page page(target_);
    target_.runs = 0;
    ASSERT_EQ(OrDie(conversation->Continue(prompt, false, page)), Ending::kComplete);
    EXPECT_EQ(page.runs_to_first, static_cast<int>((length + kRows - 1) / kRows));
    // Of the same text token by token, each of which is a run.
    const auto slow = NewConversation();
    for (size_t known = 1; known < length; ++known) {
      Page none(target_);
      none.interrupted = true;
      ASSERT_TRUE(slow->Continue(std::span(prompt).first(known), false, none).ok());
    }
    Page again(target_);
    ASSERT_TRUE(slow->Continue(prompt, false, again).ok());
    EXPECT_EQ(again.tokens, page.tokens);
    EXPECT_EQ(conversation->stats().prompt_tokens, length);
  }
}

TEST_F(TargetConversationTest, WhatWasNotReadIsForgotten) {
  const std::vector<TokenId> prompt = Prompt(40);
  const std::vector<TokenId> expected = After(prompt);
  for (const uint32_t at : {0u, 1u}) {  // before anything is read, and in the middle
    const auto conversation = NewConversation();
    Page page(target_);
    page.interrupt_at = at;
    EXPECT_EQ(OrDie(conversation->Continue(prompt, false, page)), Ending::kInterrupted);
    EXPECT_LT(conversation->tokens().size(), prompt.size());
    Page again(target_);
    EXPECT_TRUE(conversation->Continue(prompt, false, again).ok());
    EXPECT_EQ(again.tokens, expected) << at;
  }
}

TEST_F(TargetConversationTest, AfterARunThatFailedItGoesOn) {
  const std::vector<TokenId> prompt = Prompt(12), longer = Prompt(20);
  const std::vector<TokenId> expected = After(longer);
  const auto conversation = NewConversation();
  Page page(target_), again(target_);
  target_.fails = true;
  EXPECT_FALSE(conversation->Continue(prompt, false, page).ok());
  EXPECT_TRUE(conversation->tokens().empty());
  target_.fails = false;
  EXPECT_TRUE(conversation->Continue(longer, false, again).ok());
  EXPECT_EQ(again.tokens, expected);
}

TEST_F(TargetConversationTest, APromptThatFillsTheContextHasItsToken) {
  const std::vector<TokenId> prompt = Prompt(kContext);
  const auto conversation = NewConversation();
  Page page(target_);
  EXPECT_EQ(OrDie(conversation->Continue(prompt, false, page)), Ending::kContextFull);
  EXPECT_EQ(page.tokens.size(), 1u);
  EXPECT_EQ(conversation->tokens().size(), kContext + 1);
}

}  // namespace
}  // namespace outrider
