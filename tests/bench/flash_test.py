#!/usr/bin/env python3
"""bench/flash asks for what its ways and settings are called: held against a program that plans as `outrider` does and runs nothing.

    flash_test.py
"""

import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import types
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

    def test_papers_have_what_they_say_and_nothing_else(self):
        options = self.options("--memory", "512MiB")
        setting, = self.flash.settings_of(options)
        for way, words in (("llmcad-paper", "--policy llmcad --exits none --spec-projection all"),
                           ("edgellm-paper", "--policy edgellm --exits none --spec-projection all"),
                           ("lever-paper", "--policy lever --spec-prune on --spec-projection path --spec-provisional off")):
            self.assertTrue(" ".join(self.flash.command_of(options, setting, way)("Once", 3)).endswith(f"--draft d.gguf {words}"), way)

    def test_ways_are_those_that_can_be_had(self):
        place = self.target.parent
        with mock.patch.object(self.flash, "THEIRS", place / "llama-bench"):
            ways = self.flash.ways_of(self.options("--memory", "1GiB"))
            self.assertEqual(ways[0], "alone")
            self.assertIn("lever", ways)
            self.assertNotIn("lever-paper", ways)
            self.assertNotIn("llama.cpp", ways)
            (place / "target.exits.gguf").touch()
            (place / "llama-bench").touch()
            ways = self.flash.ways_of(self.options("--memory", "1GiB"))
            self.assertIn("lever-paper", ways)
            self.assertEqual(ways[-1], "llama.cpp")
        self.assertEqual(self.flash.ways_of(self.options("--memory", "1GiB", "--ways", "auto")), ["alone", "auto"])

    def test_what_is_read_is_a_share_of_the_cap_and_of_a_reader(self):
        setting, = self.settings("--memory", "512MiB", "--flash-rate", "200MB/s")
        run = types.SimpleNamespace(tokens=8, speed=2.0, tokens_per_pass=1.0, flash_per_token=75e6, flash_per_second=150e6, of_reader=0.8,
                                    waited=0.5, pruned=0, pinned=6, layers=24, peak_bytes=1 << 20)
        sheet = mock.Mock()
        with mock.patch.object(self.flash.Setting, "title", lambda _: "a setting"), mock.patch("builtins.print") as said:
            self.flash.report(setting, {"prose": {"alone": [run]}}, sheet)
        row = next(call.args[0] for call in said.call_args_list if call.args[0].startswith("alone"))
        self.assertIn(" 75 % ", row)
        self.assertIn(" 80 % ", row)
        self.assertEqual(dict(zip(self.flash.COLUMNS, sheet.write.call_args.args[0]))["of_cap"], 0.75)
        self.assertEqual(len(self.flash.COLUMNS), len(sheet.write.call_args.args[0]))

    def test_experts_are_measured_without_a_draft(self):
        with mock.patch.object(sys, "argv", ["flash", "--target", "t.gguf", "--memory", "1GiB", "--experts", "0.5", "--rounds", "2"]):
            options = self.flash.arguments()
        command = self.flash.experts_command(options, "lru")
        self.assertEqual(command[1:3], ["passes", "t.gguf"])
        self.assertEqual(command[4:], ["0.5", "1", "1", "0.3", "lru"])
        setting, = self.settings("--memory", "1GiB", "--flash-rate", "200MB/s")
        runs = {way: [types.SimpleNamespace(speed=speed, flash_per_token=10e6, of_reader=0.25, waited=0.5, peak_bytes=1 << 20)]
                for way, speed in zip(self.flash.EXPERT_WAYS, (10, 8, 5, 2))}
        with mock.patch.object(self.flash.Setting, "within", lambda _: "limits"), mock.patch("builtins.print") as said:
            self.flash.report_experts(setting, 0.5, runs)
        rows = [call.args[0] for call in said.call_args_list]
        self.assertRegex(rows[2], r"^edgemoe, guesses +10.00 +5.00 .* 10.0 +50 % +25 % +50 %")
        self.assertRegex(rows[-1], r"^all of a layer +2.00 +1.00 .* 10 % ")
        for words in (["--memory", "1GiB"], ["--experts", "0.5", "--pinned", "50"]):
            with mock.patch.object(sys, "argv", ["flash", "--target", "t.gguf", *words]), self.assertRaises(SystemExit):
                self.flash.arguments()


if __name__ == "__main__":
    unittest.main()
