#include "client/cli/run_chat.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <vector>

#include "common/base/interrupt.h"
#include "common/base/status.h"
#include "common/text/chat_template.h"

namespace outrider {
namespace {

absl::StatusOr<ChatTemplate> OpenTemplate(const Tokenizer& tokenizer, const std::string& path) {
  const auto& templates = tokenizer.spec().chat_templates;
  const auto found = templates.find("default");
  if (found == templates.end()) {
    return NotFound(path, ": has no chat template; give it a text to continue with --prompt");
  }
  return ChatTemplate::Parse(found->second, path);
}

std::optional<std::string> TextOf(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  if (!id) return std::nullopt;
  return std::string(tokenizer.TokenBytes(*id));
}

bool ReadLine(std::string& line) {
  if (isatty(STDIN_FILENO) == 1) std::fputs("> ", stderr);
  return static_cast<bool>(std::getline(std::cin, line)) && !Interrupted();
}

}  // namespace

absl::Status RunChat(const std::string& path, const std::string& system, const Tokenizer& tokenizer,
                     Generator& generator, const Generator::TextSink& sink) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, OpenTemplate(tokenizer, path));
  ChatInputs inputs;
  inputs.add_generation_prompt = true;
  inputs.bos_token = TextOf(tokenizer, tokenizer.spec().bos);
  inputs.eos_token = TextOf(tokenizer, tokenizer.spec().eos);
  if (!system.empty()) inputs.messages.push_back({{"role", "system"}, {"content", system}});

  for (std::string line; ReadLine(line);) {
    if (line.empty()) continue;
    inputs.messages.push_back({{"role", "user"}, {"content", line}});
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, chat.Render(inputs));
    // The template writes the begin token itself.
    const std::vector<TokenId> tokens = tokenizer.Encode(prompt, {.add_special = false});
    std::string reply;
    const absl::Status status =
        generator.Continue(tokens, /*is_reply=*/true, [&](std::string_view text) {
          reply += text;
          sink(text);
        });
    if (status.ok() || !reply.empty()) sink("\n");
    OUTRIDER_RETURN_IF_ERROR(status);
    if (Interrupted() || generator.context_is_full()) break;
    inputs.messages.push_back({{"role", "assistant"}, {"content", reply}});
  }
  return absl::OkStatus();
}

}  // namespace outrider
