// A text that a device goes on with, turn after turn: a prompt and a reply to it, the next turn and
// the next reply.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const Ending ending, conversation->Continue(tokens, kPlain, observer));
//   OUTRIDER_ASSIGN_OR_RETURN(const Ending next, conversation->Append(turn, observer));
//
// Whoever writes it (a target here, a session with a draft beside a verifier, a server alone) is its
// own affair; the text is the same. What goes on is told to an observer.
//
// Threads: one call at a time. Conversations of one device may each have a thread of their own. An
//          observer is told on the thread that called, or on one of the conversation's, which may
//          wait while the text is written on; and it has heard all of a reply when that returns.
// Errors:  InvalidArgument or ResourceExhausted for tokens that cannot be gone on with; otherwise
//          what ended it, and then nothing more can be said in this conversation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/session/measurements.h"
#include "client/session/session_options.h"
#include "common/base/time_counts.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/speculation/control/controller.h"
#include "common/tokens/sampling.h"
#include "common/tokens/stop_conditions.h"

namespace outrider {

struct ConversationOptions {
  SamplingOptions sampling = {};
  StopOptions stops = {};  // of every reply
};

// What ended a reply.
enum class Ending {
  kComplete,     // the model, or a stop that was asked for
  kContextFull,  // there is no room for more
  kInterrupted,  // the observer
};

// Of all replies so far.
struct ConversationStats {
  uint64_t prompt_tokens = 0;      // of all prompts, but for what was still in memory
  uint64_t computed_tokens = 0;    // of those, now: the last of each is computed with the reply
  double first_token_seconds = 0;  // from when a reply was asked for until its first tokens
  uint64_t generated_tokens = 0;
  uint64_t later_tokens = 0;    // of those, all that did not come first (reply_times.h)
  double later_seconds = 0;     // and how long they took
  TimeCounts token_times = {};  // of those: those that came together share what was waited for them

  Placement placement = Placement::kTargetAlone;
  uint64_t passes = 0;                       // of a server that writes by itself
  std::optional<SessionStats> session = {};  // of a draft here
  TimeCounts answers = {};                   // of growth to verdicts
  Measurements::Totals times = {};           // of passes and drafts
  // Of a session with a fallback: how often it went from server to fallback or back, verdicts of
  // the fallback's target, and why that is of no use any more.
  uint64_t moves = 0;
  uint64_t passes_here = 0;
  absl::Status fallback_failure = {};
};

class Conversation {
 public:
  class Observer {
   public:
    virtual ~Observer() = default;

    // What of the reply may be shown: never taken back.
    virtual void OnText(std::string_view text) = 0;
    // The same as tokens, which may come before their text does.
    virtual void OnTokens(std::span<const TokenId> /*tokens*/) {}
    virtual void OnPromptProgress(uint32_t /*processed*/, uint32_t /*total*/) {}
    // Something the user should know of; the conversation goes on.
    virtual void OnReport(const absl::Status& /*status*/) {}
    // Asked several times a second, on the thread that called, whatever the others wait for: whether
    // the reply is to end where it is.
    virtual bool Interrupted() { return false; }
  };

  virtual ~Conversation() = default;

  // Writes what follows `tokens`, which are the whole text: what they share with tokens() is kept,
  // the rest is forgotten, and only what is new is read. A reply is a text of its own; a plain
  // continuation goes on with that of the tokens, so a space it begins with is shown.
  virtual absl::StatusOr<Ending> Continue(std::span<const TokenId> tokens, bool is_reply,
                                          Observer& observer) = 0;

  // A turn after all that was said, and the reply to it.
  absl::StatusOr<Ending> Append(std::span<const TokenId> turn, Observer& observer);

  // Forgets all but the first `length` tokens, if there are more.
  void Truncate(size_t length);

  // Prompts and replies.
  std::span<const TokenId> tokens() const { return tokens_; }
  virtual ConversationStats stats() const = 0;
  // Of which so many tokens are one.
  virtual uint32_t context_length() const = 0;

 protected:
  // What was committed, for who keeps it elsewhere.
  void SetTokens(std::span<const TokenId> tokens) { tokens_.assign(tokens.begin(), tokens.end()); }

 private:
  std::vector<TokenId> tokens_;
};

}  // namespace outrider
