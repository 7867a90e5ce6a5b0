// What the verifier machine is told, and what it asks for.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/monotonic_time.h"
#include "common/tokens/outcome.h"
#include "common/tokens/stop_conditions.h"
#include "common/verification/caller_terms.h"
#include "common/verification/draft_job.h"
#include "common/verification/machine/session_tally.h"
#include "common/verification/target_run.h"
#include "common/verification/verified_sequence.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// The machine's names for them (VerifierMachine::Received ...).
struct VerifierEvents {
  // Given by the driver, never twice.
  using StreamNumber = uint64_t;

  // Events. What they point to is read before Handle() returns. Events of a stream that was closed
  // are passed over.
  struct StreamOpened {
    StreamNumber stream;
    std::string_view key;  // who calls, as far as the transport knows
    CallerTerms terms = {};
    std::string_view origin = {};  // where he calls from; empty: not known
  };
  // Nobody may call by it any more.
  struct KeyRevoked {
    std::string_view key;
  };
  // What takes long of a message, done before the machine hears of it (VerifierMachine::Prepare).
  struct Prepared {
    size_t open_hash = 0;  // of an Open, but for its attempt
    // What an Open asks for, ready to be written to, or what is wrong with it; none: there was no
    // room for it (Read::work).
    std::optional<absl::StatusOr<std::unique_ptr<VerifiedSequence>>> sequence = {};
    std::optional<absl::StatusOr<StopConditions>> stops = {};  // of an Append that brings some
  };
  // Only in answer to Read. What was prepared is taken; null: the machine is to do it.
  struct Received {
    StreamNumber stream;
    const v1::ClientMessage& message;
    Prepared* prepared = nullptr;
  };
  // What Send gave has been taken by the transport.
  struct Written {
    StreamNumber stream;
  };
  // It broke, or EndStream has been carried out. Nothing of it follows.
  struct StreamClosed {
    StreamNumber stream;
  };
  // The run that RunTarget gave has been executed.
  struct TargetDone {};
  // While a run is being executed: what an exit makes of one of its passes.
  struct HintFound {
    uint64_t session;  // TargetWork::session
    uint32_t exit;
    Outcome outcome;
    double probability;          // calibrated
    double largest_softmax = 1;  // ExitEvidence
  };
  // The job that Draft gave has been done: a chain, which may be empty.
  struct Drafted {
    uint64_t session;
    std::span<const TokenId> chain;
    Duration time;  // without what it waited for other jobs
  };
  struct TimerFired {};
  // Asked to stop: no new sessions, and by the deadline none at all.
  struct Drain {
    MonotonicTime deadline;
  };
  using Event = std::variant<StreamOpened, KeyRevoked, Received, Written, StreamClosed, TargetDone,
                             HintFound, Drafted, TimerFired, Drain>;

  // Actions.
  // What of the next message is worth preparing: nobody has work done for him that comes to nothing.
  enum class Work : uint8_t {
    kLittle,  // what is looked up
    kOpen,    // an Open has room, and what it is to have is kept for it
    kEdit,    // the stream has a session
  };
  // The stream's next message may come.
  struct Read {
    StreamNumber stream;
    Work work = Work::kLittle;
  };
  // The message stays as it is until Written or StreamClosed.
  struct Send {
    StreamNumber stream;
    const v1::ServerMessage* message;
  };
  // At once, even while something is being written.
  struct EndStream {
    StreamNumber stream;
    absl::Status status;
  };
  // The run is the driver's until TargetDone.
  struct RunTarget {
    TargetRun* run;
  };
  // To be answered with Drafted. One of a session at a time, in any order of sessions.
  struct Draft {
    DraftJob job;
  };
  // Nothing is drafted for this session any more.
  struct ForgetDraft {
    uint64_t session;
  };
  // In place of the timer that was set before.
  struct SetTimer {
    MonotonicTime at;
  };
  // After Drain: no stream and no session is left. Nothing follows.
  struct Drained {};
  // For whoever keeps a log. Nothing of them is text of a session.
  struct FaultFound {
    StreamNumber stream;
    uint64_t session;  // 0: the stream has had none
    std::string key;
    v1::Fault::Kind kind;
    std::string why;
  };
  enum class StreamLimit : uint8_t { kAll, kOfKey, kOfOrigin };
  // There are as many streams as there may be; EndStream says so to its device.
  struct StreamRefused {
    std::string key;
    std::string origin;
    StreamLimit limit;
  };
  enum class SessionEnd : uint8_t {
    kClosed,   // by its device
    kFault,    // FaultFound tells
    kExpired,  // nobody has come back for it
    kRevoked,  // its key
    kDrained,  // the server stops
  };
  struct SessionOver {
    uint64_t session;
    std::string key;
    SessionEnd why;
    SessionTally tally;
  };
  using Action = std::variant<Read, Send, EndStream, RunTarget, Draft, ForgetDraft, SetTimer,
                              Drained, FaultFound, StreamRefused, SessionOver>;
};

// An event that is being handled, as the machine's parts see it: when that is, and where goes what
// they ask for.
struct Moment {
  MonotonicTime now{};
  std::vector<VerifierEvents::Action>* actions = nullptr;

  void Ask(VerifierEvents::Action action) const;
};

}  // namespace outrider
