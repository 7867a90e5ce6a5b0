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
// Its parts, each with its own fields and its own laws:
//
//   Transcript   what is committed, and what of it the user is shown
//   Attachment   streams, Open and Resume, back-off, edits in doubt, messages that wait
//   Drafting     the sketch, batches of the drafter, what of it all was sent
//   Tally        what is counted
//
// Beside it stands a Controller: after every verdict it chooses how to decode from there on (what
// to grow, how many nodes a pass is to take, whether hints are wanted, what the target does when
// nothing was drafted, whether the server is to draft), and the session acts on it and tells the
// verifier in a Tune.
//
// Here they are joined: an event is told to those it concerns, and what they then want is done, in
// one order (Advance()). What the other side has committed and we lack is committed here; what we
// have and it lacks is appended there. When nothing helps for `patience`, the session fails, and says
// why.
//
// Stops: the server ends a reply, where its model does or the user asked it to. What the user asked
// for is checked here too, and nothing past it is shown.
//
// Memory:  taken when it is made, for `length_max` tokens and the sketch. Messages keep theirs from
//          one to the next. Text allocates as text does.
// Queues:  one message is being written, others wait (attachment.h); what joins the sketch meanwhile
//          stays there and goes up with the next.
// Threads: as a vector.
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
#include "client/session/attachment.h"
#include "client/session/drafting.h"
#include "client/session/measurements.h"
#include "client/session/session_options.h"
#include "client/session/tally.h"
#include "client/session/transcript.h"
#include "common/base/monotonic_time.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/drafter.h"
#include "common/text/tokenizer.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

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
  // Not before Written has answered the one before it. What is in the message may be taken, and
  // something else left there.
  struct Send {
    StreamNumber stream;
    v1::ClientMessage* message;
  };
  struct CloseStream {
    StreamNumber stream;
  };
  // To be answered with Drafted, one batch after the other. As many wait as options say.
  struct Draft {
    uint64_t batch;
    std::span<const TokenId> committed;
    size_t reply_begin;  // so many of them stand before the reply
    std::span<const DraftedNode> nodes;
    std::span<const Drafter::Context> contexts;
  };
  // Nobody waits for this batch any more: it need not be drafted, nor answered.
  struct CancelDraft {
    uint64_t batch;
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
  using Action = std::variant<OpenStream, Send, CloseStream, Draft, CancelDraft, Commit, Progress,
                              SetTimer, Report, End>;

  // All but `random_bits` must outlive the session.
  struct Parts {
    const Tokenizer& tokenizer;
    Controller& controller;
    CostModel& costs;
    std::function<uint64_t()> random_bits;
  };

  // InvalidArgument when there is no prompt, it does not fit into length_max or is not the
  // vocabulary's, or options are refused (SamplingOptions, StopConditions).
  static absl::StatusOr<std::unique_ptr<Session>> Create(SessionOptions options, Parts parts);

  // Appends to `actions`. When `more_follow`, events that are at hand already, nothing is drafted and nothing
  // grown before the last of them: what they tell would have come too late.
  void Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions,
              bool more_follow = false);

  // Whether these tokens can be a turn (Transcript).
  absl::Status CheckTurn(std::span<const TokenId> tokens) const {
    return transcript_->CheckTurn(tokens);
  }

  std::span<const TokenId> committed() const { return transcript_->tokens(); }
  // Tokens of all turns that fit, as far as is known: the newest verifier may have room for fewer
  // than were asked for.
  uint32_t length_max() const { return transcript_->length_max(); }
  // A reply is running.
  bool replying() const { return transcript_->replying(); }
  bool ended() const { return ended_; }
  // How it decodes now.
  const Course& course() const { return controller_.course(); }
  const SessionStats& stats() const { return tally_.stats(); }
  // What its passes and drafts took, and were thought to take.
  const Measurements::Totals& times() const { return drafting_.times(); }

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

  // Messages down. What they return is why the stream is of no use any more.
  absl::Status Receive(const v1::ServerMessage& message);
  absl::Status Receive(const v1::Opened& opened);
  absl::Status Receive(const v1::Resumed& resumed);
  absl::Status Receive(const v1::Hint& hint);
  absl::Status Receive(const v1::Verdict& verdict);
  void Receive(const v1::PromptProgress& progress);
  void Receive(const v1::Draining& draining);
  void Receive(const v1::Fault& fault);
  absl::StatusOr<std::optional<NodeId>> ReadVerdict(const v1::Verdict& verdict);
  absl::StatusOr<std::optional<NodeId>> ReadPath(const v1::Verdict& verdict);

  // Streams.
  void Attach();
  void LeaveStream();
  void Lost(const absl::Status& why, Duration at_least = {});
  void Reopen(const absl::Status& why);
  void Finish(const absl::Status& status);
  void BeginEpoch();
  absl::Status CatchUp(const Attachment::Answer& answer);
  void MakeRoom();

  // Replies.
  void BeginReply(bool continues_text);
  void EndReply(size_t length);
  void CommitReply(std::span<const TokenId> tokens, v1::Finish finish);
  void CommitUntold(std::span<const TokenId> tokens, v1::Finish finish);
  void ShowRest(std::string text);

  // What the verifier was told of a course.
  struct Told {
    std::optional<Dry> dry;
    uint32_t pass_nodes;
    bool hints;
    bool server_drafts;

    bool operator==(const Told&) const = default;
    Told With(uint32_t other_pass_nodes) const {
      Told other = *this;
      other.pass_nodes = other_pass_nodes;
      return other;
    }
  };

  // After every event.
  void Advance(bool more_follow);
  void FollowEpoch();
  void Tune();
  void CancelMoot();
  void DriveDrafter();
  void SendGrowth();
  void SayPassNodes(v1::Grow& grow);
  void TellPassNodes();
  Told Chosen() const;
  void SendTune(const Told& wanted);
  void Flush();
  void ArmTimer();
  void CheckInvariants() const;

  size_t size() const { return transcript_->size(); }

  // Of a target that was told so, or nothing since it was opened.
  bool WantsHints(std::optional<Dry> dry) const {
    return options_.WantsHints(dry ? *dry != Dry::kAlone
                                   : options_.dry_policy != v1::DRY_POLICY_ALONE);
  }
  // What Open says.
  Told AsOpened() const {
    return {std::nullopt, options_.sketch.pass_node_count_max, WantsHints(std::nullopt),
            /*server_drafts=*/false};
  }

  template <typename T>
  void Act(T action) {
    actions_->push_back(std::move(action));
  }

  const SessionOptions options_;
  Controller& controller_;

  bool started_ = false;
  bool ended_ = false;
  const std::unique_ptr<Transcript> transcript_;
  Attachment attachment_;
  Drafting drafting_;
  Tally tally_;
  uint64_t epoch_ = 0;                  // of what drafting_ has sent
  std::optional<Told> told_;            // nothing: of a Tune nobody knows whether it arrived
  bool has_tuned_ = false;              // since it was opened
  bool server_can_draft_ = false;       // as it has said
  std::optional<MonotonicTime> armed_;  // the driver's timer

  // Working memory.
  MonotonicTime now_ = {};
  std::vector<Action>* actions_ = nullptr;
  std::vector<TokenId> tokens_;  // of a verdict
};

}  // namespace outrider
