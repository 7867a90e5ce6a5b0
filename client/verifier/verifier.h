// A device's view of a target: the sketch grows in, hints and verdicts come out.
//
// A verifier carries the messages of proto/outrider/v1 between one session and a target: over the
// network (remote_verifier.h), or in this process (local_verifier.h). The session cannot tell which
// it has. Streams break, or never come to be: that is the session's to mend, and a verifier tries
// nothing twice.
//
//   verifier.Open(1, listener);
//   verifier.Send(1, open);           listener.OnWritten(1) .. OnMessage(1, opened) ..
//   verifier.Read(1);                 so that more may come
//   verifier.Send(1, grow);           OnMessage(1, verdict) ..
//   verifier.Close(1);                OnDown(1, ...): the last that is heard of the stream
//
// Backpressure goes both ways: one message is written at a time, and of those that come as many are
// on their way as the verifier says, but no further one than that before Read().
//
// Threads: the listener is called on the verifier's own, one call at a time for a stream; it does
//          not call back into the verifier. All else comes from one thread, and does not wait.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "common/speculation/costs/cost_model.h"
#include "proto/outrider/v1/verifier.pb.h"

namespace outrider {

// What one run of the target is asked for.
struct RunShape {
  uint32_t nodes = 0;  // of a pass, besides its root
  uint32_t prompt_tokens = 0;
};

struct RunForecast {
  double run_ms;
  double round_trip_ms;
  // Whether the target computes on the processor that drafts: what one does, the other waits for.
  bool shares_processor;
};

class Verifier {
 public:
  class Listener {
   public:
    virtual ~Listener() = default;

    virtual void OnMessage(uint64_t stream, v1::ServerMessage&& message) = 0;
    // The message sent last is on its way: the next may be sent.
    virtual void OnWritten(uint64_t stream) = 0;
    // Once for each stream, and last. Cancelled when it was closed from here.
    virtual void OnDown(uint64_t stream, const absl::Status& status) = 0;
  };

  virtual ~Verifier() = default;

  // Begins a stream. `listener` must outlive its OnDown().
  virtual void Open(uint64_t stream, Listener& listener) = 0;
  // Not before OnWritten() has answered the one before it. The message is taken, and has what was
  // sent before in return: nothing is copied. A stream that is down drops it.
  virtual void Send(uint64_t stream, v1::ClientMessage& message) = 0;
  // A message was taken in: another may come.
  virtual void Read(uint64_t stream) = 0;
  virtual void Close(uint64_t stream) = 0;

  // What a run and a round trip will cost here, until a session has measured its own.
  virtual RunForecast Forecast(const RunShape& shape) const = 0;
};

// Of a server that nothing is known of.
inline RunForecast ForecastOf(const RunShape& shape) {
  const CostModel::Assumed assumed;
  return {.run_ms = assumed.pass_ms + assumed.pass_node_ms * (shape.nodes + shape.prompt_tokens),
          .round_trip_ms = assumed.round_trip_ms,
          .shares_processor = false};
}

// What a session with this verifier believes until it has measured.
inline CostModel::Assumed AssumedOf(const Verifier& verifier) {
  const RunForecast root = verifier.Forecast({});
  CostModel::Assumed assumed;
  assumed.round_trip_ms = root.round_trip_ms;
  assumed.pass_ms = root.run_ms;
  assumed.pass_node_ms = verifier.Forecast({.nodes = 1}).run_ms - root.run_ms;
  return assumed;
}

}  // namespace outrider
