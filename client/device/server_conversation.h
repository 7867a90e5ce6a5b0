// A conversation that is written at a server, with nothing drafted here.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "client/device/conversation.h"
#include "client/verifier/remote_verifier.h"
#include "common/tokens/stop_conditions.h"

namespace outrider {

class ServerConversation final : public Conversation {
 public:
  struct Options {
    bool draft;  // with the server's
    SamplingOptions sampling;
    StopOptions stops;
    uint32_t context_length;
    std::string tokenizer_fingerprint;
    uint32_t frame_bytes;  // as in LinkSecurity
  };

  // `stops` are those of the options.
  ServerConversation(Options options, std::unique_ptr<RemoteVerifier> verifier,
                     StopConditions stops);

  absl::StatusOr<Ending> Continue(std::span<const TokenId> tokens, bool is_reply,
                                  Observer& observer) override;
  ConversationStats stats() const override { return stats_; }
  uint32_t context_length() const override { return options_.context_length; }

 private:
  class Incoming;

  v1::GenerateRequest RequestFor(std::span<const TokenId> tokens, bool is_reply) const;

  const Options options_;
  const std::unique_ptr<RemoteVerifier> verifier_;
  const StopConditions stops_;
  ConversationStats stats_;
};

}  // namespace outrider
