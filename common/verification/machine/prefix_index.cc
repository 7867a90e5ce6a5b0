#include "common/verification/machine/prefix_index.h"

namespace outrider {

void PrefixIndex::Keep(uint64_t session, uint64_t caller, const TokenHistory& history,
                       uint32_t count) {
  const uint32_t page_count = count > 0 ? (count - 1) / kPageTokens : 0;
  if (page_count == 0) return Forget(session);
  Kept& kept = kept_.try_emplace(session, Kept{caller, {}}).first->second;
  Shorten(session, kept, page_count);
  while (kept.hashes.size() < page_count) {
    const auto next = static_cast<uint32_t>(kept.hashes.size() + 1);
    kept.hashes.push_back(history.HashAt(TokensOf(next)));
    by_beginning_[{caller, kept.hashes.back()}].push_back(session);
  }
}

void PrefixIndex::Forget(uint64_t session) {
  const auto found = kept_.find(session);
  if (found == kept_.end()) return;
  Shorten(session, found->second, 0);
  kept_.erase(found);
}

void PrefixIndex::Shorten(uint64_t session, Kept& kept, size_t page_count) {
  while (kept.hashes.size() > page_count) {
    const auto sessions = by_beginning_.find({kept.caller, kept.hashes.back()});
    std::erase(sessions->second, session);
    if (sessions->second.empty()) by_beginning_.erase(sessions);
    kept.hashes.pop_back();
  }
}

std::optional<PrefixIndex::Found> PrefixIndex::Find(
    uint64_t caller, const TokenHistory& history,
    absl::FunctionRef<bool(const Found&)> is_same) const {
  if (history.size() < 2) return std::nullopt;
  auto page_count = static_cast<uint32_t>((history.size() - 2) / kPageTokens);
  for (; page_count > 0; --page_count) {
    const auto sessions = by_beginning_.find({caller, history.HashAt(TokensOf(page_count))});
    if (sessions == by_beginning_.end()) continue;
    const Found found = {sessions->second.back(), page_count};
    if (is_same(found)) return found;
  }
  return std::nullopt;
}

}  // namespace outrider
