// The device's side of a session, as a pure machine: events in, actions out.
//
//   Session::Create(options, {tokenizer, policy, costs, random_bits}) -> session
//   session->Handle(Session::Start{}, now, actions);
//   for (const Session::Action& action : actions) ...    // whoever drives it carries them out, in
//   actions.clear();                                     // order, before the next event
//
// It keeps what is committed and, in a Sketcher, what is drafted. The drafter is kept busy: what it
// proposes joins the sketch and goes up at once, verdict or no verdict, link or no link. What comes
// down is checked before it is believed: each verdict's number, its leaf, the hash of what it
// commits. What is committed is shown once, and never taken back.
//
//                 Start, append                 Opened, Resumed
//        (idle) ----------------> attaching -----------------------> attached
//                                  ^    |                               |
//                    back-off over |    | refused for now, silent       | lost, silent, drifted
//                                  |    v                               |
//                                 waiting <-----------------------------+
//
//   attaching   a stream is asked for, with Open or Resume written to it
//   attached    an epoch: both sides know the same committed tokens, or will
//   waiting     until it tries again. Drafting goes on, provisionally
//
// How it attaches: with Open until one was answered (the same nonce as long as it asks for the
// same), then with Resume. What the other side has and we lack is committed; what we have and it
// lacks is appended. When it knows us no more, Open again, with the committed tokens as prompt and
// as many of them as the running reply has said to be its own: penalties, stops and limits count
// on, and the text is the same. When neither helps for `patience`, the session fails, and says why.
//
// Stops: the server ends a reply, where its model does or the user asked it to. What the user asked
// for is checked here too, and nothing past it is shown.
//
// Randomness: nonces and the jitter of back-off, from the bits it is given.
// Memory:     taken when it is made, for `length_max` tokens and the sketch. Messages keep theirs
//             from one to the next. Text allocates as text does.
// Queues:     messages up wait in an outbox: edits (merged while no stream is attached) and one
//             batch of growth. At most one of them is being written; what joins the sketch
//             meanwhile stays there and goes up with the next.
// Threads:    as a vector.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/speculation/cost_model.h"
#include "common/speculation/sketcher.h"
#include "common/speculation/tree_policy.h"
#include "common/text/tokenizer.h"
#include "common/tokens/sampling.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

struct SessionOptions {
  std::vector<TokenId> prompt;
  SamplingOptions sampling;
  StopOptions stops;
  // The first reply's text goes on with the prompt's (StopConditions; a chat's replies do not).
  bool continues_text = false;

  uint32_t length_max = 4096;  // tokens of all turns, prompts and replies; the server may have less
  v1::DryPolicy dry_policy = v1::DRY_POLICY_ADAPTIVE;
  bool hints = true;
  std::string tokenizer_fingerprint;  // empty: not compared
  std::string numerics_id;            // empty: not compared
  Sketcher::Options sketch;

  // From when a stream is asked for until Opened or Resumed.
  Duration answer_deadline = std::chrono::seconds(20);
  // Of an attached stream while the server owes a verdict.
  Duration silence_max = std::chrono::seconds(60);
  // Without being attached: at first, and once it was.
  Duration first_patience = std::chrono::seconds(5);
  Duration patience = std::chrono::minutes(2);
  // The first attempt after a loss comes after half to all of this; each further one doubles it.
  Duration backoff_min = std::chrono::milliseconds(50);
  Duration backoff_max = std::chrono::seconds(5);
};

// What it has done so far.
struct SessionStats {
  uint64_t tokens = 0;         // committed by verdicts, or found written when it attached
  uint64_t passes = 0;         // verdicts
  uint64_t nodes_drafted = 0;  // that joined the sketch
  uint64_t nodes_sent = 0;
  uint64_t nodes_accepted = 0;       // drafted tokens that verdicts committed
  uint64_t roots_with_children = 0;  // new roots that the server had growth for
  uint64_t hints = 0;
  uint64_t hints_right = 0;
  uint64_t attachments = 0;
  uint64_t reopenings = 0;  // of them with the committed tokens as prompt
  uint64_t bytes_up = 0;    // of messages, without what carries them
  uint64_t bytes_down = 0;
};

class Session {
 public:
  // Streams are numbered as they are asked for. An event about one that is closed is passed over.
  using StreamNumber = uint64_t;

  // Events. What they point to is read before Handle() returns.
  struct Start {};
  struct Received {
    StreamNumber stream;
    const v1::ServerMessage& message;
  };
  // The stream has taken the message it was last given.
  struct Written {
    StreamNumber stream;
  };
  struct StreamDown {
    StreamNumber stream;
    absl::Status status;
  };
  // The drafter has run a batch. children[i], most probable first, are those of contexts[i]. An
  // error ends drafting, not the session.
  struct Drafted {
    uint64_t batch;
    std::span<const std::span<const Proposal>> children;
    absl::Status status;
  };
  struct TimerFired {};
  // The next turn: these tokens, and then a reply.
  struct UserAppend {
    std::span<const TokenId> tokens;
  };
  // Ends a running reply, and forgets all but the first `length` tokens.
  struct UserTruncate {
    uint32_t length;
  };
  struct UserClose {};
  // Tokens of the running reply that a target on the device has written while none was attached.
  struct WroteAlone {
    std::span<const TokenId> tokens;
  };
  using Event = std::variant<Start, Received, Written, StreamDown, Drafted, TimerFired, UserAppend,
                             UserTruncate, UserClose, WroteAlone>;

  // Actions. What they point to is valid until the next event.
  struct OpenStream {
    StreamNumber stream;
  };
  // Not before Written has answered the one before it.
  struct Send {
    StreamNumber stream;
    const v1::ClientMessage* message;
  };
  struct CloseStream {
    StreamNumber stream;
  };
  struct DraftContext {
    std::span<const TokenId> path;  // from the root's child down to the node; empty: the root
    uint32_t child_count;
  };
  // To be answered with Drafted. One batch at a time.
  struct Draft {
    uint64_t batch;
    std::span<const TokenId> committed;
    size_t reply_begin;  // how many of them stand before the reply
    std::span<const DraftContext> contexts;
  };
  // For the user. The last one of a reply has its `finish`.
  struct Commit {
    std::span<const TokenId> tokens;
    std::string text;
    v1::Finish finish;
  };
  // The server reads the prompt.
  struct Progress {
    uint32_t processed;
    uint32_t total;
  };
  // In place of the timer that was set before.
  struct SetTimer {
    MonotonicTime at;
  };
  // One sentence for the user; the session goes on.
  struct Report {
    absl::Status status;
  };
  // The session is over: closed as asked (OK), or failed. No action follows.
  struct End {
    absl::Status status;
  };
  using Action =
      std::variant<OpenStream, Send, CloseStream, Draft, Commit, Progress, SetTimer, Report, End>;

  // All but `random_bits` must outlive the session.
  struct Parts {
    const Tokenizer& tokenizer;
    TreePolicy& policy;
    CostModel& costs;
    std::function<uint64_t()> random_bits;
  };

  // InvalidArgument when there is no prompt, it does not fit into length_max or is not the
  // vocabulary's, or options are refused (SamplingOptions, StopConditions).
  static absl::StatusOr<std::unique_ptr<Session>> Create(SessionOptions options, Parts parts);

  // Appends to `actions`.
  void Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions);

  std::span<const TokenId> committed() const { return history_.tokens(); }
  // The reply that was last begun has ended.
  bool finished() const { return !writing_; }
  bool ended() const { return ended_; }
  const SessionStats& stats() const { return stats_; }

 private:
  const SessionOptions options_;
  TokenHistory history_;
  Sketcher sketcher_;
  bool writing_ = false;
  bool ended_ = false;
  SessionStats stats_;
};

}  // namespace outrider
