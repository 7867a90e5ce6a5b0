#!/usr/bin/env python3
"""bench/cuda_check/registers reads what cuobjdump says and counts what fits: held against a listing as that prints it, and against counts
made by hand, after the rules of NVIDIA's occupancy calculator.

    registers_test.py
"""

import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "bench/cuda_check/registers"
sys.dont_write_bytecode = True  # of a file without an ending

LISTING = """
Fatbin elf code:
================
arch = sm_{architecture}
code version = [1,8]
host = linux
compile_size = 64bit

Resource usage:
 Common:
  GLOBAL:0
 Function _ZN8outrider3gpu41_GLOBAL__N__186bf5e4_9_launch_cu_8dddfa437RunBodyINS0_14FewRowsProductINS0_9Q4_KBlockEEEEEvT_:
  REG:{registers} STACK:{stack} SHARED:{shared} LOCAL:0 CONSTANT[0]:648 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN8outrider3gpu41_GLOBAL__N__186bf5e4_9_launch_cu_8dddfa437RunBodyINS0_8GateRowsEEEvT_:
  REG:17 STACK:0 SHARED:{shared} LOCAL:0 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
 Function _ZN5other6KernelEv:
  REG:255 STACK:8 SHARED:{shared} LOCAL:0 CONSTANT[0]:552 TEXTURE:0 SURFACE:0 SAMPLER:0
"""
SHAPES = """Q4_K, few rows\tN8outrider3gpu14FewRowsProductINS0_9Q4_KBlockEEE\t256\t10240
gate\tN8outrider3gpu8GateRowsE\t256\t0
"""


def registers():
    loader = importlib.machinery.SourceFileLoader("bench_registers", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_registers", loader))
    loader.exec_module(module)
    return module


class RegistersTest(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def program(self, name, text):
        """A program that prints `text`, whatever it is asked."""
        (self.place / f"{name}.txt").write_text(text)
        path = self.place / name
        path.write_text(f"#!/bin/sh\ncat {self.place / name}.txt\n")
        path.chmod(0o755)
        return path

    def run_script(self, listing, shapes=SHAPES, *options):
        return subprocess.run([SCRIPT, self.program("check", shapes), "--cuobjdump", self.program("cuobjdump", listing), *options],
                              capture_output=True, text=True)

    # By hand: architecture, threads, registers, shared bytes, blocks. 33 registers are 40 for a warp, of which a part of 16384 has 12.
    def test_blocks_are_those_that_fit(self):
        module = registers()
        for architecture, threads, count, shared, expected in (
                (80, 256, 32, 0, 8), (80, 256, 33, 0, 6), (80, 256, 64, 0, 4), (80, 256, 255, 0, 1), (80, 32, 16, 0, 32),
                (80, 128, 32, 49152, 3), (90, 1024, 32, 0, 2), (90, 256, 32, 65536, 3), (90, 64, 40, 1024, 24),
                (87, 64, 32, 0, 16), (120, 256, 32, 0, 6), (120, 128, 32, 49152, 2)):
            with self.subTest(architecture=architecture, threads=threads, registers=count, shared=shared):
                self.assertEqual(module.blocks(module.LIMITS[architecture], threads, count, shared), expected)

    def test_a_table_has_every_architecture(self):
        listing = (LISTING.format(architecture=80, registers=64, stack=0, shared=0) +
                   LISTING.format(architecture=90, registers=72, stack=0, shared=1024))
        run = self.run_script(listing)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| Q4_K, few rows | 256 | 10,240 | 64 / 72 | 0 | 50 / 38 % |", run.stdout)
        self.assertIn("| gate | 256 | 0 | 17 / 17 | 0 | 100 / 100 % |", run.stdout)
        run = self.run_script(listing, SHAPES, "--architectures", "90")
        self.assertIn("| gate | 256 | 0 | 17 | 0 | 100 % |", run.stdout)

    def test_what_spills_is_told(self):
        run = self.run_script(LISTING.format(architecture=90, registers=72, stack=136, shared=1024))
        self.assertEqual(run.returncode, 1)
        self.assertEqual(run.stderr, "Q4_K, few rows: 136 bytes of a thread are no registers\n")

    def test_a_few_bytes_may_spill(self):
        run = self.run_script(LISTING.format(architecture=90, registers=72, stack=128, shared=1024))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("| Q4_K, few rows | 256 | 10,240 | 72 | 128 |", run.stdout)

    def test_what_is_not_there_is_told(self):
        listing = LISTING.format(architecture=90, registers=72, stack=0, shared=1024)
        for run, why in ((self.run_script(listing, SHAPES + "norm\tN8outrider3gpu8NormRowsE\t256\t0\n"),
                          "outrider::gpu::NormRows is not among the kernels for 90"),
                         (self.run_script(listing, SHAPES, "--architectures", "80"), "has no kernels for 80"),
                         (self.run_script(listing.replace("sm_90", "sm_75")), "holds is not in the list here"),
                         (subprocess.run([SCRIPT, "check", "--cuobjdump", self.place / "nothing"], capture_output=True, text=True,
                                         env=os.environ), "nothing is not there")):
            self.assertEqual(run.returncode, 2)
            self.assertIn(why, run.stderr)


if __name__ == "__main__":
    unittest.main()
