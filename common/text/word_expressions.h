// The expressions that make words, one function for each. They differ in what may stand before a
// word, in whether its case counts, in how many digits stay together, and in what follows
// punctuation; the expressions stand above them in word_expressions.cc.
//
// Each returns the length of the match at the front of `text`, which is valid UTF-8 and not empty,
// or 0 where there is none. Private to this room.
#pragma once

#include <cstddef>
#include <string_view>

namespace outrider::words {

size_t Gpt2(std::string_view text);
size_t Llama3(std::string_view text);
size_t Qwen2(std::string_view text);
size_t Qwen35(std::string_view text);
size_t SeedCoder(std::string_view text);
size_t Ufakzeka(std::string_view text);
size_t ExaoneMoe(std::string_view text);
size_t Tekken(std::string_view text);
size_t Gpt4o(std::string_view text);
size_t Youtu(std::string_view text);
size_t KimiK2(std::string_view text);
size_t DeepseekV3(std::string_view text);
size_t Spark(std::string_view text);

}  // namespace outrider::words
