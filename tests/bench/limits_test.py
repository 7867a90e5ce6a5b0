#!/usr/bin/env python3
"""Limits of memory and flash are kept by whatever a machine has to keep them, and say by what: held against trees of files that look
like those of a kernel, of cgroup version 1, of version 2 and of both.

    limits_test.py
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
import limits  # noqa: E402

RATE = 300_000_000


class LimitsTest(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.model = self.place / "model.gguf"
        self.model.write_bytes(bytes(4 << 20))
        self.slow_flash = self.place / "libslow_flash.so"
        self.slow_flash.touch()
        self.mounts = self.place / "mounts"
        self.mounts.write_text("tmpfs /sys/fs/cgroup tmpfs rw,mode=755 0 0\n")
        self.trial_seconds = 10.0  # for what would take 14 ms: it is held
        self.tried = []
        for name, stand_in in (("MOUNTS", self.mounts), ("SLOW_FLASH", self.slow_flash), ("device_of", lambda path: "254:0"),
                               ("seconds_to_read", self.read), ("remove", self.remove)):
            self.enterContext(mock.patch.object(limits, name, stand_in))
        for cached in (limits.memory_version, limits.counting_version, limits.rate_version):
            cached.cache_clear()

    def read(self, group, path, count):
        self.tried.append((group.path.name, pathlib.Path(path).name, count))
        return self.trial_seconds

    def remove(self, path):
        shutil.rmtree(path)

    def mount_version1(self, *controllers):
        for controller in controllers:
            tree = self.place / controller
            tree.mkdir()
            self.mount(f"cgroup {tree} cgroup rw,relatime,{controller} 0 0")

    def mount_version2(self, controllers, switched_on=""):
        tree = self.place / "unified"
        tree.mkdir()
        (tree / "cgroup.controllers").write_text(f"cpuset {controllers}\n")
        (tree / "cgroup.subtree_control").write_text(switched_on)
        self.mount(f"cgroup2 {tree} cgroup2 rw,relatime 0 0")
        return tree

    def mount(self, line):
        with self.mounts.open("a") as mounts:
            mounts.write(line + "\n")

    def limits(self, rate=RATE):
        return limits.Limits(512 << 20, rate, self.model)

    def refused(self, rate=RATE):
        with self.assertRaises(SystemExit) as refused:
            self.limits(rate)
        return str(refused.exception)

    def test_version_1(self):
        self.mount_version1("memory", "blkio")
        held = self.limits()
        self.assertEqual(held.how_memory, "the memory limit of cgroup version 1")
        self.assertEqual(held.how_rate, "300 MB/s by the block-I/O controller of cgroup version 1")
        # Half a second of that rate is more than the file has: it is read once.
        self.assertEqual([tried[1:] for tried in self.tried], [("model.gguf", 4)])
        with held:
            memory, blkio = held.paths()
            self.assertEqual((memory / "memory.limit_in_bytes").read_text(), str(512 << 20))
            self.assertEqual((blkio / "blkio.throttle.read_bps_device").read_text(), f"254:0 {RATE}")
            subprocess.run(held.prefix + ["true"], check=True)
            self.assertTrue((memory / "cgroup.procs").read_text().strip().isdigit())
            self.assertEqual((memory / "cgroup.procs").read_text(), (blkio / "cgroup.procs").read_text())
            (memory / "memory.max_usage_in_bytes").write_text("123\n")
            (blkio / "blkio.throttle.io_service_bytes").write_text("254:0 Read 40\n254:0 Write 7\n8:0 Read 5\nTotal 52\n")
        self.assertEqual((held.peak_bytes, held.read_bytes), (123, 40))
        self.assertFalse(memory.exists() or blkio.exists())

    def test_version_1_counts_swap_where_the_kernel_does(self):
        self.mount_version1("memory")
        held = self.limits(rate=None)
        memory, = held.paths()
        memory.mkdir()
        (memory / "memory.memsw.limit_in_bytes").touch()
        with held:
            self.assertEqual((memory / "memory.memsw.limit_in_bytes").read_text(), str(512 << 20))
            (memory / "memory.max_usage_in_bytes").write_text("1")
        self.assertIsNone(held.read_bytes)

    def test_version_2(self):
        tree = self.mount_version2("memory io", switched_on="memory")
        held = self.limits()
        self.assertEqual(held.how_memory, "the memory limit of cgroup version 2")
        self.assertEqual(held.how_rate, "300 MB/s by the block-I/O controller of cgroup version 2")
        self.assertEqual((tree / "cgroup.subtree_control").read_text(), "+io")  # the kernel adds it to the others
        group, = held.paths()
        group.mkdir()
        (group / "memory.swap.max").write_text("max")
        with held:
            self.assertEqual((group / "memory.max").read_text(), str(512 << 20))
            self.assertEqual((group / "memory.swap.max").read_text(), "0")
            self.assertEqual((group / "io.max").read_text(), f"254:0 rbps={RATE}")
            self.assertEqual(held.prefix[2].count("cgroup.procs"), 1)
            (group / "memory.peak").write_text("456\n")
            (group / "io.stat").write_text("8:0 rbytes=5 wbytes=1\n254:0 rbytes=40 wbytes=7 rios=1\n")
        self.assertEqual((held.peak_bytes, held.read_bytes), (456, 40))
        self.assertFalse(group.exists())

    def test_a_slow_core_of_version_1(self):
        self.mount_version1("cpu")
        with limits.SlowCore(0.25) as core:
            core.add(4711)
            path = core.group.path
            self.assertEqual((path / "cpu.cfs_period_us").read_text(), "10000")
            self.assertEqual((path / "cpu.cfs_quota_us").read_text(), "2500")
            self.assertEqual((path / "cgroup.procs").read_text(), "4711")
        self.assertFalse(path.exists())

    def test_a_slow_core_of_version_2(self):
        tree = self.mount_version2("cpu")
        with limits.SlowCore(0.5) as core:
            self.assertEqual((core.group.path / "cpu.max").read_text(), "5000 10000")
            self.assertEqual((tree / "cgroup.subtree_control").read_text(), "+cpu")

    def test_where_no_core_can_be_slowed_it_says_why(self):
        with self.assertRaises(SystemExit) as refused:
            limits.SlowCore(0.5)
        self.assertIn("no cpu controller of version 1 is mounted, and version 2 is not mounted", str(refused.exception))

    def test_kernels_that_keep_no_peak_say_none(self):
        self.mount_version2("memory")
        with self.limits(rate=None) as held:
            pass
        self.assertIsNone(held.peak_bytes)

    def test_one_controller_in_each_version(self):
        self.mount_version1("memory")
        self.mount_version2("io")
        held = self.limits()
        self.assertEqual(held.how_memory, "the memory limit of cgroup version 1")
        self.assertEqual(held.how_rate, "300 MB/s by the block-I/O controller of cgroup version 2")
        self.assertEqual(len(held.paths()), 2)

    def test_memory_that_nobody_limits_is_a_sentence(self):
        self.mount_version1("blkio")
        self.assertEqual(self.refused(rate=None), "what a program takes of memory cannot be limited here: no memory controller of "
                         "version 1 is mounted, and version 2 is not mounted")

    def test_a_tree_that_nothing_can_be_made_in_is_a_sentence(self):
        tree = self.mount_version2("memory")
        shutil.rmtree(tree)
        tree.touch()
        said = self.refused(rate=None)
        self.assertIn("no memory controller of version 1 is mounted, and ", said)
        self.assertIn("cgroup.controllers cannot be made or used (Not a directory)", said)

    def test_without_block_io_reads_are_slowed_down_and_it_is_said(self):
        self.mount_version1("memory")
        held = self.limits()
        self.assertEqual(held.how_rate, "300 MB/s by a throttled reader (slow_flash: pread is slowed, page faults are not), since no "
                         "blkio controller of version 1 is mounted, and version 2 is not mounted")
        self.assertIn(f"LD_PRELOAD={self.slow_flash} SLOW_FLASH_BYTES_PER_SECOND={RATE}", held.prefix[2])
        self.assertEqual(self.limits(rate=None).how_rate, "no cap on flash")
        self.assertNotIn("LD_PRELOAD", self.limits(rate=None).prefix[2])

    def test_where_neither_is_there_it_is_a_sentence(self):
        self.mount_version1("memory")
        self.slow_flash.unlink()
        said = self.refused()
        self.assertTrue(said.startswith("what comes from flash cannot be slowed down here: no blkio controller"), said)
        self.assertIn(f"{self.slow_flash}, which would slow the program's own reads, is not built", said)
        self.assertNotIn("\n", said)

    def test_a_controller_that_does_not_hold_the_rate_is_not_taken(self):
        self.mount_version1("memory", "blkio")
        self.trial_seconds = 0.002
        held = self.limits()
        self.assertTrue(held.slows_itself)
        self.assertIn("cgroup version 1 lets 2097 MB/s through, and version 2 is not mounted", held.how_rate)
        with held:  # what is read is counted all the same
            memory, blkio = held.paths()
            self.assertFalse((blkio / "blkio.throttle.read_bps_device").exists())
            (memory / "memory.max_usage_in_bytes").write_text("1")
            (blkio / "blkio.throttle.io_service_bytes").write_text("254:0 Read 40\n")
        self.assertEqual(held.read_bytes, 40)

    def test_a_device_that_the_controller_does_not_know_is_said(self):
        self.mount_version1("memory")
        self.mount_version2("io")
        with mock.patch.object(pathlib.Path, "write_text", refusing("io.max", pathlib.Path.write_text)):
            held = self.limits()
        self.assertTrue(held.slows_itself)
        self.assertIn("io.max does not take '254:0 rbps=300000000' (No such device)", held.how_rate)

    def test_what_is_tried_once_is_not_tried_for_every_run(self):
        self.mount_version1("memory", "blkio")
        for _ in range(3):
            self.limits()
        self.assertEqual(len(self.tried), 1)
        self.assertTrue(self.tried[0][0].endswith("-try"))


def refusing(name, write):
    def refuse(path, text, *more, **options):
        if path.name == name:
            raise OSError(19, "No such device")
        return write(path, text, *more, **options)

    return refuse


class WordsTest(unittest.TestCase):
    def test_sizes_and_rates(self):
        self.assertEqual(limits.parse_bytes("512MiB"), 512 << 20)
        self.assertEqual(limits.parse_bytes("1.5GB"), 1_500_000_000)
        self.assertEqual(limits.parse_bytes("77"), 77)
        self.assertEqual(limits.parse_rate("300MB/s"), RATE)
        with self.assertRaises(SystemExit):
            limits.parse_rate("300MB")


if __name__ == "__main__":
    unittest.main()
