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
// goes on alone at once when growth is expected to take longer than a pass; else when it has failed
// to come in twice its time. Such a pass takes rows that nobody else wants.
//
// Memory of the target is reserved in pages, for the whole length that a session may reach, when it
// opens; an Open that finds none free is refused (OVERLOADED). A session that is detached or has
// nothing to write may lose its pages to one that needs some: the server keeps the tokens, and
// reads them again when the session goes on.
//
// Backpressure: of each stream one message is written at a time, and one is taken in at a time: the
// next is asked for (Read). Sessions with several unread verdicts get no pass.
//
// Secrets: a resume token is 128 random bits, bound to the key of the stream that opened the
// session, compared in constant time, and new at every attachment. The one before stays good until
// the device has said something on the stream that gave it the new one: an answer may be lost.
//
// Bounds: config has them. Per stream: the message being written, `unread_verdicts_max` verdicts,
//         one hint and one of every other kind; one message held back.
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "common/base/monotonic_time.h"
#include "common/text/tokenizer.h"
#include "common/tokens/outcome.h"
#include "proto/outrider/v1/verifier.pb.h"
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

  // Stops the process when its parts contradict one another. For tests: it looks at everything.
  void CheckInvariants() const;

 private:
  Stats stats_;
};

}  // namespace outrider
