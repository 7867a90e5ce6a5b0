// A VerifiedSequence by itself, and what a device says to it. verifier_world.h has messages of the
// same names, but in the envelope of a stream: hence a namespace.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/tokens/growth_bits.h"
#include "common/verification/verified_sequence.h"
#include "common/verification/wire_prompt.h"
#include "gtest/gtest.h"
#include "tests/text/small_specs.h"

namespace outrider::verified {

inline constexpr VerifiedSequence::Limits kLimits = {
    .vocabulary_size = 270, .context_length = 64, .pass_nodes_max = 15, .sketch_nodes_max = 32};

inline const Tokenizer& Bytes() {
  static const std::unique_ptr<Tokenizer> tokenizer = *Tokenizer::Create(SmallByteLevel());
  return *tokenizer;
}

inline v1::Open OpenOf(std::string_view prompt) {
  v1::Open open;
  SetPrompt(std::vector<TokenId>(prompt.begin(), prompt.end()), open);
  return open;
}

inline std::unique_ptr<VerifiedSequence> Make(const v1::Open& open) {
  auto sequence = VerifiedSequence::Create(open, Bytes(), kLimits);
  EXPECT_TRUE(sequence.ok()) << sequence.status();
  return *std::move(sequence);
}

inline std::unique_ptr<VerifiedSequence> Make(std::string_view prompt) {
  return Make(OpenOf(prompt));
}

// Nodes as "token", each with 16 * step + doubt.
inline v1::Grow GrowOf(uint32_t seen, uint32_t first_id, std::string_view tokens,
                       const std::vector<uint32_t>& links) {
  v1::Grow grow;
  grow.set_seen(seen);
  grow.set_first_id(first_id);
  std::vector<GrownNode> nodes;
  for (size_t i = 0; i < tokens.size(); ++i) {
    nodes.push_back({links[i] / 16, links[i] % 16, static_cast<unsigned char>(tokens[i])});
  }
  ToldTokens told;
  WriteGrowthBits(nodes, told, *grow.mutable_nodes());
  return grow;
}

inline v1::Grow ChainOf(uint32_t seen, uint32_t first_id, std::string_view tokens) {
  std::vector<uint32_t> links(tokens.size(), 16 + 1);
  if (!links.empty()) links[0] = 1;
  return GrowOf(seen, first_id, tokens, links);
}

inline v1::Append AppendOf(uint32_t length, std::string_view tokens, bool reply) {
  v1::Append append;
  append.set_length(length);
  append.set_reply(reply);
  for (const char c : tokens) append.add_tokens(static_cast<unsigned char>(c));
  return append;
}

inline v1::Truncate TruncateOf(uint32_t length) {
  v1::Truncate truncate;
  truncate.set_length(length);
  return truncate;
}

inline std::string TextOf(const VerifiedSequence& sequence) {
  const auto tokens = sequence.history().tokens();
  return std::string(tokens.begin(), tokens.end());
}

// A pass whose target writes `text`; what is not drafted of it is not found.
inline v1::Verdict RunPass(VerifiedSequence& sequence, std::string_view text) {
  const std::vector<DraftedNode> nodes = [&] {
    const auto span = sequence.BeginPass(sequence.pass_nodes());
    return std::vector<DraftedNode>(span.begin(), span.end());
  }();
  std::vector<TokenId> path;
  const auto choose = [&](uint32_t, std::span<const TokenId> down) -> absl::StatusOr<TokenId> {
    return static_cast<unsigned char>(text[down.size()]);
  };
  v1::Verdict verdict;
  sequence.EndPass(*WalkDown(nodes, path, choose), verdict);
  return verdict;
}

inline std::string Error(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(Message(status));
}

}  // namespace outrider::verified
