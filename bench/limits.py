"""Memory, flash and cores as small and slow as a device's: limits that the kernel keeps, for one program at a time.

    with limits.Limits(memory_bytes, rate, path) as held:
        subprocess.run(held.prefix + command)
    held.peak_bytes, held.read_bytes

    with limits.SlowCore(0.5) as core:
        core.add(process)

All are cgroups', made for the program and gone after it: version 1, where a controller is mounted by itself, or version 2, of
whichever keeps such a limit here (a machine may have memory in one and block I/O in the other). That is tried out before
anything is measured, and what is read and what is taken at most are the kernel's own counts. Making them takes root.

Where no version holds reads of the file to their rate (there is no block-I/O controller, it knows no such device, or what
is read comes faster all the same), the program's own reads are slowed down by a library that it is started with
(emulators/slow_flash.cc): that holds reads by pread(), so io_uring is refused, and what comes by page faults is not slowed at
all. `how_memory` and `how_rate` name what was taken, and why no better; a machine on which memory cannot be limited is no place
to measure on.
"""

import functools
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOW_FLASH = ROOT / "build/release/bench/libslow_flash.so"
MOUNTS = pathlib.Path("/proc/self/mounts")
DROP_SECONDS_MAX = 5
# What is read to see whether a rate is held: for so long, if it is. What comes in less than half of that is not held.
TRIAL_SECONDS = 0.5
# A core that is slower runs and stands still by turns that are short beside what a device waits for.
CORE_PERIOD_US = 10000
MEBIBYTE = 1 << 20


class Unavailable(Exception):
    """Why a version keeps no such limit here: a clause."""


def parse_bytes(text):
    """'512MiB', '300MB': a number of bytes."""
    units = {"KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "B": 1}
    for unit in sorted(units, key=len, reverse=True):
        if text.upper().endswith(unit):
            return int(float(text[:-len(unit)]) * units[unit])
    return int(text)


def parse_rate(text):
    """'300MB/s': bytes a second."""
    if not text.lower().endswith("/s"):
        sys.exit(f"{text} is no rate; say it as in 300MB/s")
    return parse_bytes(text[:-2])


def device_of(path):
    """The whole disk that the file is on, as cgroups name it: major:minor. A partition is no device to them."""
    number = os.stat(path).st_dev
    entry = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    if (entry / "partition").exists():
        return (entry.parent / "dev").read_text().strip()
    return f"{os.major(number)}:{os.minor(number)}"


def forget(path):
    """Nothing of the file is in the page cache, so that its reads are the device's."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def trees():
    """{controller of version 1, or "cgroup2": where it is mounted}"""
    found = {}
    for line in MOUNTS.read_text().splitlines():
        _, place, kind, options = line.split()[:4]
        for name in options.split(",") if kind == "cgroup" else [kind] if kind == "cgroup2" else []:
            found.setdefault(name, pathlib.Path(place))
    return found


def put(file, text):
    """Writes it where the kernel listens."""
    try:
        file.write_text(text)
    except OSError as error:
        raise Unavailable(f"{file} does not take '{text}' ({error.strerror})") from None


class Version1:
    """A group in a controller's own tree."""

    name = "cgroup version 1"
    TREES = {"memory": "memory", "io": "blkio", "cpu": "cpu"}

    def __init__(self, controller, leaf):
        tree = trees().get(self.TREES[controller])
        if tree is None:
            raise Unavailable(f"no {self.TREES[controller]} controller of version 1 is mounted")
        self.path = tree / leaf

    def make(self):
        self.path.mkdir(exist_ok=True)

    def limit_memory(self, count):
        put(self.path / "memory.limit_in_bytes", str(count))
        # No swap beyond it either, where the kernel counts that.
        together = self.path / "memory.memsw.limit_in_bytes"
        if together.exists():
            put(together, str(count))

    def limit_core(self, share):
        put(self.path / "cpu.cfs_period_us", str(CORE_PERIOD_US))
        put(self.path / "cpu.cfs_quota_us", str(int(share * CORE_PERIOD_US)))

    def limit_rate(self, device, rate):
        put(self.path / "blkio.throttle.read_bps_device", f"{device} {rate}")

    def peak_bytes(self):
        return int((self.path / "memory.max_usage_in_bytes").read_text())

    def read_bytes(self, device):
        counts = self.path / "blkio.throttle.io_service_bytes"
        if not counts.exists():
            return None
        lines = [line.split() for line in counts.read_text().splitlines()]
        return sum(int(words[2]) for words in lines if words[:2] == [device, "Read"])


class Version2:
    """A group in the one tree, in which controllers are switched on for the children of a group."""

    name = "cgroup version 2"

    def __init__(self, controller, leaf):
        self.tree = trees().get("cgroup2")
        if self.tree is None:
            raise Unavailable("version 2 is not mounted")
        if controller not in (self.tree / "cgroup.controllers").read_text().split():
            raise Unavailable(f"version 2 has no {controller} controller")
        self.controller, self.path = controller, self.tree / leaf

    def make(self):
        switched_on = self.tree / "cgroup.subtree_control"
        if self.controller not in switched_on.read_text().split():
            put(switched_on, f"+{self.controller}")
        self.path.mkdir(exist_ok=True)

    def limit_memory(self, count):
        put(self.path / "memory.max", str(count))
        swap = self.path / "memory.swap.max"
        if swap.exists():
            put(swap, "0")

    def limit_core(self, share):
        put(self.path / "cpu.max", f"{int(share * CORE_PERIOD_US)} {CORE_PERIOD_US}")

    def limit_rate(self, device, rate):
        put(self.path / "io.max", f"{device} rbps={rate}")

    def peak_bytes(self):
        peak = self.path / "memory.peak"  # of Linux 5.19 and later
        return int(peak.read_text()) if peak.exists() else None

    def read_bytes(self, device):
        counts = self.path / "io.stat"
        if not counts.exists():
            return None
        lines = [line.split() for line in counts.read_text().splitlines()]
        return sum(int(word[7:]) for words in lines if words[:1] == [device] for word in words if word.startswith("rbytes="))


def first_that(controller, keeps):
    """(the version of a group of this controller that `keeps` what it is asked to, None), or (None, why none does)"""
    reasons = []
    for version in (Version1, Version2):
        try:
            group = version(controller, f"outrider-bench-{os.getpid()}-try")
            group.make()
            try:
                keeps(group)
            finally:
                remove(group.path)
            return version, None
        except Unavailable as why:
            reasons.append(str(why))
        except OSError as error:
            reasons.append(f"{error.filename} cannot be made or used ({error.strerror})")
    return None, ", and ".join(reasons)


@functools.cache
def memory_version():
    return first_that("memory", lambda group: group.limit_memory(1 << 30))


@functools.cache
def counting_version():
    return first_that("io", lambda group: None)


@functools.cache
def rate_version(rate, path):
    def holds(group):
        group.limit_rate(device_of(path), rate)
        count = max(1, min(int(rate * TRIAL_SECONDS), os.path.getsize(path)) // MEBIBYTE)
        seconds = seconds_to_read(group, path, count)
        if seconds < count * MEBIBYTE / rate / 2:
            raise Unavailable(f"{group.name} lets {count * MEBIBYTE / seconds / 1e6:.0f} MB/s through")

    return first_that("io", holds)


def seconds_to_read(group, path, count):
    """So many mebibytes from the device, by a program in the group."""
    command = f'echo $$ >{group.path}/cgroup.procs && exec dd if="$1" of=/dev/null bs=1M count={count} iflag=direct'
    begin = time.monotonic()
    read = subprocess.run(["sh", "-c", command, "sh", str(path)], capture_output=True, text=True)
    if read.returncode != 0:
        raise Unavailable(f"{group.name} cannot be tried ({read.stderr.strip().splitlines()[-1]})")
    return time.monotonic() - begin


class Limits:
    """Of one run; `rate` may be None."""

    def __init__(self, memory_bytes, rate, path):
        self.memory_bytes, self.rate, self.device = memory_bytes, rate, device_of(path)
        memory, why = memory_version()
        if memory is None:
            sys.exit(f"what a program takes of memory cannot be limited here: {why}")
        keeper, self.why_slow = (None, None) if rate is None else rate_version(rate, str(path))
        self.slows_itself = rate is not None and keeper is None
        if self.slows_itself and not SLOW_FLASH.exists():
            sys.exit(f"what comes from flash cannot be slowed down here: {self.why_slow}, and {SLOW_FLASH}, which would slow the program's "
                     "own reads, is not built")
        counting = keeper or counting_version()[0]
        leaf = f"outrider-bench-{os.getpid()}"
        self.memory = memory("memory", leaf)
        self.io = counting("io", leaf) if counting else None
        self.peak_bytes = self.read_bytes = None

    @property
    def how_memory(self):
        return f"the memory limit of {self.memory.name}"

    @property
    def how_rate(self):
        if self.rate is None:
            return "no cap on flash"
        if self.slows_itself:
            return (f"{self.rate / 1e6:.0f} MB/s by a throttled reader (slow_flash: pread is slowed, page faults are not), since "
                    f"{self.why_slow}")
        return f"{self.rate / 1e6:.0f} MB/s by the block-I/O controller of {self.io.name}"

    def __enter__(self):
        try:
            for group in self.groups():
                group.make()
            self.memory.limit_memory(self.memory_bytes)
            if self.rate is not None and not self.slows_itself:
                self.io.limit_rate(self.device, self.rate)
        except (OSError, Unavailable) as why:
            self.drop()
            sys.exit(f"the limits cannot be kept any more: {why}")
        return self

    def groups(self):
        return [self.memory, self.io] if self.io else [self.memory]

    def paths(self):
        """Of both, which are one in version 2."""
        return list(dict.fromkeys(group.path for group in self.groups()))

    @property
    def prefix(self):
        """What a command begins with, to run within the limits."""
        join = "".join(f"echo $$ >{path}/cgroup.procs && " for path in self.paths())
        if self.slows_itself:
            join += f"export LD_PRELOAD={SLOW_FLASH} SLOW_FLASH_BYTES_PER_SECOND={self.rate} && "
        return ["sh", "-c", f'{join}exec "$@"', "sh"]

    def __exit__(self, *_):
        self.peak_bytes = self.memory.peak_bytes()
        self.read_bytes = self.io.read_bytes(self.device) if self.io else None
        self.drop()

    def drop(self):
        for path in self.paths():
            if path.exists():
                remove(path)


class SlowCore:
    """So much of a core, for the processes that are added."""

    def __init__(self, share):
        version, why = first_that("cpu", lambda group: group.limit_core(share))
        if version is None:
            sys.exit(f"a core cannot be slowed down here: {why}")
        self.share, self.group = share, version("cpu", f"outrider-bench-{os.getpid()}")

    def __enter__(self):
        self.group.make()
        self.group.limit_core(self.share)
        return self

    def add(self, process):
        put(self.group.path / "cgroup.procs", str(process))

    def __exit__(self, *_):
        remove(self.group.path)


def remove(group):
    """Its last program has ended, which the kernel may learn a moment later."""
    deadline = time.monotonic() + DROP_SECONDS_MAX
    while True:
        try:
            return group.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
