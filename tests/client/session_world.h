// One session, a plain server and the link between them, in virtual time: whatever may happen next
// is a move, and a seed decides which does.
//
// It holds the session to its promise after every move: what was committed is a beginning of what
// the target alone writes, and what was shown is that text, each piece once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "client/session/session.h"
#include "gtest/gtest.h"
#include "tests/client/oracle.h"
#include "tests/client/plain_server.h"

namespace outrider {

class SessionWorld {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t skill_percent = 70;  // how often the drafter's first proposal is right
    uint32_t faults_percent = 0;  // of moves that break something
    bool drafter_fails = false;
    SessionOptions session;
    VerifiedSequence::Limits limits;
  };

  SessionWorld(Options options, const Oracle& oracle, Controller& controller)
      : options_(std::move(options)),
        oracle_(oracle),
        server_(oracle, options_.limits),
        random_(options_.seed) {
    auto session = Session::Create(
        options_.session, {oracle.tokenizer(), controller, costs_, [this] { return random_(); }});
    OUTRIDER_CHECK_OK(session.status());
    session_ = *std::move(session);
  }

  void Start() {
    ExpectReply(options_.session.prompt, options_.session.continues_text);
    Handle(Session::Start{});
  }

  // Moves until the reply has ended, or the session has.
  void RunReply() {
    for (int move = 0; session_->replying() && !end_; ++move) {
      ASSERT_LT(move, 200000) << "the reply never ends; seed " << options_.seed;
      Move();
      if (::testing::Test::HasFailure()) return;
    }
  }

  void Move() {
    now_ += std::chrono::microseconds(Below(3000));
    if (Below(1000) < options_.faults_percent * 10) return Break();
    using Step = void (SessionWorld::*)();
    std::vector<Step> steps;
    if (written_) steps.push_back(&SessionWorld::FinishWrite);
    if (!up_.empty()) steps.insert(steps.end(), 2, &SessionWorld::DeliverUp);
    if (!server_.down().empty()) steps.insert(steps.end(), 2, &SessionWorld::DeliverDown);
    if (!drafts_.empty()) steps.push_back(&SessionWorld::FinishDraft);
    if (server_.CanPass()) steps.push_back(&SessionWorld::Pass);
    if (steps.empty()) return AwaitTimer();
    (this->*steps[Below(steps.size())])();
  }

  // The user ends the reply where it is, or earlier, and says something.
  void Interrupt() {
    const auto length = options_.session.prompt.size() +
                        Below(session_->committed().size() - options_.session.prompt.size() + 1);
    CutShort(length);
    Say();
  }

  void Say() {
    std::vector<TokenId> turn;
    for (size_t i = Below(5) + 1; i > 0; --i) turn.push_back("abc"[Below(3)]);
    if (session_->committed().size() + turn.size() >= options_.session.length_max) return;
    if (Below(2) == 0 && session_->replying()) CutShort(session_->committed().size());
    const auto committed = session_->committed();
    std::vector<TokenId> before(committed.begin(), committed.end());
    before.insert(before.end(), turn.begin(), turn.end());
    ExpectReply(before, /*continues_text=*/false);
    Handle(Session::UserAppend{turn});
  }

  void Handle(const Session::Event& event) {
    actions_.clear();
    session_->Handle(event, now_, actions_);
    for (Session::Action& action : actions_) {
      std::visit([this](auto& which) { Do(which); }, action);
    }
    Check();
  }

  void Break() {
    switch (Below(4)) {
      case 0:
        server_.Restart();
        return Cut();
      case 1:  // it is told, but it keeps the session
        return Cut();
      case 2:  // silence: everything on the way is lost, and nobody says so
        up_.clear();
        server_.LoseStream();
        return;
      case 3: {
        v1::ServerMessage fault;
        const auto kinds = {v1::Fault::OVERLOADED, v1::Fault::DRAINING, v1::Fault::STALLED,
                            v1::Fault::DRIFTED, v1::Fault::UNKNOWN_SESSION};
        fault.mutable_fault()->set_kind(kinds.begin()[Below(kinds.size())]);
        fault.mutable_fault()->set_retry_ms(static_cast<uint32_t>(Below(100)));
        if (stream_) Handle(Session::Received{*stream_, fault});
        return;
      }
    }
  }

  // A beginning of what was on the way either way arrives, the rest is lost.
  void Cut() {
    if (!stream_) return;
    for (size_t i = Below(up_.size() + 1); i > 0 && !up_.empty(); --i) DeliverUp();
    for (size_t i = Below(server_.down().size() + 1); i > 0 && stream_; --i) {
      if (server_.down().empty()) break;
      DeliverDown();
    }
    if (!stream_) return;
    const uint64_t stream = *stream_;
    EndStream();
    Handle(Session::StreamDown{stream, absl::UnavailableError("cut")});
  }

  Session& session() { return *session_; }
  PlainServer& server() { return server_; }
  const std::optional<absl::Status>& end() const { return end_; }
  v1::Finish finish() const { return finish_; }
  const std::vector<absl::Status>& reports() const { return reports_; }
  const Oracle::Text& expected() const { return expected_; }
  const std::string& shown() const { return shown_; }
  MonotonicTime now() const { return now_; }

 private:
  size_t Below(size_t bound) { return random_() % bound; }

  // What was withheld, because it may have become a stop string, is shown then.
  void CutShort(size_t length) {
    finish_ = v1::FINISH_NONE;
    cut_short_ = true;
    Handle(Session::UserTruncate{static_cast<uint32_t>(length)});
  }

  // A reply that is about to begin.
  void ExpectReply(const std::vector<TokenId>& before, bool continues_text) {
    reply_begin_ = before.size();
    expected_ = oracle_.Alone(before, options_.session.stops, continues_text,
                              options_.limits.context_length);
    shown_.clear();
    cut_short_ = false;
    finish_ = v1::FINISH_NONE;
  }

  void Check() {
    const auto reply =
        session_->committed().subspan(std::min(reply_begin_, session_->committed().size()));
    ASSERT_LE(reply.size(), expected_.tokens.size());
    ASSERT_TRUE(std::equal(reply.begin(), reply.end(), expected_.tokens.begin()))
        << "seed " << options_.seed;
    if (!cut_short_) {
      ASSERT_TRUE(expected_.text.starts_with(shown_)) << "seed " << options_.seed;
    }
    if (finish_ != v1::FINISH_NONE) {
      ASSERT_EQ(reply.size(), expected_.tokens.size()) << "seed " << options_.seed;
      ASSERT_EQ(shown_, expected_.text) << "seed " << options_.seed;
      ASSERT_EQ(finish_ != v1::FINISH_LENGTH, expected_.ended);
    }
    ASSERT_EQ(server_.complaint(), "") << "seed " << options_.seed;
  }

  void Do(const Session::OpenStream& action) {
    ASSERT_FALSE(stream_) << "one stream at a time";
    stream_ = action.stream;
    server_.BeginStream();
  }
  void Do(const Session::Send& action) {
    ASSERT_EQ(action.stream, stream_);
    ASSERT_FALSE(written_) << "one message at a time";
    const bool has_text = action.message->has_open() || action.message->has_append();
    if (options_.session.frame_bytes > 0 && !has_text) {
      ASSERT_EQ(action.message->ByteSizeLong(), options_.session.frame_bytes);
    }
    written_ = *action.message;
  }
  void Do(const Session::CloseStream& action) {
    ASSERT_EQ(action.stream, stream_);
    EndStream();
  }
  void Do(const Session::Draft& action) {
    ++in_flight_;
    ASSERT_LE(in_flight_, options_.session.sketch.batch_count_max) << "seed " << options_.seed;
    drafts_.push_back({action.batch,
                       {action.committed.begin(), action.committed.end()},
                       {action.nodes.begin(), action.nodes.end()},
                       {action.contexts.begin(), action.contexts.end()}});
  }
  // Some drafters are done before they hear of it, and answer all the same.
  void Do(const Session::CancelDraft& action) {
    const auto batch = std::ranges::find(drafts_, action.batch, &Batch::number);
    ASSERT_NE(batch, drafts_.end()) << "what is cancelled is in flight";
    ASSERT_FALSE(std::exchange(batch->cancelled, true));
    --in_flight_;
    if (Below(2) == 0) drafts_.erase(batch);
  }
  void Do(const Session::Commit& action) {
    shown_ += action.text;
    if (action.finish != v1::FINISH_NONE) finish_ = action.finish;
  }
  void Do(const Session::Progress&) {}
  void Do(const Session::SetTimer& action) { timer_ = action.at; }
  void Do(const Session::Report& action) { reports_.push_back(action.status); }
  void Do(const Session::End& action) { end_ = action.status; }

  void EndStream() {
    stream_.reset();
    written_.reset();
    up_.clear();
    server_.LoseStream();
  }

  void FinishWrite() {
    up_.push_back(*std::exchange(written_, std::nullopt));
    Handle(Session::Written{*stream_});
  }

  void DeliverUp() {
    const v1::ClientMessage message = std::move(up_.front());
    up_.pop_front();
    server_.Take(message);
  }

  void DeliverDown() {
    const v1::ServerMessage message = std::move(server_.down().front());
    server_.down().pop_front();
    Handle(Session::Received{*stream_, message});
  }

  void Pass() { server_.Pass(); }

  void AwaitTimer() {
    ASSERT_TRUE(timer_) << "nobody waits for anything; seed " << options_.seed;
    now_ = std::max(now_, *std::exchange(timer_, std::nullopt));
    Handle(Session::TimerFired{});
  }

  void FinishDraft() {
    const Batch batch = std::move(drafts_.front());
    drafts_.pop_front();
    if (!batch.cancelled) --in_flight_;
    if (options_.drafter_fails) {
      return Handle(Session::Drafted{batch.number, {}, absl::InternalError("no model")});
    }
    std::vector<std::vector<Proposal>> lists;
    for (const Drafter::Context& context : batch.contexts) lists.push_back(Propose(batch, context));
    const std::vector<std::span<const Proposal>> children(lists.begin(), lists.end());
    Handle(Session::Drafted{batch.number, children, absl::OkStatus()});
  }

  struct Batch {
    uint64_t number;
    std::vector<TokenId> committed;
    std::vector<DraftedNode> nodes;
    std::vector<Drafter::Context> contexts;
    bool cancelled = false;
  };

  std::vector<Proposal> Propose(const Batch& batch, const Drafter::Context& context) {
    std::vector<TokenId> path;
    for (uint32_t i = context.node; i != DraftedNode::kRoot; i = batch.nodes[i].parent) {
      path.push_back(batch.nodes[i].token);
    }
    std::vector<TokenId> all = batch.committed;
    all.insert(all.end(), path.rbegin(), path.rend());
    const TokenId right = oracle_.Next(all);
    std::vector<Proposal> proposals;
    double confidence = options_.skill_percent / 100.0;
    if (Below(100) < options_.skill_percent) proposals.push_back({right, confidence});
    for (const char letter : {'a', 'b', 'c', 'd', ' '}) {
      if (proposals.size() == context.child_count) break;
      if (letter == right) continue;
      confidence *= 0.5;
      proposals.push_back({letter, confidence});
    }
    return proposals;
  }

  const Options options_;
  const Oracle& oracle_;
  PlainServer server_;
  std::mt19937_64 random_;
  CostModel costs_;
  std::unique_ptr<Session> session_;
  std::vector<Session::Action> actions_;

  MonotonicTime now_ = {};
  std::optional<MonotonicTime> timer_;
  std::optional<uint64_t> stream_;
  std::optional<v1::ClientMessage> written_;  // being written
  std::deque<v1::ClientMessage> up_;          // on the way
  std::deque<Batch> drafts_;                  // the drafter's, in order
  uint32_t in_flight_ = 0;                    // of them

  size_t reply_begin_ = 0;
  Oracle::Text expected_;
  std::string shown_;
  bool cut_short_ = false;
  v1::Finish finish_ = v1::FINISH_NONE;
  std::vector<absl::Status> reports_;
  std::optional<absl::Status> end_;
};

}  // namespace outrider
