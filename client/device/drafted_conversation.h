// A conversation whose tokens are drafted here and checked by a verifier, wherever that has its
// target.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "client/device/conversation.h"
#include "client/device/price_file.h"
#include "client/driver/session_driver.h"
#include "client/driver/session_trace.h"
#include "client/driver/traced_drafter.h"
#include "client/session/session.h"
#include "client/verifier/verifier.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/drafter.h"
#include "common/text/tokenizer.h"

namespace outrider {

class DraftedConversation final : public Conversation {
 public:
  struct Parts {
    const Tokenizer& tokenizer;  // outlives it
    std::unique_ptr<Verifier> verifier;
    std::unique_ptr<Drafter> drafter;
    int32_t draft_vocabulary_size;
    std::unique_ptr<Controller> controller;
    CostModel::Assumed assumed;
    std::unique_ptr<SessionTrace> trace;  // may be null
    // Told in the end what passes and drafts have cost; may be null.
    std::function<void(const Prices&)> keep;
  };

  // `options` without a prompt: the first Continue() has it.
  DraftedConversation(SessionOptions options, Parts parts);
  ~DraftedConversation() override;  // says farewell to the verifier

  absl::StatusOr<Ending> Continue(std::span<const TokenId> tokens, bool is_reply,
                                  Observer& observer) override;
  ConversationStats stats() const override;
  uint32_t context_length() const override;

 private:
  class Relay;

  absl::Status Begin(std::span<const TokenId> tokens, bool is_reply, Relay& relay);
  absl::Status GoOn(std::span<const TokenId> tokens, Relay& relay);
  void KeepPrices() const;

  SessionOptions options_;
  const Parts parts_;
  CostModel costs_;
  std::optional<TracedDrafter> traced_drafter_;
  ConversationStats stats_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionDriver> driver_;  // last: its threads use all of the above
};

}  // namespace outrider
