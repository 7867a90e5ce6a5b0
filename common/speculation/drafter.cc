#include "common/speculation/drafter.h"

#include "common/base/check.h"

namespace outrider {

void Proposals::Clear(size_t list_count, size_t proposal_count) {
  all_.clear();
  children_.clear();
  all_.reserve(proposal_count);
  children_.reserve(list_count);
}

void Proposals::Add(std::span<const Proposal> list) {
  OUTRIDER_CHECK(list.size() <= all_.capacity() - all_.size(), "lists point to where they lie");
  const size_t begin = all_.size();
  all_.insert(all_.end(), list.begin(), list.end());
  children_.push_back(std::span(all_).subspan(begin));
}

}  // namespace outrider
