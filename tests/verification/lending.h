// A MemoryLender of ten pages, and what it is told of those who have some.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/verification/machine/memory_lender.h"

namespace outrider {

// Who is not in `idle` is in the run.
class Lending {
 public:
  using Prefix = MemoryLender::Prefix;
  using Idle = MemoryLender::Idle;

  explicit Lending(uint32_t sequence_count = 3)
      : lender({.groups = {{.page_count = 10}},
                .sequence_count = sequence_count,
                .row_count_max = 1}) {}

  bool Borrow(uint64_t session, uint32_t pages, std::optional<Prefix> prefix = std::nullopt,
              uint64_t account = 0) {
    const MemoryLender::Need need = {
        .length = pages * kPageTokens, .node_count = 0, .account = account};
    const bool lent = lender.Borrow(
        session, need, prefix, now, [this] { Tell(); }, evicted);
    lender.CheckInvariants();
    return lent;
  }
  bool Own(uint64_t session, uint32_t first) {
    const bool owns = lender.Own(
        session, first, now, [this] { Tell(); }, evicted);
    lender.CheckInvariants();
    return owns;
  }
  uint32_t free_count() const { return lender.ledger().free_count(0); }

  MemoryLender lender;
  MonotonicTime now{std::chrono::seconds(10)};
  std::map<uint64_t, Idle> idle;
  std::vector<uint64_t> evicted;

 private:
  void Tell() {
    for (uint64_t session = 1; session <= 9; ++session) {
      const auto found = idle.find(session);
      lender.SetIdle(session, found == idle.end() ? std::nullopt : std::optional(found->second));
    }
  }
};

// For so many seconds of those that have passed at first.
inline Lending::Idle Since(int second) {
  return {.since = MonotonicTime(std::chrono::seconds(second)),
          .from = MonotonicTime(std::chrono::seconds(second))};
}

}  // namespace outrider
