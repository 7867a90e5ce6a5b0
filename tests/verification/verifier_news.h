// What the streams of a VerifierWorld have brought, and sessions to bring it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/tokens/token_history.h"
#include "common/verification/verdict_message.h"
#include "gtest/gtest.h"
#include "tests/verification/verifier_world.h"

namespace outrider {

inline std::vector<v1::ServerMessage::KindCase> KindsOf(
    const std::vector<v1::ServerMessage>& messages) {
  std::vector<v1::ServerMessage::KindCase> kinds;
  for (const v1::ServerMessage& message : messages) kinds.push_back(message.kind_case());
  return kinds;
}

inline std::vector<v1::Verdict> VerdictsOf(const std::vector<v1::ServerMessage>& messages) {
  std::vector<v1::Verdict> verdicts;
  for (const v1::ServerMessage& message : messages) {
    if (message.has_verdict()) verdicts.push_back(message.verdict());
  }
  return verdicts;
}

// The fault a stream has ended with.
inline v1::Fault FaultOf(VerifierWorld& world, VerifierMachine::StreamNumber stream) {
  const auto& received = world.line(stream).received;
  EXPECT_TRUE(world.line(stream).ended.has_value());
  if (received.empty() || !received.back().has_fault()) return {};
  return received.back().fault();
}

// As a verdict has it of the tokens that it leaves.
inline uint32_t HashOf(std::string_view text) {
  uint64_t hash = 0;
  for (const TokenId token : Tokens(text)) hash = TokenHistory::Extend(hash, token);
  return VerdictHash(hash);
}

inline std::string TextAfter(std::string_view prompt, size_t count) {
  const std::vector<TokenId> text = ScriptedText(Tokens(prompt), count);
  return std::string(prompt) + std::string(text.begin(), text.end());
}

// Opened, and its prompt read; if it writes alone, its first token written.
inline VerifierMachine::StreamNumber OpenSession(VerifierWorld& world, uint64_t nonce,
                                                 std::string_view prompt,
                                                 v1::DryPolicy dry_policy = v1::DRY_POLICY_WAIT,
                                                 std::string_view key = "key") {
  const VerifierMachine::StreamNumber stream = world.Connect(key);
  world.Send(stream, OpenOf(nonce, prompt, dry_policy));
  world.Run();
  world.News(stream);
  return stream;
}

}  // namespace outrider
