// Whose text begins as another does: sessions by the beginnings of what the target has of them.
//
//   index.Keep(session, caller, history, count);   // the target has the first `count` tokens
//   if (const auto found = index.Find(caller, history)) ...   // share found->page_count pages
//
// A beginning is one of n whole pages and the token after them, which is what a fork of a sequence
// has, pages full and its root. It is looked up by its hash and the caller's number, since
// callers learn nothing of each other, and compared token for token by whoever looks.
//
// Cost:    a step a page that is kept or forgotten, however many sessions begin alike.
// Memory:  24 bytes a page of text and an entry of its hash.
// Threads: as a vector.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "common/model/memory/ledger.h"
#include "common/tokens/token_history.h"

namespace outrider {

class PrefixIndex {
 public:
  struct Found {
    uint64_t session;
    uint32_t page_count;
  };

  // Tokens of a beginning of so many pages.
  static constexpr uint32_t TokensOf(uint32_t page_count) { return page_count * kPageTokens + 1; }

  // The target has the first `count` tokens of a session's `history` now, and no others.
  void Keep(uint64_t session, uint64_t caller, const TokenHistory& history, uint32_t count);
  void Forget(uint64_t session);
  // Whether anybody could begin with what it has.
  bool Has(uint64_t session) const { return kept_.contains(session); }

  // The longest beginning of `history`, shorter than all of it, that a session of `caller` has and
  // that `is_same` agrees to.
  std::optional<Found> Find(uint64_t caller, const TokenHistory& history,
                            absl::FunctionRef<bool(const Found&)> is_same) const;

  bool empty() const { return by_beginning_.empty(); }

 private:
  using Beginning = std::tuple<uint64_t, size_t, uint64_t>;  // caller, pages, hash
  struct Place {
    uint64_t hash;
    size_t at;  // among the sessions of this beginning
  };
  struct Kept {
    uint64_t caller;
    std::vector<Place> places;  // by pages, of one page first
  };

  void Lengthen(uint64_t session, Kept& kept, uint64_t hash);
  void Shorten(Kept& kept);

  absl::flat_hash_map<uint64_t, Kept> kept_;  // by session
  absl::flat_hash_map<Beginning, std::vector<uint64_t>> by_beginning_;
};

}  // namespace outrider
