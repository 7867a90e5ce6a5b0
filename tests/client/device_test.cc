// The device as a library, used as a stranger would use it: nothing but its header.
#include "client/device/device.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/stories.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Keeps what it is shown.
class Page final : public Conversation::Observer {
 public:
  void OnText(std::string_view text) override { text_ += text; }
  void OnTokens(std::span<const TokenId> tokens) override {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    token_count_ = tokens_.size();
  }
  void OnPromptProgress(uint32_t processed, uint32_t) override { read_ = processed; }
  void OnReport(const absl::Status& status) override { reports_.push_back(status); }
  bool Interrupted() override { return token_count_ >= token_count_max_; }

  void InterruptAfter(size_t tokens) { token_count_max_ = tokens; }
  const std::string& text() const { return text_; }
  const std::vector<TokenId>& tokens() const { return tokens_; }
  const std::vector<absl::Status>& reports() const { return reports_; }

 private:
  std::string text_;
  std::vector<TokenId> tokens_;
  std::atomic<size_t> token_count_ = 0;  // asked for on another thread
  uint32_t read_ = 0;
  std::vector<absl::Status> reports_;
  size_t token_count_max_ = SIZE_MAX;
};

std::unique_ptr<Device> LoadedDevice(DraftOptions draft, uint32_t conversation_count_max = 1) {
  DeviceOptions options;
  options.model = Stories();
  options.draft = std::move(draft);
  options.context = 200;
  options.conversation_count_max = conversation_count_max;
  auto device = Device::Open(options);
  OUTRIDER_CHECK_OK(device.status());
  uint64_t bytes = 0;
  OUTRIDER_CHECK_OK(
      (*device)->Load([&](uint64_t done, uint64_t, std::string_view) { bytes = done; }));
  EXPECT_GT(bytes, 0u);
  return *std::move(device);
}

std::unique_ptr<Conversation> NewConversation(Device& device, const ConversationOptions& asked) {
  auto conversation = device.Converse(asked);
  OUTRIDER_CHECK_OK(conversation.status());
  return *std::move(conversation);
}

// What is written after this, greedily or not.
std::string TextAfter(Device& device, Conversation& conversation, std::string_view prompt) {
  Page page;
  const auto ending =
      conversation.Continue(device.tokenizer().Encode(prompt), /*is_reply=*/false, page);
  EXPECT_TRUE(ending.ok()) << ending.status();
  EXPECT_TRUE(page.reports().empty());
  return page.text();
}

ConversationOptions Asked(uint64_t seed) {
  ConversationOptions asked = {.stops = {.max_tokens = 60}};
  if (seed > 0) asked.sampling = {.temperature = 0.8, .seed = seed};
  return asked;
}

std::vector<DraftOptions> Drafts() {
  DraftOptions damaged = {.model = DamagedStories()};
  DraftOptions ngram = {.model = std::string(kNgramDraft)};
  ngram.policy.kind = PolicyKind::kChain;
  return {{}, damaged, ngram};
}

TEST(DeviceTest, ADraftChangesNoText) {
  for (const uint64_t seed : {0, 7}) {
    std::vector<std::string> texts;
    for (const DraftOptions& draft : Drafts()) {
      const auto device = LoadedDevice(draft);
      const auto conversation = NewConversation(*device, Asked(seed));
      texts.push_back(TextAfter(*device, *conversation, "Once upon a time"));
      const ConversationStats stats = conversation->stats();
      EXPECT_EQ(stats.generated_tokens, 60u);
      EXPECT_EQ(stats.session.has_value(), !draft.model.empty());
    }
    EXPECT_FALSE(texts[0].empty());
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
  }
}

TEST(DeviceTest, TwoConversationsAtOnceWriteWhatEachWouldAlone) {
  const std::vector<std::string> prompts = {"Once upon a time", "Lily had a red ball."};
  for (const DraftOptions& draft : Drafts()) {
    std::vector<std::string> alone;
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto device = LoadedDevice(draft);
      alone.push_back(TextAfter(*device, *NewConversation(*device, Asked(i)), prompts[i]));
    }
    const auto device = LoadedDevice(draft, 2);
    std::vector<std::string> together(prompts.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < prompts.size(); ++i) {
      threads.emplace_back([&, i, conversation = NewConversation(*device, Asked(i))] {
        together[i] = TextAfter(*device, *conversation, prompts[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(together, alone);
  }
}

TEST(DeviceTest, TurnsFollowOneAnotherAndCanBeTakenBack) {
  for (const DraftOptions& draft : Drafts()) {
    const auto device = LoadedDevice(draft);
    const auto conversation = NewConversation(*device, {.stops = {.max_tokens = 12}});
    TextAfter(*device, *conversation, "Once upon a time");
    const size_t length = conversation->tokens().size();
    const std::vector<TokenId> turn =
        device->tokenizer().Encode(" The cat", {.add_special = false});
    std::vector<std::string> replies;
    for (int i = 0; i < 2; ++i) {
      Page page;
      ASSERT_TRUE(conversation->Append(turn, page).ok());
      EXPECT_EQ(conversation->tokens().size(), length + turn.size() + page.tokens().size());
      replies.push_back(page.text());
      conversation->Truncate(length);
    }
    EXPECT_EQ(replies[0], replies[1]);
  }
}

TEST(DeviceTest, AnInterruptedReplyIsABeginningOfTheText) {
  for (const DraftOptions& draft : Drafts()) {
    const auto device = LoadedDevice(draft);
    const std::string whole =
        TextAfter(*device, *NewConversation(*device, {.stops = {.max_tokens = 60}}), "The dog");
    const auto conversation = NewConversation(*device, {.stops = {.max_tokens = 60}});
    Page page;
    page.InterruptAfter(0);
    const auto ending = conversation->Continue(device->tokenizer().Encode("The dog"), false, page);
    ASSERT_TRUE(ending.ok()) << ending.status();
    EXPECT_EQ(*ending, Ending::kInterrupted);
    EXPECT_THAT(whole, StartsWith(page.text()));
  }
}

TEST(DeviceTest, TheContextEndsAReplyAndSaysSo) {
  for (const DraftOptions& draft : Drafts()) {
    const auto device = LoadedDevice(draft);
    const auto conversation = NewConversation(*device, {.stops = {.at_end_of_generation = false}});
    Page page;
    const auto ending =
        conversation->Continue(device->tokenizer().Encode("Once upon a time"), false, page);
    ASSERT_TRUE(ending.ok()) << ending.status();
    EXPECT_EQ(*ending, Ending::kContextFull);
    EXPECT_EQ(conversation->tokens().size(), conversation->context_length() + 1);
  }
}

TEST(DeviceTest, SaysWhatCannotBeBeforeAModelIsLoaded) {
  const auto refusal = [](const DeviceOptions& options) {
    return std::string(Device::Open(options).status().message());
  };
  EXPECT_THAT(refusal({}), HasSubstr("a model or a server"));
  EXPECT_THAT(refusal({.model = "nowhere.gguf"}), HasSubstr("nowhere.gguf"));
  EXPECT_THAT(refusal({.server = "host:1"}), HasSubstr("needs --draft"));
  EXPECT_THAT(refusal({.server = "host:1", .draft = {.model = "ngram"}}),
              HasSubstr("brings no tokenizer"));
  EXPECT_THAT(refusal({.model = Stories(),
                       .draft = {.model = "ngram",
                                 .policy = {.kind = PolicyKind::kChain},
                                 .dry = v1::DRY_POLICY_ALONE}}),
              HasSubstr("always in one"));
  for (const auto& [change, flag] : std::vector<std::pair<void (*)(DraftOptions&), std::string>>{
           {[](DraftOptions& draft) { draft.exits = "e.gguf"; }, "--exits e.gguf: "},
           {[](DraftOptions& draft) { draft.pruning = PruningWay::kOn; }, "--spec-prune on: "},
           {[](DraftOptions& draft) { draft.projection = Projection::kPath; },
            "--spec-projection path: "}}) {
    DraftOptions draft = {.model = "ngram"};
    change(draft);
    EXPECT_THAT(refusal({.server = "host:1", .draft = draft}),
                AllOf(StartsWith(flag), HasSubstr("the target is at a server")));
  }
  EXPECT_THAT(refusal({.model = Stories(), .draft = {.exits = "nowhere.gguf"}}),
              AllOf(StartsWith("--exits nowhere.gguf: "), HasSubstr("nothing is drafted")));
  EXPECT_THAT(refusal({.model = Stories(), .draft = {.pruning = PruningWay::kOn}}),
              AllOf(StartsWith("--spec-prune on: "), HasSubstr("nothing is drafted")));
  EXPECT_EQ(refusal({.model = Stories(), .draft = {.exits = "none"}}), "");
  const auto device = Device::Open({.model = Stories()});
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE((*device)->Check({.sampling = {.temperature = -1}}).ok());
  EXPECT_TRUE((*device)->Check({}).ok());
}

}  // namespace
}  // namespace outrider
