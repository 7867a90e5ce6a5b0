// Documents as a trainer reads them: rows of one length, cut from all documents one after another.
//
//                 document 0            document 1        document 2 goes on in row 1
//   tokens     <eot> Once upon a | <eot> The end .  | <eot> A
//   targets    Once  upon a <eot>| The   end . <eot>| A     fox
//   documents  0     0    0 0    | 1     1   1 1    | 2     2
//
// A target is the token that follows in the same document, and the end of text after its last; no
// token is left out, and none is asked of another document's. What is left of the last row asks for
// nothing (kNoTarget). Documents are packed in an order of the seed; every epoch reads the same
// rows in another order of the seed, so that where a trainer stands is a single number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

// In any order of the seed, the same on every machine.
void Shuffle(std::span<uint32_t> indices, uint64_t seed);

class TokenRows {
 public:
  static constexpr int64_t kNoTarget = -100;  // what libtorch's losses leave out

  // `documents` hold no special tokens. `begin` stands in front of each and `end` is what follows
  // its last token, where the tokenizer has them.
  TokenRows(std::span<const std::vector<TokenId>> documents, std::optional<TokenId> begin,
            std::optional<TokenId> end, size_t row_length, uint64_t seed);

  size_t row_length() const { return row_length_; }
  size_t row_count() const { return order_.size(); }     // of an epoch
  size_t target_count() const { return target_count_; }  // of an epoch

  // Row number `index` of all epochs one after another. Each span is row_length() long.
  void Get(uint64_t index, std::span<int64_t> tokens, std::span<int64_t> targets,
           std::span<int64_t> documents);

 private:
  void OrderFor(uint64_t epoch);

  const size_t row_length_;
  const uint64_t seed_;
  size_t target_count_ = 0;
  std::vector<TokenId> tokens_;     // of all rows
  std::vector<int32_t> targets_;    // of all rows
  std::vector<int32_t> documents_;  // of all rows
  uint64_t epoch_ = 0;              // whose order this is
  std::vector<uint32_t> order_;     // of rows
};

}  // namespace outrider
