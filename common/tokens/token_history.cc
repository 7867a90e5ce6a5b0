#include "common/tokens/token_history.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

TokenHistory::TokenHistory(const Options& options)
    : vocabulary_size_(options.vocabulary_size), capacity_(options.capacity) {
  OUTRIDER_CHECK(vocabulary_size_ > 0, "a history is of some vocabulary");
  tokens_.reserve(capacity_);
  hashes_.reserve(capacity_ + 1);
  hashes_.push_back(0);
  if (options.counts_tokens) {
    counts_.resize(static_cast<size_t>(vocabulary_size_));
    distinct_.reserve(std::min(capacity_, counts_.size()));
  }
}

absl::Status TokenHistory::Append(std::span<const TokenId> tokens) {
  if (tokens.size() > capacity_ - tokens_.size()) {
    return ResourceExhausted("a history of ", tokens_.size(), " tokens has no room for ",
                             tokens.size(), " more: its capacity is ", capacity_);
  }
  for (const TokenId token : tokens) {
    if (token < 0 || token >= vocabulary_size_) {
      return InvalidArgument("token ", token, " is outside the vocabulary of 0 to ",
                             vocabulary_size_ - 1);
    }
  }
  for (const TokenId token : tokens) {
    hashes_.push_back(Extend(hashes_.back(), token));
    tokens_.push_back(token);
    if (counts_tokens()) Count(token);
  }
  return absl::OkStatus();
}

absl::Status TokenHistory::Truncate(size_t length) {
  if (length > tokens_.size()) {
    return InvalidArgument("a history of ", tokens_.size(), " tokens cannot be cut to ", length);
  }
  if (counts_tokens()) {
    for (size_t i = tokens_.size(); i-- > length;) Uncount(tokens_[i], i >= reply_begin_);
  }
  tokens_.resize(length);
  hashes_.resize(length + 1);
  reply_begin_ = std::min(reply_begin_, length);
  return absl::OkStatus();
}

void TokenHistory::StartReply() {
  if (counts_tokens()) {
    for (const TokenId token : reply()) counts_[static_cast<size_t>(token)].reply = 0;
  }
  reply_begin_ = tokens_.size();
}

uint64_t TokenHistory::Extend(uint64_t hash, TokenId token) {
  uint64_t z = hash + 0x9e3779b97f4a7c15 + static_cast<uint32_t>(token);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint64_t TokenHistory::HashAt(size_t length) const {
  OUTRIDER_CHECK(length <= size(), "a hash of tokens that are there");
  return hashes_[length];
}

void TokenHistory::Count(TokenId token) {
  Counts& counts = counts_[static_cast<size_t>(token)];
  if (counts.all++ == 0) distinct_.push_back(token);
  ++counts.reply;
}

void TokenHistory::Uncount(TokenId token, bool in_reply) {
  Counts& counts = counts_[static_cast<size_t>(token)];
  if (--counts.all == 0) distinct_.pop_back();
  if (in_reply) --counts.reply;
}

}  // namespace outrider
