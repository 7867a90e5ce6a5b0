// What callers may cost a server, whoever they are, as its operator sets it.
//
// Limits that have no flag, since another number would help nobody: what a message may ask for, which
// is the protocol's and the same at every server (wire_options.h, wire_prompt.h, wire_padding.h);
// what goes with a flag, as what may be sent at once goes with what may be sent a second
// (front_door.cc, connection_book.h), and what sessions keep with how many there may be
// (verifier_config.h); how many addresses are remembered that have gone (origins.h); how many streams
// there are of health checks and reflection (side_streams.h) and calls that have said nothing yet
// (silent_calls.h); what the operators' own port and files
// may have; and how often and how much at a time the server itself looks at whatever it looks at.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/base/monotonic_time.h"
#include "common/verification/machine/verifier_config.h"

namespace CLI {
class App;
}

namespace outrider {

struct LimitFlags {
  static constexpr uint64_t kMessageBytes = 64 << 10;
  static constexpr uint64_t kTransportBytes = 64 << 20;

  static constexpr uint32_t kOpensPerMinute = 1200;
  // Growth comes batch by batch, and few drafts have more than a thousand of those a second.
  static constexpr uint32_t kMessagesPerSecond = 4000;

  LimitFlags() {
    machine.opens_per_minute = kOpensPerMinute;
    machine.messages_per_second = kMessagesPerSecond;
  }

  // The machine's own, with what else stands there by default.
  VerifierConfig machine;
  // Connections may carry more calls than one device has; a gateway takes several of them.
  uint32_t connection_count_max = 4096;
  uint32_t connection_count_of_origin_max = 256;
  uint32_t connects_per_second = 50;            // of an address
  Duration shut_out = std::chrono::seconds(4);  // of one where somebody was hung up on
  // Of a connection, besides messages (front_door.h).
  uint64_t overhead_bytes_per_second = 64 << 10;
  uint32_t streams_per_connection_max = 128;
  Duration handshake_max = std::chrono::seconds(10);       // until a connection can have calls
  Duration connection_idle_max = std::chrono::minutes(5);  // without a call
  Duration keepalive = std::chrono::seconds(20);           // of a connection that is silent
  // Of a call's headers, before anything of it is looked at.
  uint64_t header_bytes = 8 << 10;
  // Of a message, besides a context's tokens.
  uint64_t message_bytes = kMessageBytes;
  // Of all calls together, for what is being read and written.
  uint64_t transport_bytes = kTransportBytes;
};

// Each with its environment twin.
void AddLimitFlags(CLI::App& app, LimitFlags& flags);

}  // namespace outrider
