"""When a core stood still for reasons of its own.

    with stalls.Watch((0, 1)) as watch:
        ...
        if watch.stalled(begin, end): ...      # time.monotonic()

A machine that others share stops for tens of milliseconds now and then, on some every second or two: what runs there takes ten times as
long, and the kernel, which is not told, counts that as the time of whoever runs. So a 99th percentile says what the machine does. On every
core a process does a bit of work that is always the same and takes its own processor time: others who want the core do not make that longer,
and a core that stands still does.
"""

import bisect
import collections
import multiprocessing
import os
import queue
import statistics
import time

WORK = 4000
EVERY = 0.004
SLOW = 2.5  # times the median; who shares a cache makes it half as long again


def work():
    begin = time.thread_time_ns()
    for _ in range(WORK):
        pass
    return time.thread_time_ns() - begin


def watch_core(core, stalls):
    os.sched_setaffinity(0, {core})
    lately, times, was_slow = collections.deque((work() for _ in range(100)), 400), collections.deque([time.monotonic()], 3), False
    while True:
        usual = statistics.median(lately)
        for _ in range(100):
            time.sleep(EVERY)
            took = work()
            times.append(time.monotonic())
            is_slow = took > SLOW * usual
            if is_slow and was_slow:  # once is a cold cache
                stalls.put((times[0], times[-1] + EVERY))
            was_slow = is_slow
            lately.append(took)


class Watch:
    def __init__(self, cores):
        self.queue, self.begins, self.ends = multiprocessing.Queue(), [], []
        self.processes = [multiprocessing.Process(target=watch_core, args=(core, self.queue), daemon=True) for core in cores]

    def __enter__(self):
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.join()

    def hear(self):
        """Takes what has been found until now; seconds that nobody wants to know of any more are forgotten."""
        found = list(zip(self.begins, self.ends))
        try:
            while True:
                found.append(self.queue.get(timeout=0.01))
        except queue.Empty:
            pass
        self.begins, self.ends = [], []
        for begin, end in sorted(found)[-10000:]:
            if self.ends and begin <= self.ends[-1]:
                self.ends[-1] = max(end, self.ends[-1])
            else:
                self.begins.append(begin)
                self.ends.append(end)

    def stalled(self, begin, end):
        """Whether a core stood still in that time, of what has been heard."""
        after = bisect.bisect_right(self.begins, end)
        return after > 0 and self.ends[after - 1] >= begin
