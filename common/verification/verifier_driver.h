// Runs the verifier machine: the machine on one thread, the target on another, and on a third the
// draft that stands beside the target, if there is one.
//
//   VerifierDriver driver(machine, target);           // or (machine, target, new_drafter)
//   driver.Open(number, std::move(stream), key);      // any thread: what the transport tells
//   driver.Drain(std::chrono::seconds(30));
//   driver.WaitUntilDrained(deadline);
//   driver.AskStats();
//
// Whoever tells it something is not kept: an event joins a queue, and the machine's thread takes it
// from there. What the machine asks of a stream, that thread does.
//
// What the target says goes before what streams do, and that something is written before what is new:
// a flood of calls and messages holds up neither the run that comes next nor what is said to others. Of
// each the order stays.
//
// Queues:  events that wait for the machine: of every stream its beginning, a message (none comes
//          before it was asked for), the end of a write, that it broke and its end; the target's:
//          that it is done, and before that a guess of every exit for every pass; of every session
//          a chain that was drafted.
// Threads: any may call anything; ~VerifierDriver() waits for its own, and no stream may be left
//          then. Those of the machine and the target are prompt (thread_turn.h): a transport that is
//          flooded has a core's time, and they have it when they need it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "common/base/clock.h"
#include "common/base/monotonic_time.h"
#include "common/base/mutex.h"
#include "common/engine/target.h"
#include "common/verification/caller_terms.h"
#include "common/verification/draft_thread.h"
#include "common/verification/machine/verifier_machine.h"
#include "common/verification/machine/verifier_stats.h"
#include "common/verification/target_run.h"

namespace outrider {

class VerifierDriver {
 public:
  using StreamNumber = VerifierMachine::StreamNumber;

  // One attached device, as a transport gives it. Called from the machine's thread, which also
  // destroys it, after Ended().
  class Stream {
   public:
    virtual ~Stream() = default;

    // Received() answers, when a message has come, or Broken().
    virtual void Read() = 0;
    // Written() answers. The message stays as it is until then.
    virtual void Send(const v1::ServerMessage& message) = 0;
    // Once, and last; Ended() answers. What is being written need not arrive when `at_once`.
    virtual void End(const absl::Status& status, bool at_once) = 0;
  };

  // What a log is told, on the machine's thread, which waits for it. Any may be null.
  struct Log {
    std::function<void(const VerifierMachine::StreamRefused& refused)> refused;
    std::function<void(const VerifierMachine::FaultFound& fault)> fault;
    std::function<void(const VerifierMachine::SessionOver& over)> session;
  };

  // Both outlive it, and are its own until it is gone. `new_drafter` is called on the draft's thread
  // alone, which owns what it makes; null: nothing is drafted here. By `run_clock` the target's runs
  // take their time, which is what rows are priced by.
  VerifierDriver(VerifierMachine& machine, Target& target,
                 DraftRunner::NewDrafter new_drafter = nullptr, Log log = {},
                 const Clock& run_clock = RealClock());
  ~VerifierDriver();

  // For a new stream, which is told of by it from then on. Never given twice.
  StreamNumber NextNumber();
  // `key` tells whose stream it is, `origin` where it comes from (empty: not known). Before anything
  // else is told of it.
  void Open(StreamNumber number, std::unique_ptr<Stream> stream, std::string key,
            const CallerTerms& terms = {}, std::string origin = {});
  // Whoever called by this key may not any more: its streams end, and its sessions.
  void Revoke(std::string key);
  // `message` stays as it is until the next Read(). What takes long of it is done here, on the
  // caller's thread, if it is for something: who may open nothing has nothing prepared.
  void Received(StreamNumber stream, const v1::ClientMessage& message);
  void Written(StreamNumber stream);
  void Broken(StreamNumber stream);  // nothing more will come; it has not ended yet
  void Ended(StreamNumber stream);   // the transport will say nothing more of it

  struct Stats {
    VerifierStats machine;
    uint64_t bytes_up;  // of messages
    uint64_t bytes_down;
  };
  // As it is when all that was told before has been handled; none: that is not so by `deadline`, and
  // something is wrong with the machine's thread.
  std::optional<Stats> AskStats(MonotonicTime deadline);

  // No new sessions; those there are have `grace` left.
  void Drain(Duration grace);
  // Whether no stream and no session is left after a Drain(), waiting for it until `deadline`.
  bool WaitUntilDrained(MonotonicTime deadline);

 private:
  struct Told {
    enum class What {
      kOpened,
      kReceived,
      kWritten,
      kBroken,
      kEnded,
      kGuessed,
      kTargetDone,
      kDrafted,
      kRevoked,
      kAsked,
      kDrain
    };
    What what;
    StreamNumber stream = 0;
    std::unique_ptr<Stream> opened = {};
    const v1::ClientMessage* message = nullptr;
    VerifierMachine::Prepared prepared = {};
    std::string key = {};
    CallerTerms terms = {};
    std::string origin = {};
    Duration grace = {};
    VerifierMachine::HintFound guessed = {};
    uint64_t session = 0;
    std::vector<TokenId> chain = {};
    Duration draft_time = {};
    std::shared_ptr<std::promise<VerifierStats>> stats = {};
  };
  struct Connection {
    std::unique_ptr<Stream> stream;
    bool writing = false;
    bool ended = false;  // End() has been called
  };

  void Tell(Told told);

  // The machine's thread.
  void RunMachine();
  std::optional<Told> NextTold();  // none: the timer's time has come, or it is to stop
  void Handle(Told& told);
  void HandOver(const VerifierMachine::Event& event);
  void Ask(TargetRun& run);
  void Do(VerifierMachine::Action& action);
  void SetWork(const VerifierMachine::Read& read);
  void ForgetWork(StreamNumber stream);
  void End(Connection& connection, const absl::Status& status);

  // The target's thread.
  void RunTarget();

  VerifierMachine& machine_;
  TargetRunner runner_;
  const Log log_;
  std::atomic<uint64_t> bytes_up_ = 0;
  std::atomic<uint64_t> bytes_down_ = 0;

  std::map<StreamNumber, Connection> connections_;  // machine's thread only
  std::optional<MonotonicTime> timer_;              // machine's thread only
  std::vector<VerifierMachine::Action> actions_;    // machine's thread only

  Mutex mu_;
  CondVar told_something_;
  CondVar asked_target_;
  CondVar drained_changed_;
  std::deque<Told> told_first_ ABSL_GUARDED_BY(mu_);  // by the target, and what is written
  std::deque<Told> told_ ABSL_GUARDED_BY(mu_);
  StreamNumber stream_number_ ABSL_GUARDED_BY(mu_) = 0;  // the last one given
  // Of each stream's next message.
  std::map<StreamNumber, VerifierMachine::Work> work_ ABSL_GUARDED_BY(mu_);
  TargetRun* run_ ABSL_GUARDED_BY(mu_) = nullptr;  // to be executed
  bool drained_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread target_thread_;  // last: these start when all above exists
  std::optional<DraftThread> draft_;
  std::thread machine_thread_;
};

}  // namespace outrider
