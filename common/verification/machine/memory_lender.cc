#include "common/verification/machine/memory_lender.h"

#include <algorithm>

#include "common/base/check.h"

namespace outrider {

MemoryLender::MemoryLender(const Stock& stock) : stock_(stock), free_pages_(stock.page_count) {
  OUTRIDER_CHECK(stock.page_tokens > 0, "a page holds tokens");
  OUTRIDER_CHECK(stock.sequence_count > 0, "a target holds a sequence");
}

uint32_t MemoryLender::PagesFor(uint32_t tokens) const {
  return (tokens + stock_.page_tokens - 1) / stock_.page_tokens;
}

uint64_t MemoryLender::LengthMax(uint32_t pass_nodes) const {
  const uint32_t scratch = PagesFor(pass_nodes);
  OUTRIDER_CHECK(stock_.page_count > scratch, "a target has memory for a token and a pass");
  return uint64_t{stock_.page_count - scratch} * stock_.page_tokens;
}

bool MemoryLender::Borrow(uint64_t session, uint32_t pages, IdleSince idle_since,
                          std::vector<uint64_t>& evicted) {
  OUTRIDER_CHECK(!HasLent(session), "a session borrows once");
  if (!queue_.empty() || !MakeRoom(pages, idle_since, evicted)) return false;
  Lend(session, pages);
  return true;
}

void MemoryLender::Lend(uint64_t session, uint32_t pages) {
  OUTRIDER_CHECK(free_pages_ >= pages && loans_.size() < stock_.sequence_count,
                 "room has been made");
  free_pages_ -= pages;
  loans_.insert({session, pages});
}

void MemoryLender::Return(uint64_t session) {
  const auto loan = loans_.find(session);
  if (loan == loans_.end()) return;
  free_pages_ += loan->second;
  loans_.erase(loan);
}

// Evicts nobody unless that is enough.
bool MemoryLender::MakeRoom(uint32_t pages, IdleSince idle_since, std::vector<uint64_t>& evicted) {
  uint32_t could_be_pages = free_pages_;
  size_t could_be_loans = loans_.size();
  for (const auto& [session, lent] : loans_) {
    if (!idle_since(session)) continue;
    could_be_pages += lent;
    --could_be_loans;
  }
  if (could_be_pages < pages || could_be_loans >= stock_.sequence_count) return false;
  while (free_pages_ < pages || loans_.size() >= stock_.sequence_count) {
    const std::optional<uint64_t> idle = LongestIdle(idle_since);
    OUTRIDER_CHECK(idle.has_value(), "room is made where there is some to be had");
    Return(*idle);
    evicted.push_back(*idle);
    ++eviction_count_;
  }
  return true;
}

std::optional<uint64_t> MemoryLender::LongestIdle(IdleSince idle_since) const {
  std::optional<uint64_t> longest;
  MonotonicTime since{};
  for (const auto& [session, lent] : loans_) {
    const std::optional<MonotonicTime> idle = idle_since(session);
    if (!idle || (longest && *idle >= since)) continue;
    longest = session;
    since = *idle;
  }
  return longest;
}

// --- those who wait ---

void MemoryLender::Queue(uint64_t session, uint32_t pages) {
  const bool waits = std::ranges::any_of(
      queue_, [&](const Waiting& waiting) { return waiting.session == session; });
  if (!waits && !HasLent(session)) queue_.push_back({session, pages});
}

void MemoryLender::LeaveQueue(uint64_t session) {
  std::erase_if(queue_, [&](const Waiting& waiting) { return waiting.session == session; });
}

void MemoryLender::ServeQueue(IdleSince idle_since, std::vector<uint64_t>& evicted) {
  while (!queue_.empty() && MakeRoom(queue_.front().pages, idle_since, evicted)) {
    Lend(queue_.front().session, queue_.front().pages);
    queue_.pop_front();
  }
}

void MemoryLender::CheckInvariants() const {
  uint32_t pages = free_pages_;
  for (const auto& [session, lent] : loans_) pages += lent;
  OUTRIDER_CHECK(pages == stock_.page_count, "every page is free or lent");
  OUTRIDER_CHECK(loans_.size() <= stock_.sequence_count, "sequences are rationed");
  for (const Waiting& waiting : queue_) {
    OUTRIDER_CHECK(!HasLent(waiting.session), "who waits for memory has none");
  }
}

}  // namespace outrider
