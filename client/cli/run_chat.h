// A conversation over standard input and output: a line in, a reply out, until the input ends.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "client/cli/generator.h"
#include "common/text/tokenizer.h"

namespace outrider {

// Prompts are made by the model's own chat template. `system` is the first message unless empty;
// `path` starts every message. NotFound when the model has no template.
absl::Status RunChat(const std::string& path, const std::string& system, const Tokenizer& tokenizer,
                     Generator& generator, const Generator::TextSink& sink);

}  // namespace outrider
