// A conversation whose tokens are drafted here and checked by a verifier, wherever that has its
// target.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "client/device/conversation.h"
#include "client/device/flash_meter.h"
#include "client/device/place_controller.h"
#include "client/device/price_file.h"
#include "client/driver/session_driver.h"
#include "client/driver/session_trace.h"
#include "client/driver/traced_drafter.h"
#include "client/session/session.h"
#include "client/verifier/fallback_verifier.h"
#include "client/verifier/verifier.h"
#include "common/speculation/control/controller.h"
#include "common/speculation/costs/cost_model.h"
#include "common/speculation/drafting/drafter.h"
#include "common/text/tokenizer.h"

namespace outrider {

class DraftedConversation final : public Conversation {
 public:
  // How it decodes with one target, and what becomes of what it finds out.
  struct Control {
    std::unique_ptr<Controller> controller;
    CostModel::Assumed assumed;
    // Told in the end what passes and drafts have cost.
    std::function<void(const Prices&)> keep;
    // And what of the draft was accepted; null: nobody asks.
    std::function<void(const Accepted&)> keep_accepted = nullptr;
    // What passes there use of experts that come from flash; null: nobody counts.
    const FlashMeter* flash_meter = nullptr;
  };
  struct Fallback {
    FallbackVerifier& verifier;  // is that of the parts
    Control control;
  };
  struct Parts {
    const Tokenizer& tokenizer;  // outlives it
    std::unique_ptr<Verifier> verifier;
    std::unique_ptr<Drafter> drafter;
    int32_t draft_vocabulary_size;
    Control control;
    std::optional<Fallback> fallback = {};
    std::unique_ptr<SessionTrace> trace;  // may be null
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

  // Whose controllers tell `costs` of experts, where those are counted.
  static Parts Metered(Parts parts, CostModel& costs);
  absl::Status Begin(std::span<const TokenId> tokens, bool is_reply, Relay& relay);
  absl::Status GoOn(std::span<const TokenId> tokens, Relay& relay);
  Controller& controller() const { return places_ ? *places_ : *parts_.control.controller; }
  void KeepPrices() const;
  void KeepAccepted(const SessionStats& stats) const;
  void KeepPrices(const Control& control, const CostModel& costs, uint64_t verdicts) const;

  SessionOptions options_;
  CostModel costs_;  // before the parts, whose controllers may tell it something
  const Parts parts_;
  std::unique_ptr<PlaceController> places_;  // of a fallback; null: there is none
  std::optional<TracedDrafter> traced_drafter_;
  ConversationStats stats_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<SessionDriver> driver_;  // last: its threads use all of the above
};

}  // namespace outrider
