#include "client/cli/run_chat.h"

#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <vector>

#include "common/base/interrupt.h"
#include "common/base/status.h"
#include "common/text/chat_prompt.h"

namespace outrider {
namespace {

bool ReadLine(std::string& line) {
  if (isatty(STDIN_FILENO) == 1) std::fputs("> ", stderr);
  return static_cast<bool>(std::getline(std::cin, line)) && !Interrupted();
}

}  // namespace

absl::StatusOr<Ending> RunChat(const std::string& path, const std::string& system,
                               const Tokenizer& tokenizer, Conversation& conversation,
                               TerminalScreen& screen) {
  OUTRIDER_ASSIGN_OR_RETURN(const ChatPrompt chat, ChatPrompt::Open(tokenizer, path));
  ChatInputs inputs;
  inputs.add_generation_prompt = true;
  if (!system.empty()) inputs.messages.push_back({{"role", "system"}, {"content", system}});

  Ending ending = Ending::kComplete;
  for (std::string line; ending == Ending::kComplete && ReadLine(line);) {
    if (line.empty()) continue;
    inputs.messages.push_back({{"role", "user"}, {"content", line}});
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, chat.Encode(inputs));
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
