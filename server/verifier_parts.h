// What the verifier machine keeps of callers, sessions and streams. Private to it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "common/base/monotonic_time.h"
#include "common/speculation/growth_due.h"
#include "common/speculation/verified_sequence.h"
#include "proto/outrider/v1/verifier.pb.h"
#include "server/dry_wait.h"
#include "server/outbox.h"
#include "server/resume_token.h"
#include "server/verifier_machine.h"

namespace outrider {

// Everybody who calls with one key.
struct VerifierMachine::Caller {
  std::string key;
  uint64_t number;
  uint32_t session_count = 0;
  uint32_t stream_count = 0;
};

struct VerifierMachine::Session {
  enum class Memory { kNone, kQueued, kReserved };

  explicit Session(const std::function<uint64_t()>& random_bits)
      : id(RandomBytes(random_bits)), token(random_bits) {}

  const std::string id;  // on the wire
  uint64_t number = 0;
  Caller* caller = nullptr;
  uint64_t nonce = 0;
  size_t open_hash = 0;  // of all that its repetitions have to say again
  uint32_t attempt = 0;  // the highest that it was attached to
  bool wants_hints = false;
  v1::DryPolicy dry_policy = v1::DRY_POLICY_ADAPTIVE;
  std::unique_ptr<VerifiedSequence> sequence;

  ResumeToken token;
  std::optional<ResumeToken> old_token;  // until the device is known to have the new one
  Stream* stream = nullptr;
  bool gone = false;           // removed, but still in the run
  MonotonicTime idle_since{};  // detached, or nothing to write

  // At the target.
  Memory memory = Memory::kNone;
  uint32_t page_count = 0;              // what it reserves
  std::optional<SequenceId> target_id;  // none: there is nothing of it
  uint32_t read_count = 0;              // tokens the target has, once it has done these two:
  std::optional<Outcome> commit;
  std::optional<uint32_t> truncate_to;

  // The run it is in.
  bool in_run = false;
  std::optional<MonotonicTime> seen_at;  // when the last node came that the pass has seen

  // Times.
  MonotonicTime last_growth{};
  DryWait dry;
  GrowthDue due;
  // A prompt that takes more than one run.
  uint32_t read_before = 0;
  std::optional<MonotonicTime> reading_since;
};

struct VerifierMachine::Stream {
  enum class State {
    kNew,       // nothing has been said
    kAttached,  // to a session
    kEnding,    // when what waits is written
    kEnded,     // as far as the machine is concerned
  };

  Stream(StreamNumber stream_number, Caller& stream_caller, uint32_t verdict_count_max,
         MonotonicTime now)
      : number(stream_number),
        caller(stream_caller),
        outbox(verdict_count_max),
        opened(now),
        heard(now) {}

  bool listens() const { return state == State::kNew || state == State::kAttached; }

  const StreamNumber number;
  Caller& caller;
  State state = State::kNew;
  Session* session = nullptr;
  Outbox outbox;
  const MonotonicTime opened;
  MonotonicTime heard;  // when it last did something
  MonotonicTime write_begin{};
  std::unique_ptr<v1::ClientMessage> held;  // until the run is over
  absl::Status end;                         // what it ends with
};

}  // namespace outrider
