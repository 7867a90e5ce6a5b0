#include "bench/simulator/world/journal.h"

#include <algorithm>

#include "bench/simulator/world/time_profile.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

std::string LineOf(const Journal::Entry& entry, MonotonicTime zero) {
  const std::string at = Fixed(ToMilliseconds(entry.begin - zero), 3);
  const std::string lasting = Fixed(ToMilliseconds(entry.end - entry.begin), 3);
  const std::string begin = std::string(at.size() < 12 ? 12 - at.size() : 0, ' ') + at + " ms  ";
  const std::string device = Concat("device ", entry.device);
  switch (entry.kind) {
    case Journal::Kind::kUp:
      return Concat(begin, device, " > server  ", entry.what,
                    entry.end == entry.begin ? "  (not arrived)" : "  +" + lasting, "\n");
    case Journal::Kind::kDown:
      return Concat(begin, device, " < server  ", entry.what,
                    entry.end == entry.begin ? "  (not arrived)" : "  +" + lasting, "\n");
    case Journal::Kind::kDraft:
      return Concat(begin, device, " drafts ", entry.count, " nodes  +", lasting, "\n");
    case Journal::Kind::kRun:
      return Concat(begin, "server runs ", entry.count, " rows of ", entry.device, " sessions  +",
                    lasting, "\n");
    case Journal::Kind::kShown:
      return Concat(begin, device, " shows ", entry.count, " tokens\n");
    case Journal::Kind::kNote:
      return Concat(begin, device, " ", entry.what, "\n");
  }
  return {};
}

}  // namespace

void Journal::Sent(const Connection& connection, End from, Entry entry) {
  entry.end = entry.begin;
  under_way_[{&connection, from}].push_back(entries_.size());
  entries_.push_back(std::move(entry));
}

void Journal::Received(const Connection& connection, End from, MonotonicTime at) {
  std::deque<size_t>& queue = under_way_[{&connection, from}];
  OUTRIDER_CHECK(!queue.empty(), "what is received was sent");
  entries_[queue.front()].end = at;
  queue.pop_front();
}

std::string Journal::ToText(MonotonicTime zero) const {
  std::vector<const Entry*> order;
  for (const Entry& entry : entries_) order.push_back(&entry);
  std::stable_sort(order.begin(), order.end(),
                   [](const Entry* a, const Entry* b) { return a->begin < b->begin; });
  std::string text;
  for (const Entry* entry : order) text += LineOf(*entry, zero);
  return text;
}

}  // namespace outrider
