#include "adapters/generation/prompts.h"

#include <algorithm>
#include <random>

namespace outrider {

std::vector<std::vector<TokenId>> CutPrompts(std::span<const std::vector<TokenId>> documents,
                                             const PromptOptions& options) {
  std::vector<size_t> ends;  // of each document, in tokens of all
  size_t token_count = 0;
  for (const std::vector<TokenId>& document : documents) {
    ends.push_back(token_count += document.size());
  }
  std::vector<std::vector<TokenId>> prompts;
  if (token_count == 0) return prompts;
  std::mt19937_64 random(options.seed);
  for (size_t i = 0; i < options.count; ++i) {
    const size_t place = random() % token_count;
    const auto end = std::ranges::upper_bound(ends, place);
    const std::vector<TokenId>& document = documents[static_cast<size_t>(end - ends.begin())];
    const size_t first = place - (*end - document.size());
    const size_t length = std::min<size_t>(options.length, document.size() - first);
    std::vector<TokenId>& prompt = prompts.emplace_back();
    if (options.begin) prompt.push_back(*options.begin);
    const auto from = document.begin() + static_cast<ptrdiff_t>(first);
    prompt.insert(prompt.end(), from, from + static_cast<ptrdiff_t>(length));
  }
  return prompts;
}

}  // namespace outrider
