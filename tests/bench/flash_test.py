#!/usr/bin/env python3
"""bench/flash asks for what its ways and settings are called: held against a program that plans as `outrider` does and runs nothing.

    flash_test.py
"""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
sys.dont_write_bytecode = True  # of a file without an ending

# A program of 100 MiB, a head of 60 that stays first, and 24 layers of 46: what stays of them in so many mebibytes.
PLANNER = """#!/bin/sh
echo "$@" >>{asked}
while [ "$1" != --memory ]; do shift; done
memory=${{2%MiB}}
[ $memory -ge 192 ] || {{ echo "--memory: too small; the least that works is 192MiB (the program 100)" >&2; exit 1; }}
stay=$(( (memory - 192 - 60) / 46 ))
[ $memory -ge 252 ] || stay=0
[ $stay -le 24 ] || stay=24
echo "  its weights 1 MiB  $stay of 24 layers stay, the head, 2 slots for the others"
"""


def bench_flash():
    loader = importlib.machinery.SourceFileLoader("bench_flash", str(ROOT / "bench/flash"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_flash", loader))
    sys.modules["bench_flash"] = module
    loader.exec_module(module)
    return module


class FlashTest(unittest.TestCase):
    def setUp(self):
        self.flash = bench_flash()
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.asked = place / "asked"
        planner = place / "outrider"
        planner.write_text(PLANNER.format(asked=self.asked))
        planner.chmod(0o755)
        self.target = place / "target.gguf"
        with self.target.open("wb") as file:
            file.truncate(1106 << 20)  # holes
        self.enterContext(mock.patch.object(self.flash, "OURS", planner))
        self.enterContext(mock.patch("sys.stderr"))  # its progress

    def options(self, *words):
        with mock.patch.object(sys, "argv", ["flash", "--target", str(self.target), "--draft", "d.gguf", *words]):
            return self.flash.arguments()

    def settings(self, *words):
        return self.flash.settings_of(self.options(*words))

    def test_shares_of_layers_are_memories(self):
        plans = self.flash.Plans(str(self.target), "d.gguf")
        for share, layers in ((0, 0), (25, 6), (50, 12), (75, 18), (100, 24), (4, 1)):
            memory = plans.memory_for(share)
            self.assertEqual(plans.layers_at(memory), layers, share)
            self.assertLess(memory, 252 + 46 * (layers + 1), share)  # what more there is holds no other layer
        self.assertLess(len(self.asked.read_text().splitlines()), 32)  # some seconds each
        with self.assertRaises(SystemExit):
            plans.memory_for(101)

    def test_settings_are_all_of_memory_rate_and_length(self):
        found = self.settings("--pinned", "0,100", "--flash-rate", "300MB/s,none", "--lengths", "32,512")
        self.assertEqual([(setting.share, setting.rate, setting.tokens) for setting in found],
                         [(share, rate, tokens) for share in (0, 100) for rate in (300_000_000, None) for tokens in (32, 512)])
        self.assertLess(found[0].memory_bytes, found[-1].memory_bytes)
        one, = self.settings("--memory", "512MiB", "--tokens", "96")
        self.assertEqual((one.memory_bytes, one.rate, one.tokens, one.share), (512 << 20, None, 96, None))

    def test_memory_is_given_in_one_way(self):
        for words in ((), ("--memory", "512MiB", "--pinned", "50")):
            with self.assertRaises(SystemExit):
                self.options(*words)

    def test_ways_ask_for_what_they_are_called(self):
        options = self.options("--memory", "512MiB", "--lengths", "32,512")
        setting = self.flash.settings_of(options)[1]

        def command(way):
            return " ".join(self.flash.command_of(self.flash.of_length(options, setting.tokens), setting, way)("Once", 3))

        self.assertIn(f"--memory {512 << 20} ", command("alone"))
        self.assertEqual(command("alone").count("--max-tokens 512"), 1)
        self.assertNotIn("--draft", command("alone"))
        for way, words in (("chain4", "--policy chain --spec-gamma 4"), ("auto-resting", "--policy auto --spec-provisional off"),
                           ("edgellm-fixed", "--policy edgellm --spec-alpha 0.01"), ("llmcad-full", "--policy llmcad --spec-alpha 0"),
                           ("lever-pruned", "--policy lever --spec-prune on"), ("lever-unpruned", "--policy lever --spec-prune off"),
                           ("auto-path", "--policy auto --spec-projection path"), ("auto-blind", "--policy auto --exits none")):
            self.assertTrue(command(way).endswith(f"--draft d.gguf {words}"), command(way))
        self.assertIn("llama-bench", command("llama.cpp"))


if __name__ == "__main__":
    unittest.main()
