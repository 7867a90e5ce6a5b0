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

absl::StatusOr<Ending> RunChat(const std::string& path, const std::string& system,
                               const Tokenizer& tokenizer, Conversation& conversation,
                               TerminalScreen& screen) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, OpenTemplate(tokenizer, path));
  ChatInputs inputs;
  inputs.add_generation_prompt = true;
  inputs.bos_token = TextOf(tokenizer, tokenizer.spec().bos);
  inputs.eos_token = TextOf(tokenizer, tokenizer.spec().eos);
  if (!system.empty()) inputs.messages.push_back({{"role", "system"}, {"content", system}});

  Ending ending = Ending::kComplete;
  for (std::string line; ending == Ending::kComplete && ReadLine(line);) {
    if (line.empty()) continue;
    inputs.messages.push_back({{"role", "user"}, {"content", line}});
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, chat.Render(inputs));
    // The template writes the begin token itself.
    const std::vector<TokenId> tokens = tokenizer.Encode(prompt, {.add_special = false});
    const absl::StatusOr<Ending> ended = conversation.Continue(tokens, /*is_reply=*/true, screen);
    screen.EndReply();
    const std::string reply = screen.TakeText();
    if (ended.ok() || !reply.empty()) screen.OnText("\n");
    screen.TakeText();
    OUTRIDER_RETURN_IF_ERROR(ended.status());
    ending = *ended;
    inputs.messages.push_back({{"role", "assistant"}, {"content", reply}});
  }
  return ending;
}

}  // namespace outrider
