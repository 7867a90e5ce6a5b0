// What `outrider run` asks of whatever writes its text: a target alone (target_generator.h), or a
// draft and a target that checks it (speculative_generator.h).
//
//   OUTRIDER_RETURN_IF_ERROR(generator.Continue(tokens, /*is_reply=*/false, Print));
//
// The tokens to continue are compared with those of the last time: what they share is kept, what
// differs is forgotten, and only the rest is read. A chat so pays for each message once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"

namespace outrider {

struct GenerationTimes {
  uint64_t prompt_tokens = 0;    // of all prompts, but for what was still in memory
  uint64_t computed_tokens = 0;  // of those, here: the last of each is computed with the reply
  double prompt_seconds = 0;
  uint64_t generated_tokens = 0;
  double generation_seconds = 0;
};

class Generator {
 public:
  using TextSink = std::function<void(std::string_view)>;

  virtual ~Generator() = default;

  // Writes what follows `tokens` to `sink` as it comes, until a stop condition, the end of the
  // context or Ctrl-C ends it. A reply is a text of its own; a plain continuation goes on with that
  // of the tokens, so a space it begins with is printed. InvalidArgument when the tokens alone are
  // more than the context holds.
  virtual absl::Status Continue(std::span<const TokenId> tokens, bool is_reply,
                                const TextSink& sink) = 0;

  virtual const GenerationTimes& times() const = 0;
  // The last text was ended by the context, and by nothing else.
  virtual bool context_is_full() const = 0;
  // Of which so many tokens are one.
  virtual uint32_t context_length() const = 0;
  // What else there is to say of all texts, in one line; empty: nothing.
  virtual std::string Details() const = 0;
};

}  // namespace outrider
