// The committed tokens of a sequence, and how a node of a sketch sees them.
//
// Besides the tokens there is a hash of every prefix, by which client and server detect that they
// have drifted apart, and how often each token occurs, which the penalties ask. A node's own
// history is the committed tokens and then its ancestors: NodeHistory, a view that costs nothing.
//
// A history knows where the reply begins: the presence and frequency penalties count its tokens
// only, not the prompt's. Earlier turns of a chat are prompt.
//
// Hash:    h[0] = 0, h[n + 1] = mix(h[n] + 0x9e3779b97f4a7c15 + token n), mix being SplitMix64's
//          finaliser. Each step is one to one, so histories that differ in one token alone always
//          differ in hash. It guards against mistakes, not against forgery.
// Memory:  12 bytes a token of capacity; with counts 8 bytes a token of the vocabulary and 4 a
//          token of capacity besides. Taken once: nothing here allocates later.
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

class TokenHistory {
 public:
  struct Options {
    int32_t vocabulary_size = 0;
    size_t capacity = 0;         // the most tokens it will ever hold
    bool counts_tokens = false;  // for SamplingOptions that penalise
  };

  explicit TokenHistory(const Options& options);

  // All of them or none. InvalidArgument for ids outside the vocabulary, ResourceExhausted when
  // they do not fit.
  absl::Status Append(std::span<const TokenId> tokens);

  // Forgets all but the first `length` tokens. InvalidArgument when there are fewer.
  absl::Status Truncate(size_t length);

  // What is committed so far is prompt; what follows is reply.
  void StartReply();

  std::span<const TokenId> tokens() const { return tokens_; }
  size_t size() const { return tokens_.size(); }
  size_t reply_begin() const { return reply_begin_; }
  std::span<const TokenId> reply() const { return tokens().subspan(reply_begin_); }

  // Of all tokens, and of the first `length` (at most size()).
  uint64_t hash() const { return hashes_.back(); }
  uint64_t HashAt(size_t length) const;
  // Of a history with this hash and one token more.
  static uint64_t Extend(uint64_t hash, TokenId token);

  bool counts_tokens() const { return !counts_.empty(); }
  int32_t vocabulary_size() const { return vocabulary_size_; }

  // With counts only: how often a token occurs, in all and in the reply, and which ones do at all,
  // in the order of their first occurrence.
  uint32_t CountOf(TokenId token) const { return counts_[static_cast<size_t>(token)].all; }
  uint32_t ReplyCountOf(TokenId token) const { return counts_[static_cast<size_t>(token)].reply; }
  std::span<const TokenId> distinct() const { return distinct_; }

 private:
  struct Counts {
    uint32_t all = 0;
    uint32_t reply = 0;
  };

  void Count(TokenId token);
  void Uncount(TokenId token, bool in_reply);

  const int32_t vocabulary_size_;
  const size_t capacity_;
  size_t reply_begin_ = 0;
  std::vector<TokenId> tokens_;
  std::vector<uint64_t> hashes_;   // of each prefix, the empty one first
  std::vector<Counts> counts_;     // by token, or empty
  std::vector<TokenId> distinct_;  // a stack: the newest first occurrence is the first to go
};

// What a node of a sketch stands on. `ancestors` runs from the child of the root down to the node
// itself; the root is the last committed token.
struct NodeHistory {
  const TokenHistory& committed;
  std::span<const TokenId> ancestors = {};

  size_t size() const { return committed.size() + ancestors.size(); }
};

}  // namespace outrider
