#include "common/text/normalizer.h"

#include <utility>

#include "common/base/status.h"
#include "common/text/space_mark.h"
#include "common/text/unicode/nfc.h"
#include "common/text/unicode/unicode.h"

namespace outrider {

namespace {

// Runs of spaces become one, white space at the end goes.
std::string WithoutExtraWhitespace(std::string_view text) {
  while (!text.empty()) {
    const Character last = DecodeBefore(text, text.size());
    if (!IsSpace(last.code)) break;
    text.remove_suffix(last.length);
  }
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != ' ' || i == 0 || text[i - 1] != ' ') out.push_back(text[i]);
  }
  return out;
}

}  // namespace

std::pair<size_t, size_t> NextWord(std::string_view text, size_t at) {
  const auto skip = [&](size_t from, bool space) {
    while (from < text.size()) {
      const Character c = DecodeAt(text, from);
      if (IsSpace(c.code) != space) break;
      from += c.length;
    }
    return from;
  };
  const size_t begin = skip(at, true);
  return {begin, skip(begin, false)};
}

absl::StatusOr<Normalizer> Normalizer::Create(const TokenizerSpec& spec) {
  Normalizer normalizer;
  normalizer.nfc_ = spec.nfc;
  if (!spec.precompiled_charsmap.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(normalizer.charsmap_, Charsmap::Parse(spec.precompiled_charsmap));
  }
  normalizer.remove_extra_whitespace_ = spec.remove_extra_whitespace;
  if (spec.model == TokenizerSpec::Model::kByteLevelBpe) return normalizer;
  normalizer.split_on_whitespace_ = spec.split_on_whitespace;
  normalizer.space_prefix_ = spec.space_prefix;
  normalizer.prefix_once_ = spec.space_prefix_once;
  normalizer.spell_late_ = spec.space_prefix_once || spec.split_on_whitespace;
  normalizer.spell_early_ = !normalizer.spell_late_;
  return normalizer;
}

std::string_view Normalizer::Normalize(std::string_view text, bool at_start,
                                       std::string& storage) const {
  const auto keep = [&storage](std::string&& form) {
    storage = std::move(form);
    return std::string_view(storage);
  };
  std::string form;
  if (nfc_ && ComposeNfc(text, form).data() != text.data()) text = keep(std::move(form));
  if (charsmap_) {
    charsmap_->Normalize(text, form);
    text = keep(std::move(form));
  }
  if (remove_extra_whitespace_) text = keep(WithoutExtraWhitespace(text));
  if (spell_early_) text = keep(SpellSpaces(text, at_start));
  return text;
}

std::string Normalizer::SpellSpaces(std::string_view text, bool at_start) const {
  std::string out;
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 2 + kSpaceMark.size());
  const bool has_one = text[0] == ' ' || text.starts_with(kSpaceMark);
  if (HasPrefix(at_start) && !(prefix_once_ && has_one)) out.append(kSpaceMark);
  for (const char c : text) {
    if (c == ' ') {
      out.append(kSpaceMark);
    } else {
      out.push_back(c);
    }
  }
  return out;
}

}  // namespace outrider
