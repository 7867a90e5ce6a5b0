// Text from a target alone.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "client/cli/generator.h"
#include "common/model/target.h"
#include "common/tokens/chooser.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"

namespace outrider {

class TargetGenerator final : public Generator {
 public:
  // All outlive it.
  TargetGenerator(Target& target, const Chooser& chooser, const StopConditions& stops);

  absl::Status Open();

  absl::Status Continue(std::span<const TokenId> tokens, bool is_reply,
                        const TextSink& sink) override;
  const GenerationTimes& times() const override { return times_; }
  bool context_is_full() const override { return !finish_ && history_is_full(); }
  uint32_t context_length() const override { return target_.info().context_length; }
  std::string Details() const override { return {}; }

 private:
  absl::Status Read(std::span<const TokenId> tokens);
  absl::Status Write(bool is_reply, const TextSink& sink);
  bool history_is_full() const { return history_.size() > context_length(); }

  Target& target_;
  const Chooser& chooser_;
  const StopConditions& stops_;
  TokenHistory history_;  // what the target has
  SequenceId sequence_{};
  GenerationTimes times_;
  std::optional<FinishReason> finish_;  // none: interrupted, or the context is full
};

}  // namespace outrider
