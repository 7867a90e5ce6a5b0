// How long a session waits for a server's word before it goes on elsewhere, and when it is looked
// whether the server is back.
//
//   owed      |----- patience -----| gives up           somebody is asked for a word
//   away                           |--look--|----look----|--------look--------|
//
// Patience is what moving would take. Who waits for longer has waited for more than it costs not
// to, and who moves sooner may have paid for a link that was about to come back: so nobody pays
// more than twice what hindsight would. It is no shorter than what hiccups take, nor than a few of
// the gaps that this server leaves between its words anyway, and no longer than a user waits for a
// link that is dead.
//
// A function of what it was told: no clock, no thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/monotonic_time.h"
#include "common/base/recent_median.h"

namespace outrider {

class LinkPatience {
 public:
  static constexpr Duration kLeast = std::chrono::milliseconds(300);
  static constexpr Duration kMost = std::chrono::seconds(3);
  static constexpr int kGaps = 4;
  static constexpr Duration kLookFirst = std::chrono::milliseconds(250);
  static constexpr Duration kLookMax = std::chrono::seconds(5);
  // Who is lost again within this after it came back is looked for less often.
  static constexpr Duration kSteady = std::chrono::seconds(20);

  // What moving takes.
  explicit LinkPatience(Duration move) : move_(move) {}
  void SetMove(Duration move) { move_ = move; }

  // A word is owed from now on, if none was before.
  void Asked(MonotonicTime now) {
    if (is_owed_) return;
    is_owed_ = true;
    since_ = now;
  }
  void Heard(MonotonicTime now) {
    if (is_owed_) gaps_.Add(std::chrono::duration<double>(now - since_).count());
    since_ = now;
  }
  // What carried its words is broken: a new one has as long as moving takes.
  void Lost(MonotonicTime now) { since_ = now; }
  void Settled() { is_owed_ = false; }

  // None: nothing is owed.
  std::optional<MonotonicTime> gives_up_at() const {
    if (!is_owed_) return std::nullopt;
    Duration patience = std::clamp(move_, kLeast, kMost);
    if (!gaps_.empty()) {
      patience = std::max(patience, std::chrono::duration_cast<Duration>(
                                        kGaps * std::chrono::duration<double>(gaps_.Value())));
    }
    return since_ + patience;
  }

  // --- away from it ---

  void Left(MonotonicTime now) {
    is_owed_ = false;
    const bool was_steady = !returned_at_ || now - *returned_at_ > kSteady;
    look_every_ = was_steady ? kLookFirst : std::min(2 * look_first_, kLookMax);
    look_first_ = look_every_;
    looks_at_ = now + look_every_;
  }
  void LookedInVain(MonotonicTime now) {
    look_every_ = std::min(2 * look_every_, kLookMax);
    looks_at_ = now + look_every_;
  }
  void Returned(MonotonicTime now) { returned_at_ = now; }

  MonotonicTime looks_at() const { return looks_at_; }

 private:
  Duration move_;
  bool is_owed_ = false;
  MonotonicTime since_ = {};  // it was asked, or heard of, or lost
  RecentMedian<9> gaps_;      // seconds between two of its words while more were owed

  MonotonicTime looks_at_ = {};
  Duration look_every_ = kLookFirst;
  Duration look_first_ = kLookFirst;
  std::optional<MonotonicTime> returned_at_;
};

}  // namespace outrider
