#include "adapters/text/token_rows.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/base/check.h"

namespace outrider {
namespace {

// SplitMix64: every seed begins a sequence of its own, on every machine the same.
class Bits {
 public:
  explicit Bits(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9E3779B97F4A7C15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

}  // namespace

void Shuffle(std::span<uint32_t> indices, uint64_t seed) {
  Bits bits(seed);
  for (size_t left = indices.size(); left > 1; --left) {
    std::swap(indices[left - 1], indices[bits.Next() % left]);
  }
}

TokenRows::TokenRows(std::span<const std::vector<TokenId>> documents, std::optional<TokenId> begin,
                     std::optional<TokenId> end, size_t row_length, uint64_t seed)
    : row_length_(row_length), seed_(seed) {
  std::vector<uint32_t> packed(documents.size());
  std::iota(packed.begin(), packed.end(), 0);
  Shuffle(packed, seed_);
  for (const uint32_t index : packed) {
    const std::vector<TokenId>& document = documents[index];
    if (begin) {
      tokens_.push_back(*begin);
    }
    tokens_.insert(tokens_.end(), document.begin(), document.end());
    targets_.insert(targets_.end(), document.begin() + (begin || document.empty() ? 0 : 1),
                    document.end());
    targets_.push_back(end ? *end : static_cast<int32_t>(kNoTarget));
    targets_.resize(tokens_.size());
    documents_.resize(tokens_.size(), static_cast<int32_t>(index));
  }
  const size_t row_count = (tokens_.size() + row_length_ - 1) / row_length_;
  OUTRIDER_CHECK(row_count < UINT32_MAX, "text files are bounded to less");
  tokens_.resize(row_count * row_length_, begin.value_or(0));
  targets_.resize(tokens_.size(), static_cast<int32_t>(kNoTarget));
  documents_.resize(tokens_.size(), -1);
  target_count_ = tokens_.size() - static_cast<size_t>(std::ranges::count(
                                       targets_, static_cast<int32_t>(kNoTarget)));
  order_.resize(row_count);
  OrderFor(0);
}

void TokenRows::OrderFor(uint64_t epoch) {
  epoch_ = epoch;
  std::iota(order_.begin(), order_.end(), 0);
  Shuffle(order_, seed_ + epoch + 1);
}

void TokenRows::Get(uint64_t index, std::span<int64_t> tokens, std::span<int64_t> targets,
                    std::span<int64_t> documents) {
  OUTRIDER_CHECK(row_count() > 0, "callers refuse text without tokens");
  if (index / row_count() != epoch_) OrderFor(index / row_count());
  const size_t first = order_[index % row_count()] * row_length_;
  const auto copy = [&](const auto& from, std::span<int64_t> to) {
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(first), row_length_, to.begin());
  };
  copy(tokens_, tokens);
  copy(targets_, targets);
  copy(documents_, documents);
}

}  // namespace outrider
