#include "adapters/generation/texts_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "common/base/status.h"
#include "common/formats/containers/gguf_file.h"
#include "common/formats/containers/gguf_writer.h"

namespace outrider {
namespace {

constexpr char kAsked[] = "texts.asked";
constexpr char kLengths[] = "texts.lengths";
constexpr char kTokens[] = "texts.tokens";

}  // namespace

absl::Status WriteTexts(const std::string& path, std::span<const std::string> asked,
                        std::span<const std::vector<TokenId>> texts) {
  std::vector<uint32_t> lengths;
  std::vector<int32_t> tokens;
  for (const std::vector<TokenId>& text : texts) {
    lengths.push_back(static_cast<uint32_t>(text.size()));
    tokens.insert(tokens.end(), text.begin(), text.end());
  }
  GgufWriter writer;
  writer.AddString("general.architecture", "texts");
  writer.AddStrings(kAsked, asked);
  writer.AddUint32s(kLengths, lengths);
  writer.AddInt32s(kTokens, tokens);
  OUTRIDER_RETURN_IF_ERROR(writer.Begin(path));
  return writer.Commit();
}

absl::StatusOr<std::optional<std::vector<std::vector<TokenId>>>> ReadTexts(
    const std::string& path, std::span<const std::string> asked) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string_view> was, file.GetStrings(kAsked));
  if (!std::ranges::equal(was, asked)) return std::nullopt;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<uint64_t> lengths, file.GetUints(kLengths));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<int64_t> tokens, file.GetInts(kTokens));
  std::vector<std::vector<TokenId>> texts;
  size_t at = 0;
  for (const uint64_t length : lengths) {
    if (length > tokens.size() - at) {
      return DataLoss(path,
                      ": has fewer tokens than its texts; remove it and they are written anew");
    }
    texts.emplace_back(tokens.begin() + static_cast<ptrdiff_t>(at),
                       tokens.begin() + static_cast<ptrdiff_t>(at + length));
    at += length;
  }
  return texts;
}

}  // namespace outrider
