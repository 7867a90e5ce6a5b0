#include "adapters/text/tokenized.h"

#include <map>
#include <string_view>

#include "adapters/text/text_file.h"
#include "common/base/status.h"

namespace outrider {

absl::StatusOr<std::vector<std::vector<TokenId>>> Tokenized(std::span<const std::string> paths,
                                                            const Tokenizer& tokenizer) {
  std::map<std::string, std::vector<std::vector<TokenId>>> files;
  std::vector<std::vector<TokenId>> all;
  for (const std::string& path : paths) {
    std::vector<std::vector<TokenId>>& documents = files[path];
    if (documents.empty()) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
      for (const std::string_view document : Documents(text)) {
        documents.push_back(
            tokenizer.Encode(document, {.add_special = false, .parse_special = false}));
      }
    }
    if (documents.empty()) return InvalidArgument(path, ": holds no text");
    all.insert(all.end(), documents.begin(), documents.end());
  }
  return all;
}

}  // namespace outrider
