// A device at the other end of a VerifierWorld: it commits what verdicts say, after it has checked
// all they say, and drafts as well or badly as it is told. Its copy of the sketch is a Sketch.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/tokens/growth_bits.h"
#include "common/tokens/sketch.h"
#include "common/tokens/token_history.h"
#include "common/verification/verdict_message.h"
#include "gtest/gtest.h"
#include "tests/verification/verifier_world.h"

namespace outrider {

class GrowingDevice {
 public:
  GrowingDevice(VerifierWorld& world, std::string key, const v1::ClientMessage& open)
      : world_(world),
        key_(std::move(key)),
        open_(open),
        history_({.vocabulary_size = ByteTokenizer().vocabulary_size(), .capacity = 4096}),
        sketch_(SmallConfig().sketch_nodes_max) {
    std::vector<TokenId> prompt;
    OUTRIDER_CHECK_OK(ReadPrompt(open.open(), ByteTokenizer().vocabulary_size(), 4096, prompt));
    for (const TokenId token : prompt) Commit(token);
  }

  // A new stream, with Open until that was answered and Resume from then on.
  void Attach() {
    stream_ = world_.Connect(key_);
    attached_ = false;
    fault_.reset();
    v1::ClientMessage message = open_;
    if (session_.empty()) {
      message.mutable_open()->set_attempt(++attempts_);
      world_.Send(stream_, message);
      return;
    }
    v1::Resume& resume = *message.mutable_resume();
    resume.set_session(session_);
    resume.set_token(token_);
    resume.set_length(static_cast<uint32_t>(history_.size()));
    resume.set_hash(history_.hash());
    resume.set_attempt(++attempts_);
    world_.Send(stream_, message);
  }

  // The stream breaks, and with it what is under way in either direction.
  void Break() {
    world_.Close(stream_);
    world_.line(stream_).received.clear();
    attached_ = false;
  }

  // Takes in what has come.
  void Listen() {
    for (const v1::ServerMessage& message : world_.News(stream_)) {
      switch (message.kind_case()) {
        case v1::ServerMessage::kOpened:
          Hear(message.opened());
          break;
        case v1::ServerMessage::kResumed:
          Hear(message.resumed());
          break;
        case v1::ServerMessage::kVerdict:
          Hear(message.verdict());
          break;
        case v1::ServerMessage::kFault:
          fault_ = message.fault();
          break;
        default:
          break;
      }
    }
  }

  // Who drafts from now on, or who does as before, where that may not have been heard.
  void SayWhoDrafts(bool server) {
    drafts_at_server_ = true;
    server_drafts_ = server;
    has_said_who_ = true;
    v1::ClientMessage message;
    message.mutable_tune()->set_dry_policy(open_.open().dry_policy());
    message.mutable_tune()->set_draft(server);
    Say(message);
  }

  // Up to `count` nodes at random places, each the target's choice with a probability of `skill`.
  void Draft(std::mt19937_64& random, uint32_t count, double skill) {
    if (drafts_at_server_ && !has_said_who_) return SayWhoDrafts(server_drafts_);
    if (server_drafts_) return;
    v1::ClientMessage message;
    v1::Grow& grow = *message.mutable_grow();
    grow.set_seen(verdict_);
    grow.set_first_id(next_id_);
    std::vector<GrownNode> grown;
    std::vector<TokenId> path;
    NodeId parent_before = Sketch::kRoot;
    while (count-- > 0 && sketch_.nodes().size() < sketch_.node_count_max()) {
      const size_t place = random() % (sketch_.nodes().size() + 1);
      const NodeId parent = place == 0 ? Sketch::kRoot : sketch_.nodes()[place - 1].id;
      sketch_.PathTo(parent, path);
      const bool right = std::uniform_real_distribution<>()(random) < skill;
      const TokenId token =
          right ? ScriptedNext(history_.tokens(), path) : static_cast<TokenId>('a' + random() % 26);
      const auto doubt = static_cast<uint32_t>(random() % 16);
      const NodeId id = next_id_++;
      grown.push_back(
          {StepBetween(parent_before, parent, id), doubt, static_cast<uint32_t>(token)});
      parent_before = parent;
      ASSERT_TRUE(sketch_.Grow({id, parent, token, doubt}, sketch_.commit_count()).ok());
    }
    WriteGrowthBits(grown, told_, *grow.mutable_nodes());
    if (!grown.empty()) Say(message);
  }

  void Say(const v1::ClientMessage& message) { world_.Send(stream_, message); }

  bool server_drafts() const { return server_drafts_; }
  uint32_t attempts() const { return attempts_; }
  bool can_send() const { return attached_ && world_.line(stream_).can_send; }
  bool attached() const { return attached_; }
  VerifierWorld::StreamNumber stream() const { return stream_; }
  std::span<const TokenId> committed() const { return history_.tokens(); }
  std::string text() const { return std::string(committed().begin(), committed().end()); }
  v1::Finish finish() const { return finish_; }
  uint32_t verdict() const { return verdict_; }
  const std::string& session() const { return session_; }
  const std::string& token() const { return token_; }
  const std::optional<v1::Fault>& fault() const { return fault_; }

 private:
  void Hear(const v1::Opened& opened) {
    session_ = opened.session();
    token_ = opened.token();
    for (const uint32_t token : opened.tokens()) Commit(static_cast<TokenId>(token));
    BeginEpoch(opened.verdict(), opened.finish());
  }

  void Hear(const v1::Resumed& resumed) {
    token_ = resumed.token();
    for (const uint32_t token : resumed.tokens()) Commit(static_cast<TokenId>(token));
    EXPECT_EQ(resumed.length(), history_.size());
    EXPECT_EQ(resumed.hash(), history_.hash());
    BeginEpoch(resumed.verdict(), resumed.finish());
  }

  void BeginEpoch(uint32_t verdict, v1::Finish finish) {
    verdict_ = verdict;
    finish_ = finish;
    sketch_.Reset(verdict);
    next_id_ = 1;
    told_.Clear();
    has_said_who_ = false;
    attached_ = true;
  }

  void Hear(const v1::Verdict& verdict) {
    ++verdict_;
    finish_ = verdict.finish();
    std::vector<TokenId> committed;
    const std::optional<NodeId> leaf = LeafOf(verdict);
    ASSERT_TRUE(leaf.has_value());
    // What the server has drafted, token by token.
    for (const uint32_t token : verdict.path()) {
      sketch_.Commit(Sketch::kRoot, static_cast<TokenId>(token), committed);
    }
    sketch_.Commit(*leaf, static_cast<TokenId>(verdict.next()), committed);
    for (const TokenId token : committed) Commit(token);
    EXPECT_EQ(verdict.hash(), VerdictHash(history_.hash()));
  }

  void Commit(TokenId token) { ASSERT_TRUE(history_.Append({&token, 1}).ok()); }

  VerifierWorld& world_;
  const std::string key_;
  const v1::ClientMessage open_;
  TokenHistory history_;
  Sketch sketch_;
  VerifierWorld::StreamNumber stream_ = 0;
  bool attached_ = false;
  uint32_t attempts_ = 0;
  std::string session_;
  std::string token_;
  bool drafts_at_server_ = false;  // has left it to the server before
  bool server_drafts_ = false;
  bool has_said_who_ = false;  // on this stream
  NodeId next_id_ = 1;
  ToldTokens told_;
  uint32_t verdict_ = 0;
  v1::Finish finish_ = v1::FINISH_NONE;
  std::optional<v1::Fault> fault_;
};

// As `device` would attach once more, but that it has nothing.
inline v1::ClientMessage ResumeOf(const GrowingDevice& device) {
  v1::ClientMessage message;
  message.mutable_resume()->set_session(device.session());
  message.mutable_resume()->set_token(device.token());
  message.mutable_resume()->set_length(0);
  message.mutable_resume()->set_hash(0);
  message.mutable_resume()->set_attempt(device.attempts() + 1);
  return message;
}

}  // namespace outrider
