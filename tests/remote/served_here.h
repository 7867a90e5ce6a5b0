// A driver of this process behind a port of it, without keys and with limits that no test here means to meet.
//
//   ServedHere served(driver, 64);       // for so many tokens of a context
//   served.verifier().Open(...);
//
// The driver outlives it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "client/verifier/remote_verifier.h"
#include "common/verification/verifier_driver.h"
#include "server/connection_book.h"
#include "server/decode_service.h"
#include "server/listener.h"

namespace outrider {

class ServedHere {
 public:
  ServedHere(VerifierDriver& driver, uint32_t context_length)
      : service_(driver, {}, *gate_, book_, entrance_),
        listener_(*Listener::Listen("127.0.0.1:0", Limits(context_length), {}, service_, book_,
                                    entrance_)) {}

  RemoteVerifier& verifier() { return *verifier_; }

 private:
  static Listener::Limits Limits(uint32_t context_length) {
    return {.context_length = context_length,
            .streams_per_connection_max = 100,
            .handshake_max = std::chrono::seconds(10),
            .connection_idle_max = std::chrono::minutes(1),
            .first_message_max = std::chrono::seconds(10),
            .keepalive = std::chrono::seconds(20),
            .connections = {.connection_count_max = 8,
                            .connection_count_of_origin_max = 8,
                            .connects_per_second = 8,
                            .overhead_bytes_per_second = 64 << 10,
                            .shut_out = std::chrono::seconds(4)},
            .header_bytes = 8 << 10,
            .message_bytes = 64 << 10,
            .transport_bytes = 64 << 20};
  }

  const std::unique_ptr<Gatekeeper> gate_ = *Gatekeeper::Open("");
  EventLog log_{EventLog::Form::kText};
  EntranceLog entrance_{log_};
  ConnectionBook book_;
  DecodeService service_;
  const std::unique_ptr<Listener> listener_;
  const std::unique_ptr<RemoteVerifier> verifier_ = *RemoteVerifier::Connect(listener_->address());
};

}  // namespace outrider
