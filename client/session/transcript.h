// What a session has committed, and what of it the user is shown.
//
// The server ends replies. What the user asked for (max_tokens, end tokens, stop strings) is
// watched for here as well, and nothing past it is committed or shown; the model's own end tokens
// are left to the server, because the device's model file may name others than the target's.
//
// Memory:  taken when it is made, for `length_max` tokens and one more. Text allocates as text does.
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class Transcript {
 public:
  // What became of tokens of a reply.
  struct Shown {
    size_t taken;       // so many of them are committed
    std::string text;   // may be shown now
    v1::Finish finish;  // of the reply, with the last of those taken
    bool ended_here;    // by what the user asked for, and the server has not noticed
  };

  // Its own tokens and a verifier's, compared.
  struct Difference {
    bool ahead;                       // the verifier lacks some, and `missed` is empty
    std::span<const TokenId> missed;  // what it has and this side lacks
  };

  // InvalidArgument as StopConditions. `tokenizer` must outlive it.
  static absl::StatusOr<std::unique_ptr<Transcript>> Create(StopOptions stops,
                                                            const Tokenizer& tokenizer,
                                                            uint32_t length_max);

  // The verifier has room for fewer tokens, or for as many as it was made for.
  void Limit(uint32_t length_max) { length_max_ = std::min(length_max, made_for_); }

  // Whether these can be the next turn: InvalidArgument when there are none or the vocabulary lacks
  // some, ResourceExhausted when there is no room.
  absl::Status CheckTurn(std::span<const TokenId> tokens) const;

  // All of them or none; not of a reply. InvalidArgument, ResourceExhausted as TokenHistory.
  absl::Status Append(std::span<const TokenId> tokens) { return history_.Append(tokens); }

  // What is committed so far is prompt, what follows is a reply to it. With `continues_text` its
  // text goes on with the prompt's.
  void BeginReply(bool continues_text);

  bool IsToken(uint32_t wire) const {
    return wire < static_cast<uint32_t>(history_.vocabulary_size());
  }

  // Both sides have the first `shared` tokens; after them the verifier has `theirs`, with which the
  // reply has come to `finish`, and then `hash` if it has said that. DataLoss when the two are not
  // one text.
  absl::StatusOr<Difference> Compare(size_t shared, std::span<const TokenId> theirs,
                                     v1::Finish finish, std::optional<uint64_t> hash) const;
  // After the first `shared`, how many of these are ours too.
  size_t AgreeOn(size_t shared, std::span<const TokenId> theirs) const;

  // Whether the reply's next tokens can be these, and what the hash of all tokens would be then.
  bool Fits(std::span<const TokenId> tokens) const;
  uint64_t HashAfter(std::span<const TokenId> tokens) const;

  // The reply goes on with these, which fit; `finish` is what the server says of the last one.
  Shown Commit(std::span<const TokenId> tokens, v1::Finish finish);

  // The reply ends where it is. Returns the text that was withheld.
  std::string EndReply();

  // Forgets all but the first `length` tokens. No reply is running.
  void Truncate(size_t length);

  bool replying() const { return reply_.has_value(); }
  const TokenHistory& history() const { return history_; }
  std::span<const TokenId> tokens() const { return history_.tokens(); }
  size_t reply_begin() const { return history_.reply_begin(); }
  bool continues_text() const { return continues_text_; }  // the newest reply
  uint32_t length_max() const { return length_max_; }
  size_t size() const { return history_.size(); }

 private:
  Transcript(uint32_t length_max, const Tokenizer& tokenizer, StopConditions stops);

  const uint32_t made_for_;
  uint32_t length_max_;  // as far as is known, the verifier's too
  bool continues_text_ = false;
  TokenHistory history_;
  const StopConditions stops_;
  std::optional<Reply> reply_;  // refers to stops_
};

}  // namespace outrider
