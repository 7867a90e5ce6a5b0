#include "client/device/conversation.h"

#include <algorithm>

namespace outrider {

absl::StatusOr<Ending> Conversation::Append(std::span<const TokenId> turn, Observer& observer) {
  std::vector<TokenId> text = tokens_;
  text.insert(text.end(), turn.begin(), turn.end());
  return Continue(text, /*is_reply=*/true, observer);
}

// Continue() finds out what is not there any more.
void Conversation::Truncate(size_t length) {
  tokens_.resize(std::min(tokens_.size(), length));
}

}  // namespace outrider
