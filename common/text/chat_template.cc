#include "common/text/chat_template.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/text/jinja/interpreter.h"
#include "common/text/jinja/json.h"
#include "common/text/jinja/operators.h"
#include "common/text/jinja/parser.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

using Json = ChatInputs::Json;

// As transformers prepares a message: what is null counts as absent, and the reasoning of a turn is
// found under the names that different templates know it by.
jinja::Result PrepareMessage(jinja::Budget& budget, const jinja::Value& message) {
  jinja::Entries entries;
  std::optional<jinja::Value> reasoning;
  for (const std::string_view field : {"reasoning_content", "thinking", "reasoning"}) {
    for (const auto& [key, value] : message.dict().entries) {
      if (!reasoning && key.text().bytes == field && !value.is(jinja::Kind::kNone)) {
        reasoning = value;
      }
    }
  }
  if (reasoning) entries.emplace_back(jinja::LiteralText("thinking"), *reasoning);
  for (const auto& [key, value] : message.dict().entries) {
    if (value.is(jinja::Kind::kNone)) continue;
    OUTRIDER_RETURN_IF_ERROR(jinja::Insert(budget, entries, key, value));
  }
  if (reasoning) {
    OUTRIDER_RETURN_IF_ERROR(
        jinja::Insert(budget, entries, jinja::LiteralText("reasoning_content"), *reasoning));
  }
  return jinja::MakeDict(budget, std::move(entries));
}

jinja::Result PrepareMessages(jinja::Budget& budget, const Json& messages) {
  if (!messages.is_array()) {
    return InvalidArgument("the messages are a JSON ", messages.type_name(), ", not an array");
  }
  if (messages.empty()) return InvalidArgument("the conversation has no message");
  std::vector<jinja::Value> prepared;
  for (const Json& message : messages) {
    if (!message.is_object()) {
      return InvalidArgument("message ", prepared.size(), " is a JSON ", message.type_name(),
                             ", not an object");
    }
    OUTRIDER_ASSIGN_OR_RETURN(const jinja::Value value, jinja::FromJson(budget, message));
    OUTRIDER_ASSIGN_OR_RETURN(jinja::Value ready, PrepareMessage(budget, value));
    prepared.push_back(std::move(ready));
  }
  return jinja::MakeList(budget, std::move(prepared));
}

absl::Status CheckObjects(const Json& list, std::string_view what) {
  if (list.is_null()) return absl::OkStatus();
  if (!list.is_array()) {
    return InvalidArgument("the ", what, " are a JSON ", list.type_name(), ", not an array");
  }
  for (const Json& item : list) {
    if (!item.is_object()) {
      return InvalidArgument("one of the ", what, " is a JSON ", item.type_name(),
                             ", not an object");
    }
  }
  return absl::OkStatus();
}

// The names the template starts with.
absl::StatusOr<std::shared_ptr<jinja::Scope>> BuildScope(jinja::Budget& budget,
                                                         const ChatInputs& inputs) {
  OUTRIDER_ASSIGN_OR_RETURN(auto scope, jinja::NewObject<jinja::Scope>(budget, 0));
  const auto set = [&](std::string_view name, const Json& json) -> absl::Status {
    OUTRIDER_ASSIGN_OR_RETURN(jinja::Value value, jinja::FromJson(budget, json));
    return scope->Set(name, std::move(value));
  };
  OUTRIDER_ASSIGN_OR_RETURN(jinja::Value messages, PrepareMessages(budget, inputs.messages));
  OUTRIDER_RETURN_IF_ERROR(CheckObjects(inputs.tools, "tools"));
  OUTRIDER_RETURN_IF_ERROR(CheckObjects(inputs.documents, "documents"));
  OUTRIDER_RETURN_IF_ERROR(scope->Set("messages", std::move(messages)));
  OUTRIDER_RETURN_IF_ERROR(set("tools", inputs.tools));
  OUTRIDER_RETURN_IF_ERROR(set("documents", inputs.documents));
  OUTRIDER_RETURN_IF_ERROR(set("add_generation_prompt", inputs.add_generation_prompt));
  if (inputs.bos_token) OUTRIDER_RETURN_IF_ERROR(set("bos_token", *inputs.bos_token));
  if (inputs.eos_token) OUTRIDER_RETURN_IF_ERROR(set("eos_token", *inputs.eos_token));
  if (!inputs.extra.is_object()) {
    return InvalidArgument("the extra variables are a JSON ", inputs.extra.type_name(),
                           ", not an object");
  }
  for (const auto& [name, value] : inputs.extra.items()) {
    for (const std::string_view reserved :
         {"messages", "tools", "documents", "add_generation_prompt"}) {
      if (name == reserved) {
        return InvalidArgument("'", name, "' is no extra variable of a chat template");
      }
    }
    OUTRIDER_RETURN_IF_ERROR(set(name, value));
  }
  return scope;
}

}  // namespace

class ChatTemplate::Program {
 public:
  explicit Program(jinja::Statements parsed) : statements(std::move(parsed)) {}
  const jinja::Statements statements;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Program> program, std::string name)
    : program_(std::move(program)), name_(std::move(name)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

absl::StatusOr<ChatTemplate> ChatTemplate::Parse(std::string_view source, const std::string& name) {
  constexpr size_t kMaxSourceBytes = size_t{1} << 20;  // published ones have some 20 KiB
  if (source.size() > kMaxSourceBytes) {
    return InvalidArgument(name, ": chat template of ", source.size(), " bytes, the bound is ",
                           kMaxSourceBytes);
  }
  std::string storage;
  absl::StatusOr<jinja::Statements> parsed = jinja::ParseTemplate(ValidUtf8(source, storage));
  if (!parsed.ok()) {
    return absl::Status(parsed.status().code(),
                        Concat(name, ": chat template ", Message(parsed.status())));
  }
  return ChatTemplate(std::make_unique<const Program>(*std::move(parsed)), name);
}

absl::StatusOr<std::string> ChatTemplate::Render(const ChatInputs& inputs) const {
  jinja::RenderState state(inputs.now);
  absl::StatusOr<std::shared_ptr<jinja::Scope>> scope = BuildScope(state.budget, inputs);
  if (!scope.ok()) return Annotate(scope.status(), Concat(name_, ": chat template"));
  absl::StatusOr<std::string> prompt =
      jinja::Interpreter(state, *std::move(scope)).Run(program_->statements);
  if (prompt.ok()) return prompt;
  return absl::Status(prompt.status().code(),
                      Concat(name_, ": chat template ", Message(prompt.status())));
}

}  // namespace outrider
