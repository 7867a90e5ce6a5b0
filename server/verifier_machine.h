// The server's side of all sessions, as a pure machine: events in, actions out.
//
//   VerifierMachine machine(config, {tokenizer, random_bits});
//   machine.Handle(VerifierMachine::Received{stream, message}, now, actions);
//   for (const VerifierMachine::Action& action : actions) ...   // carried out in order
//   actions.clear();
//
// It is driven by gRPC and a target on a thread (outrider-server), or by a simulator in virtual
// time. A session (VerifiedSequence) outlives the stream it is attached to, for a time to live; a
// stream is one attachment of one session:
//
//   stream    new --Open, Resume--> attached --Fault, Close--> ending --EndStream--> ended
//   session   attached <--Resume, Open again-- detached --time to live--> gone
//                 |   --stream closed, fenced, stalled-->
//                 +-- Close, a broken contract, a failing target --> gone
//
// The target runs one TargetRun at a time (target_run.h). What would disturb one that is under way
// waits for its end: edits, Close and Resume of a session that is in it. Growth does not wait.
//
// When a pass begins, once the root is known and the tokens before it are read: at once when the
// root has children or the device said `go`; otherwise as the session's dry policy has it. ADAPTIVE
// goes on alone at once when waiting for growth would cost more than the passes it spares are worth
// (dry_wait.h); else when growth has failed to come in twice its time. Such a pass takes rows that
// nobody else wants. ALONE goes on whether there are children or not, but for growth that is due so
// soon that the pass is better begun with it (growth_due.h).
//
// Memory of the target is reserved in pages, for the whole length that a session may reach, when it
// opens; an Open that finds none free is refused (OVERLOADED). A session that is detached or has
// nothing to write may lose its pages to one that needs some: the server keeps the tokens, and
// reads them again when the session goes on.
//
// Backpressure: of each stream one message is written at a time, and one is taken in at a time: the
// next is asked for (Read). Sessions with several unread verdicts get no pass.
//
// Streams of one device may come in another order than it asked for them. Each carries its attempt,
// and a session is attached to rising ones only: a late one is refused, and fences nobody.
//
// Secrets: a resume token is 128 random bits, bound to the key of the stream that opened the
// session, compared in constant time, and new at every attachment. The one before stays good until
// the device has said something on the stream that gave it the new one: an answer may be lost.
//
// Bounds: config has them. Per stream: the message being written, `unread_verdicts_max` verdicts,
//         one hint and one of every other kind; one message held back.
// Threads: as a vector.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "common/base/monotonic_time.h"
#include "common/speculation/moving_average.h"
#include "common/speculation/verified_sequence.h"
#include "common/text/tokenizer.h"
#include "common/tokens/outcome.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/deadlines.h"
#include "server/scheduler.h"
#include "server/target_run.h"

namespace outrider {

struct VerifierConfig {
  // Of the target, as Describe tells it.
  std::string model_name;
  std::string numerics_id;
  std::string tokenizer_fingerprint;
  uint32_t vocabulary_size = 0;
  uint32_t context_length = 0;
  uint32_t pass_nodes_max = 63;
  std::vector<uint32_t> exit_depths;

  uint32_t sketch_nodes_max = 256;
  // What of the target's is lent out: sequences, and pages of keys and values.
  uint32_t sequence_count_max = 16;
  uint32_t page_count = 0;
  uint32_t page_tokens = 0;

  uint32_t session_count_max = 1024;
  uint32_t session_count_of_key_max = 64;
  uint32_t stream_count_max = 2048;
  uint32_t unread_verdicts_max = 3;
  Scheduler::Options scheduler;

  Duration time_to_live = std::chrono::minutes(2);        // of a session without a stream
  Duration first_message_max = std::chrono::seconds(10);  // of a new stream
  Duration silence_max = std::chrono::minutes(15);        // of a device
  Duration write_max = std::chrono::seconds(30);          // of one message
  Duration retry_after = std::chrono::seconds(1);         // said to whom there is no room for
};

class VerifierMachine {
 public:
  // Given by the driver, never twice.
  using StreamNumber = uint64_t;

  // Events. What they point to is read before Handle() returns. Events of a stream that was closed
  // are passed over.
  struct StreamOpened {
    StreamNumber stream;
    std::string_view key;  // who calls, as far as the transport knows
  };
  // Only in answer to Read.
  struct Received {
    StreamNumber stream;
    const v1::ClientMessage& message;
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
    double probability;
  };
  struct TimerFired {};
  // Asked to stop: no new sessions, and by the deadline none at all.
  struct Drain {
    MonotonicTime deadline;
  };
  using Event = std::variant<StreamOpened, Received, Written, StreamClosed, TargetDone, HintFound,
                             TimerFired, Drain>;

  // Actions.
  // The stream's next message may come.
  struct Read {
    StreamNumber stream;
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
  // In place of the timer that was set before.
  struct SetTimer {
    MonotonicTime at;
  };
  // After Drain: no stream and no session is left. Nothing follows.
  struct Drained {};
  using Action = std::variant<Read, Send, EndStream, RunTarget, SetTimer, Drained>;

  struct Stats {
    uint64_t sessions_opened = 0;
    uint64_t sessions_refused = 0;  // for want of room
    uint64_t attachments = 0;       // Opened and Resumed
    uint64_t runs = 0;
    uint64_t passes = 0;
    uint64_t pass_nodes = 0;  // drafted, in those
    uint64_t tokens = 0;      // committed by verdicts
    uint64_t alone_passes = 0;
    uint64_t prompt_tokens = 0;  // read, of Opens, Appends and refills
    uint64_t evictions = 0;
    uint64_t hints_sent = 0;
    uint64_t hints_overtaken = 0;
    uint64_t faults = 0;
  };

  struct Parts {
    const Tokenizer& tokenizer;  // outlives the machine
    std::function<uint64_t()> random_bits;
  };

  VerifierMachine(VerifierConfig config, Parts parts);
  ~VerifierMachine();

  // Appends to `actions`.
  void Handle(const Event& event, MonotonicTime now, std::vector<Action>& actions);

  void Describe(v1::DescribeResponse& response) const;
  const Stats& stats() const { return stats_; }
  size_t session_count() const;
  size_t stream_count() const;
  // The one that a session (TargetWork::session) is attached to.
  std::optional<StreamNumber> StreamOf(uint64_t session) const;

  // Stops the process when its parts contradict one another. For tests: it looks at everything.
  void CheckInvariants() const;

 private:
  struct Caller;
  struct Session;
  struct Stream;

  // Events.
  void On(const StreamOpened& event);
  void On(const Received& event);
  void On(const Written& event);
  void On(const StreamClosed& event);
  void On(const TargetDone& event);
  void On(const HintFound& event);
  void On(const TimerFired& event);
  void On(const Drain& event);

  // Messages (verifier_machine.cc).
  void Take(Stream& stream, const v1::ClientMessage& message);
  bool MustWait(const Stream& stream, const v1::ClientMessage& message);
  void TakeHeld();
  void DropHeld(Stream& stream);
  void TakeFirst(Stream& stream, const v1::ClientMessage& message);
  void TakeNext(Session& session, const v1::ClientMessage& message);
  absl::Status OnGrow(Session& session, const v1::Grow& grow);
  absl::Status OnAppend(Session& session, const v1::Append& append);
  absl::Status OnTruncate(Session& session, const v1::Truncate& truncate);
  void OnClose(Session& session);

  // Streams, and what ends.
  Caller& CallerOf(std::string_view key);
  void ForgetIfUnused(const Caller& caller);
  Stream* FindStream(StreamNumber number);
  void ReadNext(Stream& stream);
  void Pump(Stream& stream);
  void Refuse(Stream& stream, v1::Fault::Kind kind, const absl::Status& why);
  void End(Stream& stream, absl::Status status);
  void Detach(Stream& stream);
  void Remove(Session& session);
  void RemoveWithFault(Session& session, v1::Fault::Kind kind, const absl::Status& why);
  void Erase(Session& session);
  void CheckStream(Stream& stream);
  MonotonicTime DeadlineOf(const Stream& stream) const;
  void CheckSession(Session& session);
  void TellDraining(Stream& stream);
  void EndDrain();
  void EndAll();
  void SetTimerIfSooner();

  // Attaching (verifier_attaching.cc).
  void OnOpen(Stream& stream, const v1::Open& open);
  void OpenNew(Stream& stream, const v1::Open& open);
  void OpenAgain(Stream& stream, const v1::Open& open, Session& session);
  void OnResume(Stream& stream, const v1::Resume& resume);
  absl::Status CheckCompatible(const v1::Open& open) const;
  bool HasRoomFor(const Caller& caller) const;
  void RefuseForWantOfRoom(Stream& stream);
  Session* FindOpened(const Stream& stream, const v1::Open& open);
  Session* FindResumed(const Stream& stream, const v1::Resume& resume);
  Session& AddSession(Caller& caller, const v1::Open& open,
                      std::unique_ptr<VerifiedSequence> sequence);
  void RefuseLate(Stream& stream);
  void Fence(Session& session);
  void AnswerOpen(Stream& stream, Session& session, v1::Opened& opened);
  void Attach(Stream& stream, Session& session);

  // The target and its memory (verifier_target.cc).
  uint32_t PagesFor(uint32_t tokens) const;
  uint32_t PagesOf(const VerifiedSequence& sequence) const;
  bool MakeRoom(uint32_t pages);
  bool CanEvict(const Session& session) const;
  Session& LongestIdle();
  void TakeMemory(Session& session);
  void ReleaseMemory(Session& session);
  void WantMemory(Session& session);
  void LeaveMemoryQueue(Session& session);
  void ServeMemoryQueue();
  void Schedule();
  void FindCandidates();
  std::optional<Scheduler::Candidate> CandidateOf(Session& session);
  void TimeGrowth(Session& session);
  void BeginWork(Session& session, const Scheduler::Share& share);
  void ChargeRun();
  void EndWork(TargetWork& work);
  void EndPrompt(Session& session, const TargetWork& work);
  void EndPass(Session& session, const TargetWork& work);

  const VerifierConfig config_;
  const Parts parts_;
  uint32_t length_max_;  // of a session that takes all the memory

  MonotonicTime now_;
  std::vector<Action>* actions_ = nullptr;  // of the event that is being handled
  std::optional<MonotonicTime> timer_at_;

  std::map<std::string, std::unique_ptr<Caller>, std::less<>> callers_;
  std::map<StreamNumber, std::unique_ptr<Stream>> streams_;
  std::map<uint64_t, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<std::string, Session*> sessions_by_id_;
  std::map<std::pair<uint64_t, uint64_t>, Session*> sessions_by_nonce_;  // of a caller
  uint64_t caller_number_ = 0;                                           // the last one given
  uint64_t session_number_ = 0;                                          // the last one given
  std::vector<StreamNumber> holding_;  // streams whose message waits for the end of the run
  Deadlines stream_deadlines_;
  Deadlines session_deadlines_;
  std::optional<MonotonicTime> drain_deadline_;
  bool drained_ = false;

  uint32_t free_pages_;
  uint32_t free_sequences_;
  std::deque<Session*> memory_queue_;  // who has something to write and no memory

  Scheduler scheduler_;
  bool running_ = false;
  MonotonicTime run_begin_;
  TargetRun run_;
  std::vector<SequenceId> to_close_;
  MovingAverage pass_seconds_;

  Stats stats_;
  // Working memory.
  std::vector<Session*> candidate_sessions_;
  std::vector<Scheduler::Candidate> candidates_;
  std::vector<Scheduler::Share> shares_;
  v1::Verdict unsent_verdict_;  // of a session without a stream
  v1::Hint hint_;
};

}  // namespace outrider
