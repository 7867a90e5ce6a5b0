// A conversation as the tokens a model is asked to go on from: its chat template, and what stands
// around that.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const ChatPrompt chat, ChatPrompt::Open(tokenizer, "m.gguf"));
//   ChatInputs inputs;
//   inputs.messages.push_back({{"role", "user"}, {"content", "Hello"}});
//   inputs.add_generation_prompt = true;
//   OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, chat.Encode(inputs));
//
// Threads: as ChatTemplate.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"

namespace outrider {

class ChatPrompt {
 public:
  // The file's own template; ChatML, what most models are trained with, for a file that has none
  // and knows ChatML's tokens. NotFound for any other. `tokenizer` must outlive it; `name` stands
  // in front of errors.
  static absl::StatusOr<ChatPrompt> Open(const Tokenizer& tokenizer, const std::string& name);

  // The begin token is in front where the tokenizer wants one, whether the template writes it or
  // not, and never twice. `inputs` need not know the tokenizer's special tokens.
  absl::StatusOr<std::vector<TokenId>> Encode(ChatInputs inputs) const;

 private:
  ChatPrompt(const Tokenizer& tokenizer, ChatTemplate chat, std::string name)
      : tokenizer_(&tokenizer), chat_(std::move(chat)), name_(std::move(name)) {}

  const Tokenizer* tokenizer_;
  ChatTemplate chat_;
  std::string name_;
};

}  // namespace outrider
