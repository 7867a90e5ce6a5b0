"""How soon growth followed the verdicts that it was drafted before: the part of bench/local and bench/split that reads what
`outrider run --verbose` says of it, and pools it over texts.

    growth followed its verdict at once 7 times, in 0.246 ms (median), 0.576 (99 of 100), 0.576 (all)
      from     0.131 ms      4 #############################
      from     0.262 ms      2 ###############
      from     0.524 ms      1 ########

A line stands for an octave, and ends where the next one begins. Of many texts is known what their octaves, medians, 99th
percentiles and longest leave no doubt of: a quantile is no more than what is said here, and a share lies between two.
"""

import collections
import dataclasses
import itertools
import math
import re

BAR_MS = 0.2  # growth that was there before its verdict should follow it within this
MARKS = 50
ALL = re.compile(r"growth followed its verdict at once (\d+) times, in ([\d.]+) ms \(median\), ([\d.]+) \(99 of 100\), ([\d.]+) \(all\)")
OCTAVE = re.compile(r"^  from +([\d.]+) ms +(\d+)", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Answers:
    """Of one text."""

    count: int
    median_ms: float
    p99_ms: float
    max_ms: float
    octaves: dict  # {from so many ms: how many}

    def bounds(self):
        """[(ms, so many at least took no longer)]"""
        of_octaves = zip((2 * least_ms for least_ms in self.octaves), itertools.accumulate(self.octaves.values()))
        return [*of_octaves, (self.median_ms, math.ceil(0.5 * self.count)), (self.p99_ms, math.ceil(0.99 * self.count)),
                (self.max_ms, self.count)]

    def within_at_least(self, ms):
        return max((count for bound_ms, count in self.bounds() if bound_ms <= ms), default=0)

    def within_at_most(self, ms):
        if self.max_ms <= ms:
            return self.count
        return min(sum(count for least_ms, count in self.octaves.items() if least_ms <= ms), self.count - 1)


def answers_of(said):
    """None where no growth was drafted before its verdict."""
    found = ALL.search(said)
    if not found:
        return None
    octaves = {float(least_ms): int(count) for least_ms, count in OCTAVE.findall(said)}
    return Answers(int(found[1]), *map(float, found.groups()[1:]), octaves)


def cells_of(answers):
    """Of a line of a CSV file; Answers of a text, or None."""
    return (answers.count, answers.median_ms, answers.p99_ms) if answers else (0, "", "")


def count_of(texts):
    return sum(text.count for text in texts)


def quantile_ms(texts, share):
    """No more than this, for such a share of the answers of all texts."""
    bounds_ms = sorted(bound_ms for text in texts for bound_ms, _ in text.bounds())
    return next(ms for ms in bounds_ms if sum(text.within_at_least(ms) for text in texts) >= share * count_of(texts))


def share_within(texts, ms):
    least, most = (sum(within(text, ms) for text in texts) / count_of(texts)
                   for within in (Answers.within_at_least, Answers.within_at_most))
    return f"{100 * least:.1f} %" if least == most else f"{100 * least:.1f} to {100 * most:.1f} %"


def print_histogram(way, texts):
    octaves = collections.Counter()
    for text in texts:
        octaves.update(text.octaves)
    count = count_of(texts)
    print(f"{way}: growth followed its verdict at once {count} times, within {BAR_MS} ms in {share_within(texts, BAR_MS)} of them, "
          f"in {max(text.max_ms for text in texts):.3f} ms at the most")
    for least_ms, count_here in sorted(octaves.items()):
        print(f"  from {least_ms:9.3f} ms {count_here:6} {'#' * math.ceil(MARKS * count_here / count)}")
