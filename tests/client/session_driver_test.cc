// What waits for a session while it is at something else is taken in before it does anything more.
#include "client/driver/session_driver.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "client/session/session.h"
#include "common/speculation/control/fixed_controller.h"
#include "common/speculation/policies/chain_policy.h"
#include "common/tokens/token_history.h"
#include "common/verification/verdict_message.h"
#include "gtest/gtest.h"
#include "tests/base/turn_ns.h"
#include "tests/client/oracle.h"

namespace outrider {
namespace {

constexpr size_t kLengthMax = 64;
constexpr TokenId kWritten = 'x';

// Answers Open with a burst of verdicts, each of one token, and the first node that grows with the reply's end.
// It is the session's own thread that it answers on, so that all of a burst is there before any of it is read.
class BurstingVerifier final : public Verifier {
 public:
  BurstingVerifier(std::span<const TokenId> prompt, uint32_t burst, bool shares_processor = false)
      : burst_(burst),
        shares_processor_(shares_processor),
        history_({.vocabulary_size = TheOracle().tokenizer().vocabulary_size(),
                  .capacity = kLengthMax}) {
    EXPECT_TRUE(history_.Append(prompt).ok());
  }

  void Open(uint64_t, Listener& listener) override { listener_ = &listener; }
  void Send(uint64_t stream, v1::ClientMessage& message) override {
    listener_->OnWritten(stream);
    if (message.has_open()) {
      v1::ServerMessage answer;
      v1::Opened& opened = *answer.mutable_opened();
      opened.set_session("name");
      opened.set_token("token");
      opened.set_pass_nodes(16);
      opened.set_sketch_nodes_max(64);
      listener_->OnMessage(stream, std::move(answer));
      for (uint32_t i = 0; i < burst_; ++i) Decide(stream, v1::FINISH_NONE);
    } else if (message.has_grow() && !has_finished_) {
      if (!grown_after_) grown_after_ = message.grow().seen();
      has_finished_ = !message.grow().nodes().empty();
      if (has_finished_) Decide(stream, v1::FINISH_TOKEN_LIMIT);
    } else if (message.has_close()) {
      listener_->OnDown(stream, absl::OkStatus());
    }
  }
  void Read(uint64_t) override {}
  void Close(uint64_t) override {}
  RunForecast Forecast(const RunShape& shape) const override {
    RunForecast forecast = ForecastOf(shape);
    forecast.shares_processor = shares_processor_;
    return forecast;
  }

  // Of the first growth: how many verdicts the device had seen.
  uint32_t grown_after() const { return grown_after_.value_or(0); }

 private:
  void Decide(uint64_t stream, v1::Finish finish) {
    EXPECT_TRUE(history_.Append({&kWritten, 1}).ok());
    v1::ServerMessage message;
    v1::Verdict& verdict = *message.mutable_verdict();
    SetLeaf(Sketch::kRoot, verdict);
    verdict.set_next(static_cast<uint32_t>(kWritten));
    verdict.set_hash(VerdictHash(history_.hash()));
    verdict.set_finish(finish);
    listener_->OnMessage(stream, std::move(message));
  }

  const uint32_t burst_;
  const bool shares_processor_;
  TokenHistory history_;
  Listener* listener_ = nullptr;
  bool has_finished_ = false;
  std::optional<uint32_t> grown_after_;
};

// Never right.
class WrongDrafter final : public Drafter {
 public:
  absl::Status Propose(const TokenHistory&, std::span<const DraftedNode>,
                       std::span<const Context> contexts, Proposals& proposals,
                       const Cancellation&) override {
    static constexpr Proposal kWrong = {'w', 0.5};
    proposals.Clear(contexts.size(), contexts.size());
    for (size_t i = 0; i < contexts.size(); ++i) proposals.Add({&kWrong, 1});
    turn_ns_ = TurnNs();
    return absl::OkStatus();
  }

  uint64_t turn_ns() const { return turn_ns_; }

 private:
  std::atomic<uint64_t> turn_ns_ = 0;
};

class Nobody final : public ReplyObserver {
  void OnText(std::string_view) override {}
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status&) override {}
  bool Interrupted() override { return false; }
};

class SessionDriverTest : public ::testing::Test {
 protected:
  // A reply that begins with so many verdicts at once.
  void Write(uint32_t burst, bool shares_processor = false) {
    SessionOptions options;
    options.prompt = {'a', 'b', 'c'};
    options.length_max = kLengthMax;
    ChainPolicy policy(1);
    FixedController controller(policy);
    CostModel costs;
    BurstingVerifier verifier(options.prompt, burst, shares_processor);
    const auto session = Session::Create(
        options, {TheOracle().tokenizer(), controller, costs, [] { return uint64_t{7}; }});
    ASSERT_TRUE(session.ok()) << session.status();
    const TokenHistory::Options history = {
        .vocabulary_size = TheOracle().tokenizer().vocabulary_size(), .capacity = kLengthMax + 1};
    SessionDriver driver(**session, drafter_, history, verifier);
    Nobody nobody;
    ASSERT_TRUE(driver.Run(Session::Start{}, nobody).ok());
    driver.Close();
    EXPECT_EQ((*session)->committed().size(), options.prompt.size() + burst + 1);
    grown_after_ = verifier.grown_after();
    nodes_expanded_ = (*session)->stats().nodes_expanded;
  }

  WrongDrafter drafter_;
  uint32_t grown_after_ = 0;
  uint64_t nodes_expanded_ = 0;
};

TEST_F(SessionDriverTest, WhatWaitsIsReadBeforeAnythingIsDraftedOrGrown) {
  constexpr uint32_t kBurst = 12;
  Write(kBurst);
  EXPECT_EQ(grown_after_, kBurst);
  // The prompt's, before anything had come, and those of the text that all verdicts have made.
  EXPECT_LE(nodes_expanded_, 3u);
}

TEST_F(SessionDriverTest, WhoDraftsLetsMessagesGoFirstUnlessATargetStandsStillForIt) {
  const uint64_t usual = TurnNs();
  if (usual == 0) GTEST_SKIP() << "this kernel has one length of turns for all";
  Write(1, /*shares_processor=*/false);
  EXPECT_GT(drafter_.turn_ns(), usual);
  Write(1, /*shares_processor=*/true);
  EXPECT_EQ(drafter_.turn_ns(), usual);
}

}  // namespace
}  // namespace outrider
