// A target in a few lines: the next token is a function of the last few tokens.
//
// Its text is of few letters, so that stop strings occur and wrong guesses are sometimes right.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/text/tokenizer.h"
#include "common/tokens/stop_conditions.h"
#include "tests/text/small_specs.h"

namespace outrider {

class Oracle {
 public:
  // What a target alone writes after `prompt`.
  struct Text {
    std::vector<TokenId> tokens;
    std::string text;
    bool ended = false;  // by a stop; otherwise the context is full
  };

  Oracle() {
    auto tokenizer = Tokenizer::Create(SmallByteLevel());
    OUTRIDER_CHECK_OK(tokenizer.status());
    tokenizer_ = *std::move(tokenizer);
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  TokenId Next(std::span<const TokenId> tokens) const {
    uint64_t hash = tokens.size() / 3;
    for (const TokenId token : tokens.last(std::min<size_t>(tokens.size(), 3))) {
      hash = (hash ^ static_cast<uint64_t>(token)) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 29;
    }
    if (hash % 97 == 0) return *tokenizer_->spec().eos;
    return "abcd "[hash % 5];
  }

  Text Alone(std::vector<TokenId> prompt, const StopOptions& options, bool continues_text,
             size_t length_max) const {
    const auto stops = StopConditions::Create(options, *tokenizer_);
    OUTRIDER_CHECK_OK(stops.status());
    Reply reply(*stops,
                continues_text ? std::span<const TokenId>(prompt) : std::span<const TokenId>());
    Text text;
    std::vector<TokenId>& all = prompt;
    while (!reply.finish() && all.size() <= length_max) {
      const TokenId next = Next(all);
      all.push_back(next);
      text.tokens.push_back(next);
      text.text += reply.Take({&next, 1}).text;
    }
    text.ended = reply.finish().has_value();
    if (!text.ended) text.text += reply.Abandon();
    return text;
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
};

inline const Oracle& TheOracle() {
  static const Oracle& oracle = *new Oracle();
  return oracle;
}

}  // namespace outrider
