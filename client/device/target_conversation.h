// A conversation that a target in this process writes alone.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/device/conversation.h"
#include "client/device/reply_times.h"
#include "common/base/mutex.h"
#include "common/engine/target.h"
#include "common/tokens/chooser.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"

namespace outrider {

class TargetConversation final : public Conversation {
 public:
  // Target and turn outlive it: conversations take turns at the target. ResourceExhausted when it
  // has no more sequences.
  static absl::StatusOr<std::unique_ptr<TargetConversation>> Create(Target& target, Mutex& turn,
                                                                    Chooser chooser,
                                                                    StopConditions stops);
  ~TargetConversation() override;

  absl::StatusOr<Ending> Continue(std::span<const TokenId> tokens, bool is_reply,
                                  Observer& observer) override;
  ConversationStats stats() const override { return stats_; }
  uint32_t context_length() const override { return target_.info().context_length; }

 private:
  TargetConversation(Target& target, Mutex& turn, Chooser chooser, StopConditions stops,
                     SequenceId sequence);

  absl::Status Forget(uint32_t length);
  absl::Status Read(std::span<const TokenId> tokens, Observer& observer);
  size_t LeftToFirstPass(size_t token_count) const;
  void ForgetUnread();
  absl::StatusOr<Ending> Write(bool is_reply, ReplyTimes& times, Observer& observer);
  absl::StatusOr<TokenId> Next();
  bool history_is_full() const { return history_.size() > context_length(); }

  Target& target_;
  Mutex& turn_;
  const Chooser chooser_;
  const StopConditions stops_;
  const SequenceId sequence_;
  TokenHistory history_;     // what the target has, and will have read with its next pass:
  size_t unread_count_ = 0;  // the last of these
  ConversationStats stats_;
};

}  // namespace outrider
