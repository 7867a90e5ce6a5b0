// Chat templates: whatever the source says, parsing and rendering end, within their bounds, with a
// text or an error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "common/base/check.h"
#include "common/text/chat_template.h"
#include "common/text/unicode/unicode.h"

namespace {

outrider::ChatInputs Conversation() {
  outrider::ChatInputs inputs;
  inputs.messages = {
      {{"role", "system"}, {"content", "Be brief."}},
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "żółć 世界 \n"}}}}},
      {{"role", "assistant"},
       {"content", "<think>\nwhy\n</think>\n4"},
       {"tool_calls",
        {{{"id", "abcdef123"},
          {"type", "function"},
          {"function", {{"name", "f"}, {"arguments", {{"x", 1.5}, {"y", {1, true, nullptr}}}}}}}}}},
      {{"role", "tool"}, {"tool_call_id", "abcdef123"}, {"content", "5"}},
      {{"role", "user"}, {"content", "a,b  c"}},
  };
  inputs.tools = {
      {{"type", "function"},
       {"function",
        {{"name", "f"},
         {"description", "d"},
         {"parameters", {{"type", "object"}, {"properties", {{"x", {{"type", "number"}}}}}}}}}}};
  inputs.add_generation_prompt = true;
  inputs.bos_token = "<s>";
  inputs.eos_token = "</s>";
  inputs.extra = {{"s", "Hello World"}, {"n", 7},         {"f", 2.5},
                  {"t", true},          {"l", {3, 1, 2}}, {"d", {{"b", 2}, {"a", {1, "x"}}}}};
  inputs.now = std::chrono::system_clock::time_point(std::chrono::seconds(1'700'000'000));
  return inputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const outrider::ChatInputs inputs = Conversation();
  const auto chat =
      outrider::ChatTemplate::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!chat.ok()) return 0;
  const auto text = chat->Render(inputs);
  if (!text.ok()) return 0;
  std::string storage;
  OUTRIDER_CHECK(outrider::ValidUtf8(*text, storage).data() == text->data(),
                 "what is rendered is UTF-8");
  return 0;
}
