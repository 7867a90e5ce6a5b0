// A conversation over standard input and output: a line in, a reply out, until the input ends.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cli/terminal_screen.h"
#include "client/device/conversation.h"
#include "common/text/tokenizer.h"

namespace outrider {

// Prompts are made by the model's own chat template. `system` is the first message unless empty;
// `path` starts every message. Returns how the last reply ended; NotFound when the model has no
// template.
absl::StatusOr<Ending> RunChat(const std::string& path, const std::string& system,
                               const Tokenizer& tokenizer, Conversation& conversation,
                               TerminalScreen& screen);

}  // namespace outrider
