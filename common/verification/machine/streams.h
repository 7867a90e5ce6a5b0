// The streams that are attached or about to be: what each waits to hear, what it waits to say, and
// how long it may be silent.
//
//   new --Attached()--> attached --Refuse(), End()--> ending --all is written--> ended --Close()
//
// A stream says one message at a time, and the next when it has been asked for it (ReadNext), which is
// later where it says too much (message_pace.h). Down goes one message at a time too, from its outbox (Pump). Whichever it waits for, there is a
// deadline: of a new stream for its first message, of one that is attached for anything at all, of
// a message for being written.
//
// Whose session a stream has is the machine's to say; it separates the two before a stream ends.
//
// Memory:  per stream its outbox, and one message that is held back while a run lasts.
// Threads: as a vector.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/base/monotonic_time.h"
#include "common/verification/machine/callers.h"
#include "common/verification/machine/deadlines.h"
#include "common/verification/machine/message_pace.h"
#include "common/verification/machine/origins.h"
#include "common/verification/machine/stream_outbox.h"
#include "common/verification/machine/verifier_events.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

struct VerifierSession;

struct VerifierStream {
  enum class State {
    kNew,       // nothing has been said
    kAttached,  // to a session
    kEnding,    // when what waits is written
    kEnded,     // as far as the machine is concerned
  };

  VerifierStream(uint64_t stream_number, Caller& stream_caller, Origin* stream_origin,
                 uint32_t verdict_count_max, uint32_t messages_per_second, MonotonicTime now)
      : number(stream_number),
        caller(stream_caller),
        origin(stream_origin),
        pace(messages_per_second),
        outbox(verdict_count_max),
        opened(now),
        heard(now) {}

  bool listens() const { return state == State::kNew || state == State::kAttached; }

  const uint64_t number;
  Caller& caller;
  Origin* const origin;  // null: not known
  State state = State::kNew;
  bool has_place = false;  // Streams::KeepPlace()
  VerifierSession* session = nullptr;
  uint64_t session_number = 0;  // of the last one it had; 0: none
  MessagePace pace;
  StreamOutbox outbox;
  const MonotonicTime opened;
  MonotonicTime heard;  // when it last did something
  MonotonicTime write_begin{};
  struct Held {
    v1::ClientMessage message = {};
    std::optional<VerifierEvents::Prepared> prepared = {};
  };
  std::unique_ptr<Held> held;  // until the run is over
  absl::Status end;            // what it ends with
};

class Streams {
 public:
  using StreamNumber = VerifierEvents::StreamNumber;

  struct Limits {
    uint32_t stream_count_max;
    uint32_t unread_verdicts_max;
    uint32_t messages_per_second;  // of a stream; 0: any number
    Duration first_message_max;
    Duration silence_max;
    Duration write_max;
    Duration retry_after;  // said to whom there is no room for
  };

  // The moment outlives it.
  Streams(const Limits& limits, const Moment& moment);

  bool full() const { return streams_.size() >= limits_.stream_count_max; }
  // There is room.
  VerifierStream& Open(StreamNumber number, Caller& caller, Origin* origin);
  // It is gone, and so are its deadlines and what it has held.
  void Close(VerifierStream& stream);
  // Null: none of this number.
  VerifierStream* Find(StreamNumber number);
  // Null: none, or it has been said all there is to say.
  VerifierStream* FindListening(StreamNumber number);

  // The answer to its first message is in the outbox.
  void Attached(VerifierStream& stream);
  // A message of its has come.
  void Took(VerifierStream& stream, const v1::ClientMessage& message);
  // It listens: its next message may come, now or in a while (NextReader).
  void ReadNext(const VerifierStream& stream, VerifierEvents::Work work);
  // One whose while is over; ReadNext() is to be called with it again. Null: nobody's is.
  VerifierStream* NextReader();
  // For a session that it may open: as long as it listens and has said nothing.
  void KeepPlace(VerifierStream& stream);
  void FreePlace(VerifierStream& stream);
  uint32_t places_kept() const { return places_kept_; }
  // Sends what is next in the outbox, unless something is being written; ends what is ending when
  // all has been written.
  void Pump(VerifierStream& stream);
  void Written(VerifierStream& stream);

  // What it has said waits until TakeHeld().
  void Hold(VerifierStream& stream, const v1::ClientMessage& message,
            VerifierEvents::Prepared* prepared);
  // The streams that hold one, in the order in which they were told to; none of them is one that
  // holds back any more. What they held is theirs until somebody takes it.
  std::vector<StreamNumber> Holders();

  // Ends a stream when all is written, the fault being the last of it.
  void Refuse(VerifierStream& stream, v1::Fault::Kind kind, const absl::Status& why);
  void End(VerifierStream& stream, absl::Status status);

  // One whose time is over; EndOverdue() is next to be called with it, when it has been separated
  // from its session. Null: nobody's is.
  VerifierStream* NextOverdue();
  void EndOverdue(VerifierStream& stream);
  std::optional<MonotonicTime> first_deadline() const { return deadlines_.first(); }
  std::optional<MonotonicTime> first_read() const { return reads_.first(); }

  size_t size() const { return streams_.size(); }
  // By kind.
  const std::array<uint64_t, v1::Fault::Kind_ARRAYSIZE>& fault_counts() const {
    return fault_counts_;
  }
  // Of streams that are gone.
  uint64_t hints_overtaken() const { return hints_overtaken_; }

  // They may be refused and ended meanwhile, but none is closed.
  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const auto& [number, stream] : streams_) visit(*stream);
  }

  // For tests. `running`: whether the target is at work.
  void CheckInvariants(bool running) const;

 private:
  MonotonicTime DeadlineOf(const VerifierStream& stream) const;
  void Silence(VerifierStream& stream);
  void Report(const VerifierStream& stream, v1::Fault::Kind kind, const absl::Status& why);

  const Limits limits_;
  const Moment& moment_;
  std::map<StreamNumber, std::unique_ptr<VerifierStream>> streams_;
  std::vector<StreamNumber> holders_;
  Deadlines deadlines_;
  Deadlines reads_;  // of streams that have said too much
  uint32_t places_kept_ = 0;
  std::array<uint64_t, v1::Fault::Kind_ARRAYSIZE> fault_counts_{};
  uint64_t hints_overtaken_ = 0;
};

}  // namespace outrider
