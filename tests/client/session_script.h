// A session whose verifier is the test itself, which writes out every message and says what time it
// is.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "client/session/session.h"
#include "common/base/status.h"
#include "common/speculation/control/fixed_controller.h"
#include "common/speculation/policies/chain_policy.h"
#include "common/verification/verdict_message.h"
#include "gtest/gtest.h"
#include "tests/client/oracle.h"

namespace outrider {

// Whatever is drafted joins, and goes up at once; then the newest node is grown.
class EagerPolicy : public TreePolicy {
 public:
  std::string_view name() const override { return "eager"; }
  void Join(const DraftView& draft, std::vector<uint32_t>& candidates) override {
    for (uint32_t i = 0; i < draft.candidates.size(); ++i) candidates.push_back(i);
  }
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override {
    const auto newest = static_cast<uint32_t>(draft.nodes.size() - 1);
    if (draft.nodes[newest].children == DraftNode::Children::kUnknown) batch.push_back({newest, 1});
  }
  Sending Send(const DraftView&, bool) override { return Sending::kSend; }
};

// What is drafted joins and goes up; every node is grown in a batch of its own.
class NodeByNodePolicy : public EagerPolicy {
 public:
  void Expand(const DraftView& draft, std::vector<Expansion>& batch) override {
    for (uint32_t i = 0; i < draft.nodes.size() && batch.empty(); ++i) {
      if (draft.nodes[i].children == DraftNode::Children::kUnknown) batch.push_back({i, 3});
    }
  }
};

// Actions are kept by kind until they are asked for.
class ScriptTest : public ::testing::Test {
 protected:
  using Grow = v1::Grow;

  void Begin(SessionOptions options = {}) {
    if (options.prompt.empty()) options.prompt = {'a', 'b', 'c'};
    if (controller_ == nullptr) controller_ = &fixed_.emplace(*policy_);
    auto session =
        Session::Create(std::move(options), {TheOracle().tokenizer(), *controller_, costs_,
                                             [this] { return bits_ += 0x9e3779b97f4a7c15; }});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    Handle(Session::Start{});
  }

  // Attached, with an answer that grants everything.
  void BeginAttached(SessionOptions options = {}, bool drafts = false) {
    Begin(std::move(options));
    ASSERT_TRUE(TakeUp().has_open());
    Opened(drafts);
  }

  void Handle(const Session::Event& event, bool more_follow = false) {
    std::vector<Session::Action> actions;
    session_->Handle(event, now_, actions, more_follow);
    for (Session::Action& action : actions) {
      if (auto* const open = std::get_if<Session::OpenStream>(&action)) stream_ = open->stream;
      if (auto* const send = std::get_if<Session::Send>(&action)) up_.push_back(*send->message);
      if (std::get_if<Session::CloseStream>(&action)) ++closed_;
      if (auto* const draft = std::get_if<Session::Draft>(&action)) {
        batch_ = draft->batch;
        asked_.push_back({draft->contexts.begin(), draft->contexts.end()});
      }
      if (auto* const commit = std::get_if<Session::Commit>(&action)) {
        text_ += commit->text;
        finish_ = commit->finish;
      }
      if (auto* const timer = std::get_if<Session::SetTimer>(&action)) timer_ = timer->at;
      if (auto* const report = std::get_if<Session::Report>(&action)) {
        reports_.push_back(std::string(Message(report->status)));
      }
      if (auto* const end = std::get_if<Session::End>(&action)) end_ = end->status;
    }
  }

  // The one message that was sent; the stream takes it, and whatever comes of that stays.
  v1::ClientMessage TakeUp() {
    EXPECT_EQ(up_.size(), 1u);
    if (up_.empty()) return {};
    const v1::ClientMessage message = up_.front();
    up_.clear();
    Handle(Session::Written{stream_});
    return message;
  }

  void Down(const v1::ServerMessage& message) { Handle(Session::Received{stream_, message}); }

  void Opened(bool drafts = false) {
    v1::ServerMessage message;
    v1::Opened& opened = *message.mutable_opened();
    opened.set_session("name");
    opened.set_token(Concat("token ", ++tokens_));
    opened.set_pass_nodes(16);
    opened.set_sketch_nodes_max(256);
    opened.set_numerics_id(numerics_id_);
    opened.set_drafts(drafts);
    opened.set_growth_follows(growth_follows_);
    Down(message);
  }

  // The server has what the device has, and then `more`.
  v1::ServerMessage ResumedMessage(const std::vector<TokenId>& tokens, size_t known) {
    v1::ServerMessage message;
    v1::Resumed& resumed = *message.mutable_resumed();
    resumed.set_token(Concat("token ", ++tokens_));
    resumed.set_length(static_cast<uint32_t>(tokens.size()));
    resumed.set_hash(HashOf(tokens));
    for (size_t i = known; i < tokens.size(); ++i) {
      resumed.add_tokens(static_cast<uint32_t>(tokens[i]));
    }
    resumed.set_verdict(verdicts_);
    return message;
  }

  static uint64_t HashOf(std::span<const TokenId> tokens) {
    TokenHistory history(
        {.vocabulary_size = TheOracle().tokenizer().vocabulary_size(), .capacity = tokens.size()});
    OUTRIDER_CHECK_OK(history.Append(tokens));
    return history.hash();
  }

  // That commits `path` (down to node `leaf`) and `next`, as it would be now.
  v1::ServerMessage VerdictMessage(NodeId leaf, std::string_view path, char next) {
    std::vector<TokenId> tokens = Committed();
    tokens.insert(tokens.end(), path.begin(), path.end());
    tokens.push_back(next);
    v1::ServerMessage message;
    v1::Verdict& verdict = *message.mutable_verdict();
    ++verdicts_;
    verdict.set_seen(leaf);
    SetLeaf(leaf, verdict);
    verdict.set_next(static_cast<uint32_t>(next));
    verdict.set_hash(VerdictHash(HashOf(tokens)));
    return message;
  }

  // The same, where the server has drafted `path`.
  v1::ServerMessage PathMessage(std::string_view path, char next) {
    v1::ServerMessage message = VerdictMessage(0, path, next);
    for (const char token : path) message.mutable_verdict()->add_path(static_cast<uint32_t>(token));
    return message;
  }

  void Fault(v1::Fault::Kind kind, const std::string& sentence, uint32_t retry_ms = 0) {
    v1::ServerMessage message;
    message.mutable_fault()->set_kind(kind);
    message.mutable_fault()->set_message(sentence);
    message.mutable_fault()->set_retry_ms(retry_ms);
    Down(message);
  }

  // The drafter proposes this letter below the tip of the chain it was asked about.
  void Drafted(char letter) {
    const Proposal proposal = {letter, 0.9};
    const std::span<const Proposal> children(&proposal, 1);
    Handle(Session::Drafted{batch_, {&children, 1}, absl::OkStatus()});
  }

  // The policy of these tests sends three in a row.
  Grow SendChain(std::string_view letters) {
    for (const char letter : letters) Drafted(letter);
    return TakeUp().grow();
  }

  void Lose() { Handle(Session::StreamDown{stream_, absl::UnavailableError("no route")}); }
  void Wait(Duration duration) {
    now_ += duration;
    Handle(Session::TimerFired{});
  }
  void AwaitRetry() {
    now_ = std::max(now_, timer_);
    Handle(Session::TimerFired{});
  }

  std::vector<TokenId> Committed() const {
    return {session_->committed().begin(), session_->committed().end()};
  }
  static std::vector<TokenId> Tokens(std::string_view text) { return {text.begin(), text.end()}; }

  ChainPolicy chain_{3};
  EagerPolicy eager_;
  NodeByNodePolicy node_by_node_;
  TreePolicy* policy_ = &chain_;
  Controller* controller_ = nullptr;  // null: policy_, whatever happens
  std::optional<FixedController> fixed_;
  CostModel costs_;
  uint64_t bits_ = 0;
  std::unique_ptr<Session> session_;
  MonotonicTime now_ = {};
  MonotonicTime timer_ = {};
  uint64_t stream_ = 0;
  std::vector<v1::ClientMessage> up_;
  int closed_ = 0;
  uint64_t batch_ = 0;                                // the last one
  std::vector<std::vector<Drafter::Context>> asked_;  // of all batches
  std::string text_;
  v1::Finish finish_ = v1::FINISH_NONE;
  std::vector<std::string> reports_;
  std::optional<absl::Status> end_;
  bool growth_follows_ = false;
  std::string numerics_id_ = "one";
  uint32_t tokens_ = 0;
  uint32_t verdicts_ = 0;
};

}  // namespace outrider
