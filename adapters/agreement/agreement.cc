#include "adapters/agreement/agreement.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/base/status.h"
#include "common/tokens/token_history.h"

namespace outrider {
namespace {

constexpr size_t kGram = 4;
constexpr Drafter::Context kFirstChoice = {DraftedNode::kRoot, 1};

}  // namespace

absl::StatusOr<Agreement> Compare(Drafter& drafter, int32_t vocabulary_size,
                                  std::span<const TokenId> text, size_t prompt_length) {
  TokenHistory history({.vocabulary_size = vocabulary_size, .capacity = text.size()});
  OUTRIDER_RETURN_IF_ERROR(history.Append(text.first(prompt_length)));
  history.StartReply();
  Agreement agreement;
  Proposals proposals;
  for (const TokenId written : text.subspan(prompt_length)) {
    OUTRIDER_RETURN_IF_ERROR(drafter.Propose(history, {}, {&kFirstChoice, 1}, proposals));
    const std::span<const Proposal> first = proposals.children()[0];
    agreement.push_back(!first.empty() && first[0].token == written ? 1 : 0);
    OUTRIDER_RETURN_IF_ERROR(history.Append({&written, 1}));
  }
  return agreement;
}

double FirstChoiceRate(std::span<const Agreement> replies) {
  size_t tokens = 0;
  size_t agreed = 0;
  for (const Agreement& reply : replies) {
    tokens += reply.size();
    agreed += static_cast<size_t>(std::ranges::count(reply, 1));
  }
  return tokens == 0 ? 0 : static_cast<double>(agreed) / static_cast<double>(tokens);
}

double MeanAccepted(std::span<const Agreement> replies, uint32_t drafted) {
  size_t chains = 0;
  size_t accepted = 0;
  for (const Agreement& reply : replies) {
    for (size_t begin = 0; begin + drafted <= reply.size();) {
      const auto chain = std::span(reply).subspan(begin, drafted);
      const auto length = static_cast<size_t>(std::ranges::find(chain, 0) - chain.begin());
      ++chains;
      accepted += length;
      begin += length + 1;
    }
  }
  return chains == 0 ? 0 : static_cast<double>(accepted) / static_cast<double>(chains);
}

double Repetition(std::span<const TokenId> tokens) {
  if (tokens.size() < kGram) return 0;
  std::set<std::array<TokenId, kGram>> seen;
  for (size_t i = 0; i + kGram <= tokens.size(); ++i) {
    seen.insert({tokens[i], tokens[i + 1], tokens[i + 2], tokens[i + 3]});
  }
  const auto grams = static_cast<double>(tokens.size() - kGram + 1);
  return 1 - static_cast<double>(seen.size()) / grams;
}

}  // namespace outrider
