#include "common/model/memory/ledger.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"

namespace outrider {

uint64_t PageGroup::PagesOfSequence(uint64_t length, uint32_t row_count_max,
                                    uint32_t node_count) const {
  if (pages_each > 0) return pages_each;
  uint64_t pages = PagesFor(length);
  if (window != kNoWindow) {
    // So many cells in a row, which may begin in the last slot of a page.
    const uint64_t cells = uint64_t{window} - 1 + std::max(row_count_max, 1u);
    pages = std::min(pages, (cells + kPageTokens - 2) / kPageTokens + 1);
  }
  return pages + PagesFor(node_count);
}

Ledger::Ledger(std::span<const PageGroup> groups, uint32_t owner_count_max) {
  for (const PageGroup& shape : groups) {
    Group& group = groups_.emplace_back();
    group.shape = shape;
    group.holders.resize(shape.page_count);
    group.unheld.reserve(shape.page_count);
    for (uint32_t page = shape.page_count; page > 0; --page) group.unheld.push_back(page - 1);
  }
  promises_.reserve(size_t{owner_count_max} * groups.size());
  closed_.reserve(owner_count_max);
}

uint32_t Ledger::free_count(uint32_t group) const {
  return static_cast<uint32_t>(groups_[group].unheld.size()) - groups_[group].promised;
}

uint32_t Ledger::held_count(uint32_t group) const {
  return groups_[group].shape.page_count - static_cast<uint32_t>(groups_[group].unheld.size());
}

PageOwner Ledger::Open() {
  if (!closed_.empty()) {
    const PageOwner owner = closed_.back();
    closed_.pop_back();
    return owner;
  }
  const auto owner = static_cast<PageOwner>(promises_.size() / groups_.size());
  promises_.resize(promises_.size() + groups_.size());
  return owner;
}

void Ledger::Close(PageOwner owner) {
  for (uint32_t group = 0; group < group_count(); ++group) {
    groups_[group].promised -= Promise(owner, group);
    Promise(owner, group) = 0;
  }
  closed_.push_back(owner);
}

absl::Status Ledger::Reserve(PageOwner owner, std::span<const uint32_t> counts) {
  OUTRIDER_CHECK(counts.size() == groups_.size(), "pages are asked for by group");
  for (uint32_t group = 0; group < group_count(); ++group) {
    const uint32_t could_be = free_count(group) + Promise(owner, group);
    if (counts[group] <= could_be) continue;
    return ResourceExhausted("the KV cache has ", could_be, " of ", groups_[group].shape.page_count,
                             " pages free and ", counts[group], " are needed (a page holds ",
                             kPageTokens, " tokens); close a sequence or give it more memory");
  }
  for (uint32_t group = 0; group < group_count(); ++group) {
    groups_[group].promised += counts[group] - Promise(owner, group);
    Promise(owner, group) = counts[group];
  }
  return absl::OkStatus();
}

uint32_t Ledger::promised_to(PageOwner owner, uint32_t group) const {
  return Promise(owner, group);
}

uint32_t Ledger::Take(PageOwner owner, uint32_t group) {
  OUTRIDER_CHECK(Promise(owner, group) > 0, "pages are reserved before they are taken");
  --Promise(owner, group);
  Group& of = groups_[group];
  --of.promised;
  const uint32_t page = of.unheld.back();
  of.unheld.pop_back();
  of.holders[page] = 1;
  return page;
}

void Ledger::Drop(uint32_t group, uint32_t page) {
  Group& of = groups_[group];
  OUTRIDER_CHECK(of.holders[page] > 0, "a page is dropped by those who hold it");
  if (--of.holders[page] == 0) of.unheld.push_back(page);
}

uint32_t& Ledger::Promise(PageOwner owner, uint32_t group) {
  return promises_[static_cast<size_t>(owner) * groups_.size() + group];
}

uint32_t Ledger::Promise(PageOwner owner, uint32_t group) const {
  return promises_[static_cast<size_t>(owner) * groups_.size() + group];
}

}  // namespace outrider
