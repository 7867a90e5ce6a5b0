// Whether a session that waits for growth takes part, with its root alone, in a run of others that
// begins without it.
//
// The weights are read for the others anyway, so its root costs a row, and brings a token. What it
// has from waiting instead is the growth it waits for, and that may come much later than the run
// ends. A session that waits writes
//
//   (tokens - price * rows) / seconds        from one dry root to the next, where growth came
//
// with `price` what a row costs all others in tokens (row_worth.h). To take part moves its root to
// the run's end, and growth for that comes as long after it as it always does. So it takes part if
// the token, less its row, is more than it would have written in the time by which it is set back:
//
//   1 - price  >  rate * (D - max(0, due - run))
//
// D being what growth takes from a verdict, `due` what is still to go of it, and `run` what the run
// takes. Nearly always so where D is short of a run: who misses one that does not wait for him loses
// all of it. Where it is long, a draft that is mostly right is waited for and one that is mostly
// wrong is not, for its target would stand by while others have the weights read for a few.
//
// A wait in which growth did not come, since its device stood still, counts like any other: it brought
// nothing, and others' runs were let pass.
//
// A draft is taken to be good until it is seen. One that has not been waited for is waited for again
// after kTryEvery times as long as that may take, growth that just misses a run waiting for all of it:
// it costs its session a percent, and nobody else as much.
//
// Threads: as a vector.
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/monotonic_time.h"

namespace outrider {

class Joining {
 public:
  static constexpr double kTryEvery = 96;

  // What a run of others takes, and what a row of it costs them, in tokens.
  struct Run {
    double seconds;
    double row_price;
  };

  // After a verdict, or when a device has attached. `is_dry`: it has no child.
  // `lost`: what a wait may cost it, in seconds; none: not known yet.
  void RootKnown(bool is_dry, std::optional<double> lost, MonotonicTime now);
  // Another's run begins without it.
  void LetPass() { let_pass_ = true; }
  // A pass begins with its root alone. If others' runs were let pass before, that was for nothing.
  void GoesAlone(MonotonicTime now);
  // A pass of so many rows has committed so many tokens. `grown`: it began with growth, whether or not
  // that was worth its rows.
  void Passed(bool grown, uint32_t rows, uint32_t tokens);

  // At a dry root. `due`: in how many seconds growth comes.
  bool Joins(const Run& run, double delay, double due) const;

 private:
  // What is supposed of a draft, until anything is known of it.
  static constexpr double kSupposedTokens = 5;
  static constexpr uint32_t kSupposedCount = 2;
  static constexpr uint32_t kCountMax = 16;

  void Learn(double seconds);

  // Means over times from a dry root to the next in which growth was waited for.
  uint32_t count_ = kSupposedCount;
  double tokens_ = kSupposedTokens;
  double rows_ = kSupposedTokens;
  std::optional<double> seconds_;

  double lost_ = 0;                      // by a wait, in seconds
  std::optional<MonotonicTime> dry_at_;  // since when that has been going on
  double tokens_since_ = 0;
  double rows_since_ = 0;
  MonotonicTime waited_at_{};
  bool tries_ = false;     // it is waited for whatever is known
  bool let_pass_ = false;  // others' runs, since then
};

}  // namespace outrider
