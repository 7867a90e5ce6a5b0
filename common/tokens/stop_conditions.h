// Where a reply ends: end tokens, stop strings, a token limit.
//
//   Reply reply(stops, tokenizer);
//   Reply::Step step = reply.Take(outcome_tokens);   // what a pass has found
//   commit the first step.taken of them; show step.text; stop if step.finish
//
// Nothing is committed past a stop: Take() stops at the token that ends the reply, which is the
// last one committed, however many more a pass has found.
//
//   kEndToken    the model's own end of generation, or a token the user named. It is committed, and
//                prints nothing.
//   kStopString  the token whose text completes a stop string is committed; the text is shown up to
//                where the string begins.
//   kTokenLimit  as many tokens as were asked for. All their text is shown.
//
// The conditions are asked in this order at each token. Strings are matched on detokenised text, so
// across the borders of tokens; text that may yet turn out to begin one is withheld
// (stop_strings.h). Special tokens print nothing, so a stop string that spells one, like
// "<|im_end|>", ends the reply at the token.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/detokenizer.h"
#include "common/text/tokenizer.h"
#include "common/tokens/stop_strings.h"

namespace outrider {

enum class FinishReason { kEndToken, kStopString, kTokenLimit };

struct StopOptions {
  bool at_end_of_generation = true;      // false: the model's own end tokens are tokens like others
  std::vector<TokenId> end_tokens = {};  // besides those
  std::vector<std::string> strings = {};
  std::optional<uint32_t> max_tokens = {};  // none: until something else ends it
};

class StopConditions {
 public:
  // InvalidArgument when a token is not in the vocabulary, a string is refused (stop_strings.h) or
  // max_tokens is 0. `tokenizer` must outlive it.
  static absl::StatusOr<StopConditions> Create(StopOptions options, const Tokenizer& tokenizer);

  bool IsEndToken(TokenId token) const;
  std::optional<uint32_t> max_tokens() const { return max_tokens_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const StopStrings& strings() const { return strings_; }

 private:
  StopConditions(StopOptions options, StopStrings strings, const Tokenizer& tokenizer);

  void AddSpelledTokens(const std::vector<std::string>& strings);

  const Tokenizer* tokenizer_;
  bool at_end_of_generation_;
  std::vector<TokenId> end_tokens_;  // ascending
  StopStrings strings_;
  std::optional<uint32_t> max_tokens_;
};

// One reply while it grows, and shrinks again. Text allocates as text does, and every kMarkTokens
// tokens what it takes to go back there is kept: 100 bytes, and what text is withheld.
class Reply {
 public:
  static constexpr size_t kMarkTokens = 256;

  struct Step {
    size_t taken = 0;                    // this many tokens are to be committed
    std::string text;                    // may be shown now
    std::optional<FinishReason> finish;  // the last token taken ended the reply
  };

  // `stops` must outlive it. A reply whose text goes on from other text (a plain continuation) is
  // given the tokens `before` it: SentencePiece models drop a space at the start of a text, and a
  // character may be cut between two tokens. Of them the last few are looked at. A resumed reply
  // Take()s its committed tokens again.
  explicit Reply(const StopConditions& stops, std::span<const TokenId> before = {});

  // Takes tokens until one ends the reply. Not to be called after that.
  Step Take(std::span<const TokenId> tokens);

  // `tokens` are those that it keeps: the first of what it has taken. However long it is, fewer than
  // kMarkTokens are looked at again.
  void Truncate(std::span<const TokenId> tokens);

  // The reply ends for another reason (the context is full, the user has left): the text withheld.
  std::string Abandon();

  uint32_t token_count() const { return token_count_; }
  std::optional<FinishReason> finish() const { return finish_; }

 private:
  // How far its text was once.
  struct Mark {
    Detokenizer detokenizer;
    StopStringScanner scanner;
  };

  std::optional<FinishReason> TakeOne(TokenId token, std::string& text);
  std::string RestOfText();

  const StopConditions& stops_;
  Detokenizer detokenizer_;
  StopStringScanner scanner_;
  uint32_t token_count_ = 0;
  std::optional<FinishReason> finish_;
  std::vector<Mark> marks_;  // after every kMarkTokens tokens, that of none first
};

}  // namespace outrider
