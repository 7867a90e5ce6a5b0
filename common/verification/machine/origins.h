// Where callers call from. Somebody without a key is nobody in particular, but what one place may ask
// for can be counted all the same.
//
// Memory:  an entry for each that has a stream, and for kRememberedMax others, whose rate of opens is
//          remembered.
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/verification/machine/callers.h"

namespace outrider {

struct Origin {
  std::string name;
  uint32_t stream_count = 0;
  OpenRate opens = {};
};

class Origins {
 public:
  static constexpr size_t kRememberedMax = 4096;

  // Null: nothing is known of it.
  const Origin* Find(std::string_view name) const {
    const auto found = origins_.find(name);
    return found == origins_.end() ? nullptr : &found->second;
  }

  // One that nothing was known of is remembered from when it has had a stream.
  Origin& Of(std::string_view name) {
    const auto found = origins_.find(name);
    if (found != origins_.end()) return found->second;
    return origins_.emplace(std::string(name), Origin{std::string(name)}).first->second;
  }

  void StreamOpened(Origin& origin) { ++origin.stream_count; }
  // `origin` may be gone afterwards.
  void StreamClosed(Origin& origin) {
    if (--origin.stream_count > 0) return;
    remembered_.push_back(origin.name);
    while (remembered_.size() > kRememberedMax) {
      const auto found = origins_.find(remembered_.front());
      if (found != origins_.end() && found->second.stream_count == 0) origins_.erase(found);
      remembered_.pop_front();
    }
  }

  size_t size() const { return origins_.size(); }

  // For tests.
  void CheckInvariants() const {
    const auto without = std::ranges::count_if(
        origins_, [](const auto& entry) { return entry.second.stream_count == 0; });
    OUTRIDER_CHECK(static_cast<size_t>(without) <= remembered_.size(),
                   "who has no stream will be forgotten");
  }

 private:
  std::map<std::string, Origin, std::less<>> origins_;
  std::deque<std::string> remembered_;  // as they lost their last stream; some have new ones
};

}  // namespace outrider
