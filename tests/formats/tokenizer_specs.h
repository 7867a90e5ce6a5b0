// What tests of the tokenizer readers share.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/status.h"
#include "common/formats/tokenizers/tokenizer_spec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace outrider {

// OK, or the message; for EXPECT_EQ against a whole sentence.
inline std::string Outcome(const absl::Status& status) {
  return status.ok() ? "OK" : std::string(Message(status));
}
inline std::string Outcome(const absl::StatusOr<TokenizerSpec>& spec) {
  return Outcome(spec.status());
}

inline void ExpectSameTokens(const TokenizerSpec& a, const TokenizerSpec& b) {
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t id = 0; id < a.tokens.size(); ++id) {
    ASSERT_EQ(a.tokens[id].text, b.tokens[id].text) << id;
    ASSERT_EQ(a.tokens[id].kind, b.tokens[id].kind) << id << " " << a.tokens[id].text;
    ASSERT_EQ(a.tokens[id].score, b.tokens[id].score) << id << " " << a.tokens[id].text;
  }
}

inline void ExpectSameAddedTokens(const TokenizerSpec& a, const TokenizerSpec& b) {
  ASSERT_EQ(a.added_tokens.size(), b.added_tokens.size());
  for (size_t i = 0; i < a.added_tokens.size(); ++i) {
    EXPECT_EQ(a.added_tokens[i].id, b.added_tokens[i].id) << i;
    EXPECT_EQ(a.added_tokens[i].text, b.added_tokens[i].text) << i;
    EXPECT_EQ(a.added_tokens[i].special, b.added_tokens[i].special) << i;
  }
}

// Everything a GGUF file can carry.
inline void ExpectSameSpec(const TokenizerSpec& a, const TokenizerSpec& b) {
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.pre_tokenizer, b.pre_tokenizer);
  ExpectSameTokens(a, b);
  EXPECT_EQ(a.merges, b.merges);
  ExpectSameAddedTokens(a, b);
  EXPECT_EQ(a.ignore_merges, b.ignore_merges);
  EXPECT_EQ(a.byte_fallback, b.byte_fallback);
  EXPECT_EQ(a.fuse_unknown, b.fuse_unknown);
  EXPECT_EQ(a.nfc, b.nfc);
  EXPECT_EQ(a.remove_extra_whitespace, b.remove_extra_whitespace);
  EXPECT_EQ(a.split_on_whitespace, b.split_on_whitespace);
  EXPECT_EQ(a.space_prefix, b.space_prefix);
  EXPECT_EQ(a.space_prefix_once, b.space_prefix_once);
  EXPECT_EQ(a.cut_at_spaces, b.cut_at_spaces);
  EXPECT_EQ(a.precompiled_charsmap, b.precompiled_charsmap);
  EXPECT_EQ(a.bos, b.bos);
  EXPECT_EQ(a.eos, b.eos);
  EXPECT_EQ(a.eot, b.eot);
  EXPECT_EQ(a.eom, b.eom);
  EXPECT_EQ(a.unknown, b.unknown);
  EXPECT_EQ(a.padding, b.padding);
  EXPECT_EQ(a.add_bos, b.add_bos);
  EXPECT_EQ(a.add_eos, b.add_eos);
  EXPECT_TRUE(a.chat_templates == b.chat_templates);
}

}  // namespace outrider
