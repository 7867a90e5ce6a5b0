#include "common/base/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace outrider {
namespace {

constexpr double kQuietSeconds = 0.5;
constexpr double kRedrawSeconds = 0.1;
constexpr double kLogSeconds = 60;
constexpr int kBarWidth = 24;

std::string Bar(double share) {
  const int filled = static_cast<int>(share * kBarWidth);
  return std::string(static_cast<size_t>(filled), '#') +
         std::string(static_cast<size_t>(kBarWidth - filled), '.');
}

}  // namespace

ProgressBar::ProgressBar(std::string verb, uint64_t total, ProgressUnit unit)
    : verb_(std::move(verb)),
      total_(std::max<uint64_t>(1, total)),
      unit_(unit),
      terminal_(isatty(STDERR_FILENO) == 1),
      started_(RealClock().Now()) {}

void ProgressBar::Advance(uint64_t amount, std::string_view what) {
  done_ += amount;
  const double now_s = Seconds();
  if (now_s < kQuietSeconds) return;
  if (terminal_) {
    if (now_s - last_drawn_s_ < kRedrawSeconds) return;
  } else {
    const int tenth = static_cast<int>(10 * done_ / total_);
    if (tenth == last_tenth_ && now_s - last_drawn_s_ < kLogSeconds) return;
    last_tenth_ = tenth;
  }
  last_drawn_s_ = now_s;
  Draw(what);
}

void ProgressBar::Finish() {
  if (!drawn_ || !terminal_) return;
  Draw("");
  std::fputc('\n', stderr);
}

void ProgressBar::Draw(std::string_view what) {
  drawn_ = true;
  const double seconds = Seconds();
  const double share = std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const double rate = static_cast<double>(done_) / seconds;
  const auto left_s = static_cast<int64_t>(seconds / std::max(share, 1e-6) * (1 - share));
  const std::string text =
      Concat(verb_, " [", Bar(share), "] ", Fixed(100 * share, 0), " %  ", Amount(done_), "  ",
             Amount(static_cast<uint64_t>(rate)), "/s  ", left_s, " s left  ", what);
  // The escape clears what a longer line left behind.
  std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", text.c_str());
}

std::string ProgressBar::Amount(uint64_t amount) const {
  if (unit_ == ProgressUnit::kBytes) return HumanBytes(amount);
  return Concat(amount, unit_ == ProgressUnit::kTokens ? " tokens" : " passes");
}

double ProgressBar::Seconds() const {
  return std::chrono::duration<double>(RealClock().Now() - started_).count();
}

}  // namespace outrider
