#include "common/verification/machine/prefix_index.h"

namespace outrider {

void PrefixIndex::Keep(uint64_t session, uint64_t caller, const TokenHistory& history,
                       uint32_t count) {
  const uint32_t page_count = count > 0 ? (count - 1) / kPageTokens : 0;
  if (page_count == 0) return Forget(session);
  Kept& kept = kept_.try_emplace(session, Kept{caller, {}}).first->second;
  while (kept.places.size() > page_count) Shorten(kept);
  while (kept.places.size() < page_count) {
    const auto next = static_cast<uint32_t>(kept.places.size() + 1);
    Lengthen(session, kept, history.HashAt(TokensOf(next)));
  }
}

void PrefixIndex::Forget(uint64_t session) {
  const auto found = kept_.find(session);
  if (found == kept_.end()) return;
  while (!found->second.places.empty()) Shorten(found->second);
  kept_.erase(found);
}

void PrefixIndex::Lengthen(uint64_t session, Kept& kept, uint64_t hash) {
  std::vector<uint64_t>& sessions = by_beginning_[{kept.caller, kept.places.size() + 1, hash}];
  kept.places.push_back({hash, sessions.size()});
  sessions.push_back(session);
}

// The last session of the beginning takes the place of the one that goes.
void PrefixIndex::Shorten(Kept& kept) {
  const size_t page_count = kept.places.size();
  const Place place = kept.places.back();
  kept.places.pop_back();
  const auto found = by_beginning_.find({kept.caller, page_count, place.hash});
  std::vector<uint64_t>& sessions = found->second;
  const uint64_t last = sessions.back();
  sessions.pop_back();
  if (sessions.empty()) {
    by_beginning_.erase(found);
  } else if (place.at < sessions.size()) {
    sessions[place.at] = last;
    kept_.at(last).places[page_count - 1].at = place.at;
  }
}

std::optional<PrefixIndex::Found> PrefixIndex::Find(
    uint64_t caller, const TokenHistory& history,
    absl::FunctionRef<bool(const Found&)> is_same) const {
  if (history.size() < 2) return std::nullopt;
  auto page_count = static_cast<uint32_t>((history.size() - 2) / kPageTokens);
  for (; page_count > 0; --page_count) {
    const auto sessions =
        by_beginning_.find({caller, page_count, history.HashAt(TokensOf(page_count))});
    if (sessions == by_beginning_.end()) continue;
    const Found found = {sessions->second.back(), page_count};
    if (is_same(found)) return found;
  }
  return std::nullopt;
}

}  // namespace outrider
