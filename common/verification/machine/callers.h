// Who calls: everybody of one key is one caller, with a number for as long as something of his is
// here. Where nobody needs a key, everybody of one origin (an address) is one: what a caller may have,
// and what callers share, is shared between strangers too.
//
// Memory:  an entry for each.
// Threads: as a vector.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/monotonic_time.h"
#include "common/verification/caller_terms.h"

namespace outrider {

// How often somebody may open a session: so many a minute, and as many at once after a minute of
// none.
class OpenRate {
 public:
  // Whether one more may be opened now; it has been then. 0: as many as he wants.
  bool Take(uint32_t opens_per_minute, MonotonicTime now) {
    if (opens_per_minute == 0) return true;
    left_ = Left(opens_per_minute, now);
    since_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  // How many may be opened at once now.
  double Left(uint32_t opens_per_minute, MonotonicTime now) const {
    if (opens_per_minute == 0) return HUGE_VAL;
    const double minutes = std::chrono::duration<double>(now - since_).count() / 60;
    return std::min<double>(opens_per_minute, left_ + minutes * opens_per_minute);
  }

 private:
  double left_ = std::numeric_limits<uint32_t>::max();  // whatever the first rate is
  MonotonicTime since_{};
};

struct Caller {
  std::string key;     // empty: he has none, and is known by where he calls from
  std::string origin;  // of one without a key; empty: not known
  uint64_t number;     // never given twice
  uint32_t session_count = 0;
  uint64_t session_bytes = 0;  // that those keep (VerifiedSequence::bytes())
  uint32_t stream_count = 0;
  uint32_t places_kept = 0;  // for sessions that its new streams may open
  uint32_t kept_count = 0;  // of sessions that have gone, what the target still has (SessionMemory)
  CallerTerms terms = {};
  OpenRate opens = {};
};

class Callers {
 public:
  Caller& Of(std::string_view key, std::string_view origin = {}) {
    const Name name(key, key.empty() ? origin : std::string_view());
    const auto found = callers_.find(name);
    if (found != callers_.end()) return *found->second;
    auto caller = std::make_unique<Caller>(Caller{name.first, name.second, ++last_number_});
    return *callers_.emplace(name, std::move(caller)).first->second;
  }

  // Of a key. Null: nothing of his is here.
  Caller* Find(std::string_view key) const {
    const auto found = callers_.find(Name(key, ""));
    return found == callers_.end() ? nullptr : found->second.get();
  }

  // `caller` may be gone afterwards.
  void ForgetIfUnused(const Caller& caller) {
    const bool is_used = caller.session_count + caller.stream_count + caller.kept_count > 0;
    // Of whom opens are counted, it is remembered how many there were: he is one of a file of keys.
    if (!is_used && caller.terms.opens_per_minute == 0) {
      callers_.erase(callers_.find(Name(caller.key, caller.origin)));
    }
  }

  size_t size() const { return callers_.size(); }

  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (const auto& [name, caller] : callers_) visit(*caller);
  }

 private:
  using Name = std::pair<std::string, std::string>;  // key, or origin

  std::map<Name, std::unique_ptr<Caller>> callers_;
  uint64_t last_number_ = 0;
};

}  // namespace outrider
