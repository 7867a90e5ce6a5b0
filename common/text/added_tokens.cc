#include "common/text/added_tokens.h"

#include <algorithm>
#include <utility>

#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

using AddedToken = TokenizerSpec::AddedToken;

std::vector<AddedToken> SpecialFirst(std::vector<AddedToken> tokens) {
  std::stable_partition(tokens.begin(), tokens.end(),
                        [](const AddedToken& token) { return token.special; });
  return tokens;
}

TokenTrie BuildTrie(const std::vector<AddedToken>& tokens) {
  std::vector<TokenTrie::Entry> entries;
  entries.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    entries.emplace_back(tokens[i].text, static_cast<int32_t>(i));
  return TokenTrie(std::move(entries));
}

bool IsInsideWord(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && IsWordCharacter(DecodeBefore(text, begin).code)) ||
         (end < text.size() && IsWordCharacter(DecodeAt(text, end).code));
}

// Where the white space that ends at `end` begins, no further left than `limit`.
size_t SpaceBegin(std::string_view text, size_t limit, size_t end) {
  while (end > limit) {
    const Character c = DecodeBefore(text, end);
    if (!IsSpace(c.code)) break;
    end -= c.length;
  }
  return end;
}

size_t SpaceEnd(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Character c = DecodeAt(text, at);
    if (!IsSpace(c.code)) break;
    at += c.length;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(SpecialFirst(std::move(tokens))), trie_(BuildTrie(tokens_)) {
  may_start_.fill(false);
  for (const AddedToken& token : tokens_)
    may_start_[static_cast<unsigned char>(token.text[0])] = true;
}

const AddedToken* AddedTokens::LongestAt(std::string_view text, bool parse_special) const {
  const AddedToken* longest = nullptr;
  trie_.ForEachPrefix(text, [&](size_t, int32_t index) {
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    if (parse_special || !token.special) longest = &token;
  });
  return longest;
}

std::vector<AddedTokens::Section> AddedTokens::Split(std::string_view text,
                                                     bool parse_special) const {
  std::vector<Section> sections;
  size_t done = 0;  // text before this is in a section, or was taken as white space
  size_t at = 0;
  while (at < text.size()) {
    const AddedToken* token = may_start_[static_cast<unsigned char>(text[at])]
                                  ? LongestAt(text.substr(at), parse_special)
                                  : nullptr;
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->text.size();
    at = end;
    if (token->single_word && IsInsideWord(text, begin, end)) continue;
    if (token->strip_left) begin = SpaceBegin(text, std::min(done, begin), begin);
    if (token->strip_right) end = SpaceEnd(text, end);
    if (done < begin) sections.push_back({text.substr(done, begin - done), nullptr});
    sections.push_back({text.substr(begin, end - begin), token});
    // A token made of white space may match again inside what strip_right took; so it does at
    // Hugging Face.
    done = end;
  }
  if (done < text.size()) sections.push_back({text.substr(done), nullptr});
  return sections;
}

}  // namespace outrider
