#include "common/speculation/drafting/live_hints.h"

#include <algorithm>
#include <span>

#include "common/base/check.h"

namespace outrider {
namespace {

// The same for the same number, and as good as drawn: the device's side has no randomness of its own.
double ChanceOf(uint64_t number) {
  number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9;
  number = (number ^ number >> 27) * 0x94D049BB133111EB;
  return static_cast<double>((number ^ number >> 31) >> 11) * 0x1p-53;
}

}  // namespace

double LiveHints::Take(const LiveHint& hint) {
  if (count_ == 0) outcome_count_ = 0;
  ++told_count_;
  const auto begin = kept_.begin();
  const auto end = begin + static_cast<ptrdiff_t>(count_);
  const auto same = std::find_if(begin, end, [&](const Kept& kept) {
    return kept.hint.leaf == hint.leaf && kept.hint.next == hint.next;
  });
  if (same != end) {
    if (same->hint.exit <= hint.exit) {  // one that waited for the link may have been overtaken
      same->hint = hint;
      same->told = told_count_;
    }
    return RankOf(*same);
  }
  const Kept taken = {hint, ++outcome_count_, ChanceOf(told_count_), told_count_};
  kept_[count_++] = taken;
  if (count_ > kMax) {
    const auto before = [this](const Kept& a, const Kept& b) { return GoesBefore(a, b); };
    std::swap(*std::max_element(begin, begin + static_cast<ptrdiff_t>(count_), before),
              kept_[count_ - 1]);
    --count_;
  }
  return RankOf(taken);
}

const LiveHint& LiveHints::first() const {
  OUTRIDER_CHECK(!empty(), "what is believed has been hinted");
  return std::ranges::min_element(std::span(kept_).first(count_),
                                  [this](const Kept& a, const Kept& b) { return GoesBefore(a, b); })
      ->hint;
}

bool LiveHints::GoesBefore(const Kept& a, const Kept& b) const {
  if (belief_ == HintBelief::kNewest) {
    return a.hint.exit != b.hint.exit ? a.hint.exit > b.hint.exit : a.told > b.told;
  }
  const double rank_of_a = RankOf(a);
  const double rank_of_b = RankOf(b);
  return rank_of_a != rank_of_b ? rank_of_a > rank_of_b : a.place < b.place;
}

double LiveHints::RankOf(const Kept& kept) const {
  switch (belief_) {
    case HintBelief::kNewest:
    case HintBelief::kProbability:
      return kept.hint.probability;
    case HintBelief::kArrival:
      return 1.0 / kept.place;
    case HintBelief::kRandom:
      return kept.chance;
  }
  return 0;
}

}  // namespace outrider
