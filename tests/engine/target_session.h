// A sequence of a target as its caller has it, for tests of any target: prompts, passes, commits
// and the history they go by, over a vocabulary of 200.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/engine/target.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/model/engine.h"

namespace outrider {

inline constexpr int32_t kVocabulary = 200;

inline SamplingOptions Sampled(uint64_t seed) {
  SamplingOptions options;
  options.temperature = 1.2;
  options.top_p = 0.95;
  options.repetition_penalty = 1.1;
  options.presence_penalty = 0.3;
  options.seed = seed;
  return options;
}

inline std::vector<TokenId> RandomTokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % kVocabulary);
  return tokens;
}

// A target and one sequence's view of it.
class TargetSession {
 public:
  TargetSession(Target& target, const SamplingOptions& sampling)
      : target_(target),
        chooser_(OrDie(Chooser::Create(sampling, kVocabulary))),
        history_({.vocabulary_size = kVocabulary, .capacity = 512, .counts_tokens = true}),
        id_(OrDie(target.CreateSequence())) {}

  void Read(const std::vector<TokenId>& tokens) {
    OUTRIDER_CHECK_OK(target_.Prefill(id_, tokens, nullptr));
    OUTRIDER_CHECK_OK(history_.Append(tokens));
  }
  Pass PassOver(std::span<const DraftedNode> nodes) { return {id_, nodes, &chooser_, &history_}; }
  PassResult Run(std::span<const DraftedNode> nodes = {}) {
    const Pass pass = PassOver(nodes);
    PassResult result;
    target_.Run({}, {&pass, 1}, {&result, 1});
    return result;
  }
  void Commit(const Outcome& outcome, std::span<const DraftedNode> nodes) {
    std::vector<TokenId> tokens = {outcome.next};
    for (uint32_t n = outcome.node; n != DraftedNode::kRoot; n = nodes[n].parent) {
      tokens.insert(tokens.begin(), nodes[n].token);
    }
    OUTRIDER_CHECK_OK(target_.Commit(id_, outcome));
    OUTRIDER_CHECK_OK(history_.Append(tokens));
  }
  void Truncate(uint32_t length) {
    OUTRIDER_CHECK_OK(target_.Truncate(id_, length).status());
    OUTRIDER_CHECK_OK(history_.Truncate(length));
  }
  // Plain decoding.
  std::vector<TokenId> Write(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const PassResult result = Run();
      OUTRIDER_CHECK_OK(result.status);
      Commit(result.outcome, {});
    }
    return {history_.tokens().end() - static_cast<ptrdiff_t>(count), history_.tokens().end()};
  }
  SequenceId id() const { return id_; }
  const TokenHistory& history() const { return history_; }

 private:
  Target& target_;
  Chooser chooser_;
  TokenHistory history_;
  SequenceId id_;
};

// A draft that is right for `depth` tokens and wrong after that, with wrong siblings everywhere.
inline std::vector<DraftedNode> DraftOf(std::span<const TokenId> future, uint32_t depth) {
  std::vector<DraftedNode> nodes;
  uint32_t parent = DraftedNode::kRoot;
  for (uint32_t i = 0; i < depth + 2 && i < future.size(); ++i) {
    nodes.push_back({(future[i] + 1) % kVocabulary, parent});
    const TokenId right = i < depth ? future[i] : (future[i] + 2) % kVocabulary;
    nodes.push_back({right, parent});
    parent = static_cast<uint32_t>(nodes.size() - 1);
  }
  return nodes;
}

inline void ExpectRefusal(const absl::Status& status, absl::StatusCode code,
                          const std::string& part) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(Message(status)), ::testing::HasSubstr(part));
}

}  // namespace outrider
