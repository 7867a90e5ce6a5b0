"""Memory and flash as small and slow as a device's: limits that the kernel keeps, for one program at a time.

    with limits.Limits(memory_bytes, rate, path) as held:
        subprocess.run(held.prefix + command)
    held.peak_bytes, held.read_bytes

Both are cgroups' (version 1, each controller mounted by itself, or 2), made for the program and gone after it; what is
read and what is taken at most are the kernel's own counts. Where there is no block-I/O cgroup, or it does not hold a read to
its rate, the program's own reads are slowed down by a library that it is started with (bench/emulators/slow_flash.cc): that
holds reads by pread(), so io_uring is refused, and what comes by page faults is not slowed at all. `how_memory` and `how_rate`
name what was taken; a machine on which memory cannot be limited is no place to measure on.
"""

import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLOW_FLASH = ROOT / "build/release/bench/libslow_flash.so"
CGROUPS = pathlib.Path("/sys/fs/cgroup")
DROP_SECONDS_MAX = 5


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


class Version1:
    """Each controller in a tree of its own."""

    name = "cgroup version 1"

    def __init__(self, leaf):
        self.memory, self.blkio = CGROUPS / "memory" / leaf, CGROUPS / "blkio" / leaf

    @staticmethod
    def offers(controller):
        return (CGROUPS / {"memory": "memory", "io": "blkio"}[controller] / "cgroup.procs").exists()

    def groups(self, with_rate):
        return [self.memory, self.blkio] if with_rate or self.offers("io") else [self.memory]

    def limit_memory(self, count):
        (self.memory / "memory.limit_in_bytes").write_text(str(count))
        # No swap beyond it either, where the kernel counts that.
        together = self.memory / "memory.memsw.limit_in_bytes"
        if together.exists():
            together.write_text(str(count))

    def limit_rate(self, device, rate):
        (self.blkio / "blkio.throttle.read_bps_device").write_text(f"{device} {rate}")

    def peak_bytes(self):
        return int((self.memory / "memory.max_usage_in_bytes").read_text())

    def read_bytes(self, device):
        counts = self.blkio / "blkio.throttle.io_service_bytes"
        if not counts.exists():
            return None
        lines = [line.split() for line in counts.read_text().splitlines()]
        return sum(int(words[2]) for words in lines if words[:2] == [device, "Read"])


class Version2:
    """One tree, in which controllers are switched on for the children of a group."""

    name = "cgroup version 2"

    def __init__(self, leaf):
        self.group = CGROUPS / leaf
        for controller in ("memory", "io"):
            if self.offers(controller):
                (CGROUPS / "cgroup.subtree_control").write_text(f"+{controller}")

    @staticmethod
    def offers(controller):
        controllers = CGROUPS / "cgroup.controllers"
        return controllers.exists() and controller in controllers.read_text().split()

    def groups(self, with_rate):
        return [self.group]

    def limit_memory(self, count):
        (self.group / "memory.max").write_text(str(count))
        (self.group / "memory.swap.max").write_text("0")

    def limit_rate(self, device, rate):
        (self.group / "io.max").write_text(f"{device} rbps={rate}")

    def peak_bytes(self):
        peak = self.group / "memory.peak"  # of Linux 5.19 and later
        return int(peak.read_text()) if peak.exists() else None

    def read_bytes(self, device):
        counts = self.group / "io.stat"
        if not counts.exists():
            return None
        lines = [line.split() for line in counts.read_text().splitlines()]
        return sum(int(word[7:]) for words in lines if words[0] == device for word in words if word.startswith("rbytes="))


def version():
    """The one that limits memory here."""
    for made in (Version1, Version2):
        if made.offers("memory"):
            return made
    sys.exit("no memory cgroup is to be had here, neither version 1 nor 2: what a program takes of memory cannot be limited")


class Limits:
    """Of one run; `rate` may be None."""

    def __init__(self, memory_bytes, rate, path):
        self.kind = version()
        self.memory_bytes, self.rate, self.device = memory_bytes, rate, device_of(path)
        self.slows_itself = rate is not None and not self.kind.offers("io")
        self.cgroup = self.kind(f"outrider-bench-{os.getpid()}")
        self.peak_bytes = self.read_bytes = None

    @property
    def how_memory(self):
        return f"the memory limit of {self.kind.name}"

    @property
    def how_rate(self):
        if self.rate is None:
            return "no cap on flash"
        if self.slows_itself:
            return f"{self.rate / 1e6:.0f} MB/s by a throttled reader (slow_flash, pread; there is no block-I/O cgroup here)"
        return f"{self.rate / 1e6:.0f} MB/s by the block-I/O controller of {self.kind.name}"

    def __enter__(self):
        for group in self.cgroup.groups(self.rate is not None):
            group.mkdir()
        self.cgroup.limit_memory(self.memory_bytes)
        if self.rate is not None and not self.slows_itself:
            self.cgroup.limit_rate(self.device, self.rate)
        return self

    @property
    def prefix(self):
        """What a command begins with, to run within the limits."""
        join = "".join(f"echo $$ >{group}/cgroup.procs && " for group in self.cgroup.groups(self.rate is not None))
        if self.slows_itself:
            if not SLOW_FLASH.exists():
                sys.exit(f"{SLOW_FLASH} is not there; build the release preset first")
            join += f"export LD_PRELOAD={SLOW_FLASH} SLOW_FLASH_BYTES_PER_SECOND={self.rate} && "
        return ["sh", "-c", f'{join}exec "$@"', "sh"]

    def __exit__(self, *_):
        self.peak_bytes = self.cgroup.peak_bytes()
        self.read_bytes = self.cgroup.read_bytes(self.device)
        for group in self.cgroup.groups(self.rate is not None):
            remove(group)


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
