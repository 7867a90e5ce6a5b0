// What waits for a session while it is at something else is taken in before it does anything more.
#include "client/driver/session_driver.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "client/session/session.h"
#include "common/speculation/control/fixed_controller.h"
#include "common/speculation/policies/chain_policy.h"
#include "common/tokens/token_history.h"
#include "common/verification/verdict_message.h"
#include "gtest/gtest.h"
#include "tests/client/oracle.h"

namespace outrider {
namespace {

constexpr size_t kLengthMax = 64;
constexpr TokenId kWritten = 'x';

// Answers Open with a burst of verdicts, each of one token, and what is sent after it with the reply's end.
// It is the session's own thread that it answers on, so that all of a burst is there before any of it is read.
class BurstingVerifier final : public Verifier {
 public:
  BurstingVerifier(std::span<const TokenId> prompt, uint32_t burst)
      : burst_(burst),
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
      has_finished_ = true;
      grown_after_ = message.grow().seen();
      Decide(stream, v1::FINISH_TOKEN_LIMIT);
    } else if (message.has_close()) {
      listener_->OnDown(stream, absl::OkStatus());
    }
  }
  void Read(uint64_t) override {}
  void Close(uint64_t) override {}
  RunForecast Forecast(const RunShape& shape) const override { return ForecastOf(shape); }

  // Of the first growth: how many verdicts the device had seen.
  uint32_t grown_after() const { return grown_after_; }

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
  TokenHistory history_;
  Listener* listener_ = nullptr;
  bool has_finished_ = false;
  uint32_t grown_after_ = 0;
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
    return absl::OkStatus();
  }
};

class Nobody final : public ReplyObserver {
  void OnText(std::string_view) override {}
  void OnPromptProgress(uint32_t, uint32_t) override {}
  void OnReport(const absl::Status&) override {}
  bool Interrupted() override { return false; }
};

TEST(SessionDriver, WhatWaitsIsReadBeforeAnythingIsDraftedOrGrown) {
  constexpr uint32_t kBurst = 12;
  SessionOptions options;
  options.prompt = {'a', 'b', 'c'};
  options.length_max = kLengthMax;
  ChainPolicy policy(1);
  FixedController controller(policy);
  CostModel costs;
  BurstingVerifier verifier(options.prompt, kBurst);
  const auto session = Session::Create(
      options, {TheOracle().tokenizer(), controller, costs, [] { return uint64_t{7}; }});
  ASSERT_TRUE(session.ok()) << session.status();
  WrongDrafter drafter;
  const TokenHistory::Options history = {
      .vocabulary_size = TheOracle().tokenizer().vocabulary_size(), .capacity = kLengthMax + 1};
  SessionDriver driver(**session, drafter, history, verifier);
  Nobody nobody;
  ASSERT_TRUE(driver.Run(Session::Start{}, nobody).ok());
  EXPECT_EQ((*session)->committed().size(), options.prompt.size() + kBurst + 1);
  EXPECT_EQ(verifier.grown_after(), kBurst);
  // The prompt's, before anything had come, and those of the text that all verdicts have made.
  EXPECT_LE((*session)->stats().nodes_expanded, 3u);
  driver.Close();
}

}  // namespace
}  // namespace outrider
