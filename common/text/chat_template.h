// Chat templates: the Jinja program a model ships that turns messages into its prompt.
//
//   OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat,
//   ChatTemplate::Parse(spec.chat_templates.at("default"), "model.gguf")); ChatInputs inputs;
//   inputs.messages = {{{"role", "user"}, {"content", "Hello"}}};
//   inputs.add_generation_prompt = true;
//   OUTRIDER_ASSIGN_OR_RETURN(std::string prompt, chat.Render(inputs));
//
// The subset of Jinja that published templates use, rendered as transformers renders it
// (trim_blocks and lstrip_blocks on). Anything else is an Unimplemented error that names line and
// construct. A template comes from a stranger: it runs in an interpreter without I/O, with bounds
// on steps, depth and output.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace outrider {

struct ChatInputs;

class ChatTemplate {
 public:
  // `name` stands in front of errors: "model.gguf: chat template line 12: ...".
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, const std::string& name);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // InvalidArgument when the template raises an exception (its message is passed on) or breaks a
  // bound.
  absl::StatusOr<std::string> Render(const ChatInputs& inputs) const;

 private:
  class Program;
  ChatTemplate(std::unique_ptr<const Program> program, std::string name);
  std::unique_ptr<const Program> program_;
  std::string name_;
};

}  // namespace outrider
