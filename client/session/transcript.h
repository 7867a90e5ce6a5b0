// What a session has committed, and what of it the user is shown.
//
// The server ends replies. What the user asked for (max_tokens, end tokens, stop strings) is
// watched for here as well, and nothing past it is committed or shown; the model's own end tokens
// are left to the server, because the device's model file may name others than the target's.
//
// Memory:  taken when it is made, for `length_max` tokens and one more. Text allocates as text
// does. Threads: as a vector.
#pragma once

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

  // InvalidArgument as StopConditions. `tokenizer` must outlive it.
  static absl::StatusOr<std::unique_ptr<Transcript>> Create(StopOptions stops,
                                                            const Tokenizer& tokenizer,
                                                            uint32_t length_max);

  // All of them or none; not of a reply. InvalidArgument, ResourceExhausted as TokenHistory.
  absl::Status Append(std::span<const TokenId> tokens) { return history_.Append(tokens); }

  // What is committed so far is prompt, what follows is a reply to it. With `continues_text` its
  // text goes on with the prompt's.
  void BeginReply(bool continues_text);

  // Whether the reply's next tokens can be these, and what the hash of all tokens would be then.
  bool Fits(std::span<const TokenId> tokens) const;
  uint64_t HashAfter(std::span<const TokenId> tokens) const;

  // Takes tokens of the reply, which fit; `finish` is what the server says of the last one.
  Shown Take(std::span<const TokenId> tokens, v1::Finish finish);

  // The reply ends where it is. Returns the text that was withheld.
  std::string EndReply();

  // Forgets all but the first `length` tokens. No reply is running.
  void Truncate(size_t length);

  bool replying() const { return reply_.has_value(); }
  const TokenHistory& history() const { return history_; }
  size_t size() const { return history_.size(); }

 private:
  Transcript(const TokenHistory::Options& options, StopConditions stops);

  const size_t capacity_;
  TokenHistory history_;
  const StopConditions stops_;
  std::optional<Reply> reply_;  // refers to stops_
};

}  // namespace outrider
