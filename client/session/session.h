// The device's side of a session, as a pure machine: events in, actions out.
//
//   Session::Create(options, {tokenizer, policy, costs, random_bits}) -> session
//   session->Handle(Session::Start{}, now, actions);
//   for (const Session::Action& action : actions) ...    // whoever drives it carries them out, in
//   actions.clear();                                     // order, before the next event
//
// It keeps what is committed and, in a Sketcher, what is drafted. The drafter is kept busy: what it
// proposes joins the sketch and goes up at once, verdict or no verdict, link or no link. What comes
// down is checked before it is believed: each verdict's leaf, and the hash of what it commits. What
// is committed is shown once, and never taken back.
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
// same), then with Resume. Each says the number of its stream, so that one which was given up and
// arrives late is told from the one that counts. What the other side has and we lack is committed;
// what we have and it lacks is appended. When it knows us no more, Open again, with the committed
// tokens as prompt and as many of them as the running reply has said to be its own: penalties,
// stops and limits count on, and the text is the same. When neither helps for `patience`, the
// session fails, and says why.
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
#include "client/session/link.h"
#include "client/session/measurements.h"
#include "client/session/outbox.h"
#include "client/session/transcript.h"
#include "client/session/wire_ids.h"
#include "common/base/monotonic_time.h"
#include "common/speculation/cost_model.h"
#include "common/speculation/drafter.h"
#include "common/speculation/sketcher.h"
#include "common/speculation/tree_policy.h"
#include "common/text/tokenizer.h"
#include "common/tokens/sampling.h"
#include "common/tokens/stop_conditions.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

struct SessionOptions {
  std::vector<TokenId> prompt = {};
  SamplingOptions sampling = {};
  StopOptions stops = {};
  // The first reply's text goes on with the prompt's (StopConditions; a chat's replies do not).
  bool continues_text = false;

  uint32_t length_max = 4096;  // tokens of all turns, prompts and replies; the server may have less
  v1::DryPolicy dry_policy = v1::DRY_POLICY_ADAPTIVE;
  bool hints = true;
  std::string tokenizer_fingerprint = {};  // empty: not compared
  std::string numerics_id = {};            // empty: not compared
  Sketcher::Options sketch = {};

  LinkOptions link = {};
};

// What it has done so far.
struct SessionStats {
  uint64_t tokens = 0;          // committed by verdicts, or found written when it attached
  uint64_t passes = 0;          // verdicts
  uint64_t nodes_expanded = 0;  // whose children the drafter was asked for
  uint64_t nodes_sent = 0;
  uint64_t nodes_passed = 0;    // that passes have taken, each time they did
  uint64_t nodes_accepted = 0;  // drafted tokens that verdicts committed
  uint64_t hints = 0;
  uint64_t hints_right = 0;
  // Of passes, those whose verdict found children below the new root: without a hint of it, with
  // one that came when they were there, and with one that came before them.
  uint64_t roots_grown_unhinted = 0;
  uint64_t roots_grown_before_hint = 0;
  uint64_t roots_grown_after_hint = 0;
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
    v1::Finish finish;
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
  // To be answered with Drafted. One batch at a time.
  struct Draft {
    uint64_t batch;
    std::span<const TokenId> committed;
    size_t reply_begin;  // so many of them stand before the reply
    std::span<const DraftedNode> nodes;
    std::span<const Drafter::Context> contexts;
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

  // Whether these tokens can be a turn: there are some, the vocabulary has them, the context has
  // room.
  absl::Status CheckTurn(std::span<const TokenId> tokens) const;

  std::span<const TokenId> committed() const { return transcript_->history().tokens(); }
  // Tokens of all turns that fit, as far as is known: the newest verifier may have room for fewer
  // than were asked for.
  uint32_t length_max() const { return length_max_; }
  // A reply is running.
  bool replying() const { return transcript_->replying(); }
  bool ended() const { return ended_; }
  const SessionStats& stats() const { return stats_; }

 private:
  Session(SessionOptions options, Parts parts, std::unique_ptr<Transcript> transcript);

  void On(const Start& event);
  void On(const Received& event);
  void On(const Written& event);
  void On(const StreamDown& event);
  void On(const Drafted& event);
  void On(const TimerFired& event);
  void On(const UserAppend& event);
  void On(const UserTruncate& event);
  void On(const UserClose& event);
  void On(const WroteAlone& event);
  void MakeRoom();

  // Messages down. What they return is why the stream is of no use any more.
  absl::Status Take(const v1::ServerMessage& message);
  absl::Status Take(const v1::Hint& hint);
  absl::Status Take(const v1::Verdict& verdict);
  void Take(const v1::PromptProgress& progress);
  void Take(const v1::Draining& draining);
  void Take(const v1::Fault& fault);
  absl::Status ReadVerdict(const v1::Verdict& verdict, NodeId& leaf);
  bool HasChildren(NodeId leaf, TokenId next) const;
  void Count(const v1::Verdict& verdict, NodeId leaf);
  bool IsToken(uint32_t wire) const;
  absl::Status ReadTokens(const google::protobuf::RepeatedField<uint32_t>& wire);

  // Streams (session_attaching.cc).
  bool IsCurrent(StreamNumber stream) const;
  void Attach();
  void WriteOpen(v1::Open& open);
  void WriteStops(v1::Stops& stops) const;
  void WriteResume(v1::Resume& resume);
  void Lost(const absl::Status& why, Duration at_least = {});
  void Reopen(const absl::Status& why);
  void CloseStreamIfAny();
  void Finish(const absl::Status& status);
  absl::Status Take(const v1::Opened& opened);
  absl::Status Take(const v1::Resumed& resumed);
  void BeginEpoch();
  void LimitDraft(const v1::Opened& opened);

  // The committed tokens (session_tokens.cc).
  absl::Status CatchUp(size_t shared, std::span<const TokenId> tokens, v1::Finish finish,
                       std::optional<uint64_t> hash);
  void TellEdits(size_t common);
  void SendMissing(size_t server_length);
  void SendAppend(size_t begin, size_t end, bool reply);
  void SendTruncate(size_t length);
  void Edited(size_t length);
  void CountEdit(size_t length);
  void ForgetSent();
  void BeginReply();
  void EndReply(size_t length);
  void CommitReply(std::span<const TokenId> tokens, v1::Finish finish);
  void ShowRest(std::string text);
  void MoveRoot(std::span<const TokenId> tokens);

  void MakeSketcher(const Sketcher::Options& options);

  // After every event.
  void Advance();
  void TellDryPolicy();
  void DriveDrafter();
  void SendGrowth();
  void Flush();
  void ArmTimer();
  void CheckInvariants() const;

  size_t size() const { return transcript_->size(); }
  uint32_t attempt() const { return static_cast<uint32_t>(link_.stream()); }

  template <typename T>
  void Act(T action) {
    actions_->push_back(std::move(action));
  }

  const SessionOptions options_;
  TreePolicy& policy_;
  CostModel& costs_;
  const std::function<uint64_t()> random_bits_;

  bool started_ = false;
  bool ended_ = false;
  const std::unique_ptr<Transcript> transcript_;
  uint32_t length_max_;  // as far as is known, the verifier's too
  bool continues_text_;  // the newest reply
  std::optional<Sketcher> sketcher_;
  WireIds wire_ids_;
  Measurements times_;
  SessionStats stats_;

  // The link.
  Link link_;
  Outbox outbox_;
  std::optional<MonotonicTime> armed_;  // the driver's timer

  // The session at the verifier.
  std::string session_;  // empty: not opened
  std::string resume_token_;
  std::optional<uint64_t> nonce_;  // of the Open that has not been answered
  size_t asked_length_ = 0;        // of the tokens in the newest Open or Resume
  std::string numerics_id_;
  uint32_t verdicts_seen_ = 0;
  std::optional<Dry> told_dry_;        // in this epoch
  uint32_t edits_ = 0;                 // of the session, sent or to be sent
  uint32_t edits_taken_in_ = 0;        // of them, as far as the verifier has told
  std::optional<size_t> edited_from_;  // length that no edit has touched of which it may not know

  // The drafter.
  uint64_t batches_ = 0;
  bool drafter_busy_ = false;
  bool batch_counts_ = false;  // the sketcher waits for the batch under way
  std::string drafter_error_;  // the newest, told once

  std::optional<OutcomePosterior::Hint> hint_;  // of the pass under way
  bool was_grown_before_hint_ = false;          // what it names

  // Working memory.
  MonotonicTime now_ = {};
  std::vector<Action>* actions_ = nullptr;
  std::vector<TokenId> tokens_;  // from the verifier
  std::vector<TokenId> committed_;
  std::vector<DraftedNode> nodes_;
  std::vector<Drafter::Context> contexts_;
  std::vector<std::span<const Proposal>> no_children_;
};

}  // namespace outrider
