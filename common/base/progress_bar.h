// Progress of a long step on standard error.
//
//   ProgressBar bar("converting", total_bytes);
//   ... bar.Advance(bytes, "blk.3.ffn_up.weight"); ...
//   bar.Finish();
//
// On a terminal one line redraws itself (at most ten times a second) with share, amount, rate and
// time left; in a log a line appears every ten percent, and every minute. Nothing is printed for
// steps that end within the first half second.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/monotonic_time.h"

namespace outrider {

enum class ProgressUnit { kBytes, kTokens, kPasses };

class ProgressBar {
 public:
  ProgressBar(std::string verb, uint64_t total, ProgressUnit unit = ProgressUnit::kBytes);

  // `what` is being worked on now.
  void Advance(uint64_t amount, std::string_view what);
  // So much is done altogether; it never becomes less.
  void AdvanceTo(uint64_t done, std::string_view what) {
    Advance(done > done_ ? done - done_ : 0, what);
  }
  void Finish();

 private:
  void Draw(std::string_view what);
  std::string Amount(uint64_t amount) const;
  double Seconds() const;

  const std::string verb_;
  const uint64_t total_;
  const ProgressUnit unit_;
  const bool terminal_;
  const MonotonicTime started_;
  uint64_t done_ = 0;
  double last_drawn_s_ = 0;
  int last_tenth_ = 0;
  bool drawn_ = false;
};

}  // namespace outrider
