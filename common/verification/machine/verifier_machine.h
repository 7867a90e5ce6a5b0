// The server's side of all sessions, as a pure machine: events in, actions out.
//
//   VerifierMachine machine(config, {tokenizer, random_bits});
//   machine.Handle(VerifierMachine::Received{stream, message}, now, actions);
//   for (const VerifierMachine::Action& action : actions) ...   // carried out in order
//   actions.clear();
//
// It is driven by gRPC and a target on a thread (outrider-server), or by a simulator in virtual
// time. A session (VerifiedSequence) outlives the stream it is attached to, for a time to live; a
// stream is one attachment of one session (attachments.h).
//
// The target runs one TargetRun at a time (target_run.h). What would disturb one that is under way
// waits for its end: edits, Close and Resume of a session that is in it. Growth does not wait.
//
// It tells its parts what happens, and they work on one state (verifier_state.h), each part of which
// has fields and invariants of its own:
//
//   attachments.h  how streams and sessions come together and part, and how all of it ends
//   session_runs.h what sessions have of the target's runs, and what becomes of that
//
//   callers.h      who calls, by key
//   streams.h      what each stream waits to hear and to say, and how long it may be silent
//   sessions.h     sessions by number, name and nonce, and how long each is kept; of each
//     session_identity.h   the names and secrets by which its device finds it again
//     session_pace.h       when its next pass begins
//     sequence_at_target.h what the target has of its tokens
//     draft_here.h         what is drafted here, for a device that leaves it to this side, as long
//                          as that is worth its time (draft_worth.h)
//   session_memory.h who has the target's memory and who waits for some (memory_lender.h), and
//                    whose text begins as another's (prefix_index.h)
//   next_run.h     who goes into the target's next run (scheduler.h), and what each pays
//
// Memory of the target is reserved in pages, for the whole length that a session may reach, when it
// opens; an Open that finds none free is refused (OVERLOADED). Sessions of one key hold together
// the pages of what their texts begin with alike, and those are read once. A session that is
// detached or has nothing to write may lose its pages to one that needs some: the server keeps the
// tokens, and reads them again when the session goes on.
//
// Backpressure: of each stream one message is written at a time, and one is taken in at a time: the
// next is asked for (Read).
//
// Bounds: config has them. Per stream: the message being written, `unread_verdicts_max` verdicts,
//         a few hints and one of every other kind; one message held back.
// Threads: as a vector.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/base/monotonic_time.h"
#include "common/text/tokenizer.h"
#include "common/verification/machine/attachments.h"
#include "common/verification/machine/session_runs.h"
#include "common/verification/machine/verifier_config.h"
#include "common/verification/machine/verifier_events.h"
#include "common/verification/machine/verifier_state.h"
#include "common/verification/machine/verifier_stats.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

class VerifierMachine : public VerifierEvents {
 public:
  struct Parts {
    const Tokenizer& tokenizer;  // outlives the machine
    std::function<uint64_t()> random_bits;
  };

  VerifierMachine(VerifierConfig config, Parts parts);

  // Appends to `actions`.
  void Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions);

  // What takes long of a message, on any thread: tokens are checked and hashed, stops compiled, as
  // far as Read said that it is worth the work.
  Prepared Prepare(const v1::ClientMessage& message, Work work) const {
    return attachments_.Prepare(message, work);
  }

  void Describe(v1::DescribeResponse& response) const;
  VerifierStats stats() const;
  size_t session_count() const { return state_.sessions.size(); }
  size_t stream_count() const { return state_.streams.size(); }
  // The one that a session (TargetWork::session) is attached to.
  std::optional<StreamNumber> StreamOf(uint64_t session) const;

  // Stops the process when its parts contradict one another. For tests: it looks at everything.
  void CheckInvariants() const;

 private:
  // Events.
  void On(const StreamOpened& event);
  void RefuseStream(const StreamOpened& event, VerifierEvents::StreamLimit limit,
                    std::string_view why);
  void On(const KeyRevoked& event);
  void On(const Received& event);
  void On(const Written& event);
  void On(const StreamClosed& event);
  void On(const TargetDone& event);
  void On(const HintFound& event);
  void On(const Drafted& event);
  void On(const TimerFired& event);
  void On(const Drain& event);

  // Messages.
  bool MustWait(const VerifierStream& stream, const v1::ClientMessage& message) const;
  void ReceiveHeld();
  void Receive(VerifierStream& stream, const v1::ClientMessage& message, Prepared* prepared);
  void ReceiveFirst(VerifierStream& stream, const v1::ClientMessage& message, Prepared* prepared);
  void ReceiveNext(VerifierSession& session, const v1::ClientMessage& message, Prepared* prepared);
  absl::Status Follow(VerifierSession& session, const v1::Grow& grow);
  absl::Status Follow(VerifierSession& session, const v1::Append& append, Prepared* prepared);
  absl::Status Follow(VerifierSession& session, const v1::Truncate& truncate);
  absl::Status Follow(VerifierSession& session, const v1::Tune& tune);
  void Close(VerifierSession& session);
  void SetTimerIfSooner();

  VerifierState state_;
  Attachments attachments_;
  SessionRuns runs_;
  std::optional<MonotonicTime> timer_at_;
};

}  // namespace outrider
