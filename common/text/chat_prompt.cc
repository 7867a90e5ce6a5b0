#include "common/text/chat_prompt.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/status.h"

namespace outrider {

namespace {

constexpr std::string_view kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

bool KnowsChatMl(const TokenizerSpec& spec) {
  const auto has = [&](std::string_view text) {
    return std::any_of(spec.added_tokens.begin(), spec.added_tokens.end(),
                       [&](const auto& added) { return added.text == text; });
  };
  return has("<|im_start|>") && has("<|im_end|>");
}

std::optional<std::string> TextOf(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  if (!id) return std::nullopt;
  return std::string(tokenizer.TokenBytes(*id));
}

}  // namespace

absl::StatusOr<ChatPrompt> ChatPrompt::Open(const Tokenizer& tokenizer, const std::string& name) {
  const auto& templates = tokenizer.spec().chat_templates;
  const auto found = templates.find("default");
  if (found == templates.end() && !KnowsChatMl(tokenizer.spec())) {
    return NotFound(name,
                    ": has no chat template, nor the tokens of ChatML; give it a text to continue "
                    "with --prompt");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      ChatTemplate chat,
      ChatTemplate::Parse(found == templates.end() ? kChatMl : found->second, name));
  return ChatPrompt(tokenizer, std::move(chat), name);
}

absl::StatusOr<std::vector<TokenId>> ChatPrompt::Encode(ChatInputs inputs) const {
  const TokenizerSpec& spec = tokenizer_->spec();
  inputs.bos_token = TextOf(*tokenizer_, spec.bos);
  inputs.eos_token = TextOf(*tokenizer_, spec.eos);
  OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, chat_.Render(inputs));
  std::vector<TokenId> tokens = tokenizer_->Encode(prompt, {.add_special = false});
  if (spec.add_bos && (tokens.empty() || tokens.front() != *spec.bos)) {
    tokens.insert(tokens.begin(), *spec.bos);
  }
  if (tokens.empty()) {
    return InvalidArgument(name_, ": chat template makes nothing of ", inputs.messages.size(),
                           inputs.messages.size() == 1 ? " message" : " messages",
                           "; a model cannot go on from no text");
  }
  return tokens;
}

}  // namespace outrider
