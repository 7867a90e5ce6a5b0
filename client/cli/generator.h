// Text from a target alone: what `outrider run` does for a prompt, and for every turn of a chat.
//
//   Generator generator(target, chooser, stops);
//   OUTRIDER_RETURN_IF_ERROR(generator.Open());
//   OUTRIDER_RETURN_IF_ERROR(generator.Continue(tokens, /*is_reply=*/false, Print));
//
// The tokens to continue are compared with those the target has: what they share is kept, what
// differs is forgotten, and only the rest is read. A chat so pays for each message once.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "common/model/target.h"
#include "common/tokens/chooser.h"
#include "common/tokens/stop_conditions.h"
#include "common/tokens/token_history.h"

namespace outrider {

struct GenerationTimes {
  uint64_t prompt_tokens = 0;    // of all prompts, but for what was still in memory
  uint64_t computed_tokens = 0;  // of those: the last of each is computed with the reply
  double prompt_seconds = 0;
  uint64_t generated_tokens = 0;
  double generation_seconds = 0;
};

class Generator {
 public:
  using TextSink = std::function<void(std::string_view)>;

  // All outlive it.
  Generator(Target& target, const Chooser& chooser, const StopConditions& stops);

  absl::Status Open();

  // Writes what follows `tokens` to `sink` as it comes, until a stop condition, the end of the
  // context or Ctrl-C ends it. A reply is a text of its own; a plain continuation goes on with that
  // of the tokens, so a space it begins with is printed. InvalidArgument when the tokens alone are
  // more than the context holds.
  absl::Status Continue(std::span<const TokenId> tokens, bool is_reply, const TextSink& sink);

  const GenerationTimes& times() const { return times_; }
  // Of the last Continue(): none when it was interrupted or the context is full.
  std::optional<FinishReason> finish() const { return finish_; }
  bool context_is_full() const { return history_.size() > target_.info().context_length; }

 private:
  absl::Status Read(std::span<const TokenId> tokens);
  absl::Status Write(bool is_reply, const TextSink& sink);

  Target& target_;
  const Chooser& chooser_;
  const StopConditions& stops_;
  TokenHistory history_;  // what the target has
  SequenceId sequence_{};
  GenerationTimes times_;
  std::optional<FinishReason> finish_;
};

}  // namespace outrider
