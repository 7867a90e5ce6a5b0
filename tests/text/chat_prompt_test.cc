#include "common/text/chat_prompt.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/text/small_specs.h"

namespace outrider {
namespace {

std::unique_ptr<Tokenizer> Make(TokenizerSpec spec) {
  auto tokenizer = Tokenizer::Create(std::move(spec));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

ChatInputs Greeting() {
  ChatInputs inputs;
  inputs.messages.push_back({{"role", "user"}, {"content", "hello"}});
  inputs.add_generation_prompt = true;
  return inputs;
}

std::string Text(const Tokenizer& tokenizer) {
  const auto chat = ChatPrompt::Open(tokenizer, "m.gguf");
  if (!chat.ok()) return std::string(Message(chat.status()));
  const auto tokens = chat->Encode(Greeting());
  if (!tokens.ok()) return std::string(Message(tokens.status()));
  return tokenizer.Decode(*tokens, /*skip_special=*/false);
}

TEST(ChatPrompt, TheFilesOwnTemplateComesFirst) {
  TokenizerSpec spec = SmallByteLevel();
  AddAdded(spec, "<|im_start|>", /*special=*/true);
  AddAdded(spec, "<|im_end|>", /*special=*/true);
  spec.chat_templates["default"] = "[{{ messages[0].content }}]";
  EXPECT_EQ(Text(*Make(std::move(spec))), "[hello]");
}

TEST(ChatPrompt, AFileWithoutOneGetsChatMlIfItKnowsItsTokens) {
  TokenizerSpec spec = SmallByteLevel();
  EXPECT_EQ(Text(*Make(spec)),
            "m.gguf: has no chat template, nor the tokens of ChatML; give it a text to continue "
            "with --prompt");
  AddAdded(spec, "<|im_start|>", /*special=*/true);
  AddAdded(spec, "<|im_end|>", /*special=*/true);
  EXPECT_EQ(Text(*Make(std::move(spec))),
            "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatPrompt, TheBeginTokenIsThereOnceWhereTheFileWantsIt) {
  TokenizerSpec spec = SmallByteLevel();
  spec.bos = AddAdded(spec, "<s>", /*special=*/true);
  spec.eos = AddAdded(spec, "</s>", /*special=*/true);
  const auto with = [&](bool add_bos, const std::string& source) {
    TokenizerSpec changed = spec;
    changed.add_bos = add_bos;
    changed.add_eos = true;  // for texts that end, which a prompt does not
    changed.chat_templates["default"] = source;
    return Text(*Make(std::move(changed)));
  };
  EXPECT_EQ(with(true, "{{ messages[0].content }}"), "<s>hello");
  EXPECT_EQ(with(true, "{{ bos_token + messages[0].content }}"), "<s>hello");
  EXPECT_EQ(with(false, "{{ messages[0].content }}"), "hello");
  EXPECT_EQ(with(false, "{{ bos_token + messages[0].content }}"), "<s>hello");
}

TEST(ChatPrompt, ATemplateThatMakesNothingIsAnErrorThatSaysSo) {
  TokenizerSpec spec = SmallByteLevel();
  spec.chat_templates["default"] = "{# nothing #}";
  EXPECT_EQ(Text(*Make(std::move(spec))),
            "m.gguf: chat template makes nothing of 1 message; a model cannot go on from no text");
}

}  // namespace
}  // namespace outrider
