// Chat templates: the Jinja program a model ships that turns messages into its prompt.
//
//   OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat,
//                             ChatTemplate::Parse(spec.chat_templates.at("default"), "m.gguf"));
//   ChatInputs inputs;
//   inputs.messages.push_back({{"role", "user"}, {"content", "Hello"}});
//   inputs.add_generation_prompt = true;
//   OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, chat.Render(inputs));
//
// The subset of Jinja that published templates use, rendered as apply_chat_template of transformers
// renders it: trim_blocks and lstrip_blocks on, its tojson, Python's rules for values, nothing a
// template may change but its own namespaces. Anything else is an Unimplemented error that names
// line and construct, at Parse() wherever the source alone shows it.
//
// A template comes from a stranger: it runs in an interpreter without I/O, with bounds on steps,
// depth, memory and output (jinja/budget.h). Threads: immutable once parsed; Render() may run in
// several.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

namespace outrider {

// What apply_chat_template is called with. Texts that are no UTF-8 count as U+FFFD where they
// break.
struct ChatInputs {
  using Json = nlohmann::ordered_json;

  Json messages = Json::array();  // at least one; objects with "role", "content" ...
  Json tools = nullptr;           // an array of JSON schemas, or null
  Json documents = nullptr;       // an array of objects, or null
  bool add_generation_prompt = false;
  std::optional<std::string> bos_token;  // undefined in the template when absent
  std::optional<std::string> eos_token;
  Json extra = Json::object();  // further variables: enable_thinking, unk_token ...
  // What strftime_now() tells, in local time.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

class ChatTemplate {
 public:
  // `name` stands in front of errors: "model.gguf: chat template line 12: ...".
  static absl::StatusOr<ChatTemplate> Parse(std::string_view source, const std::string& name);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // InvalidArgument when the template raises an exception (its message is passed on), breaks a
  // bound or meets a value it cannot handle.
  absl::StatusOr<std::string> Render(const ChatInputs& inputs) const;

 private:
  class Program;
  ChatTemplate(std::unique_ptr<const Program> program, std::string name);
  std::unique_ptr<const Program> program_;
  std::string name_;
};

}  // namespace outrider
