"""What the simulator says of a setting, to stand beside what was measured: the part of bench/local and bench/split behind --predict.

Of every text that was written is recorded what its draft would have proposed all along (build/release/bench/record_acceptance).
The simulator runs the real session and verifier on that recording, with the times of passes and batches that the measured
sessions have found out for themselves (their price file): what is predicted is what comes of those, not they.
"""

import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "build/release/bench/record_acceptance"
SIMULATE = ROOT / "build/release/bench/simulate"
MANY_ROWS = 64
SIZED = ("ours", "awaited", "lever")  # choose the size of their passes, which in virtual time is fixed


class Prices:
    """Of a file of prices (client/device/price_file.h): medians of what its sessions found."""

    def __init__(self, path):
        lines = [line.split() for line in path.read_text().splitlines()[1:]]
        self.pass_ms, self.row_ms, self.draft_ms, self.draft_node_ms, self.pass_nodes = (
            statistics.median(float(line[i]) for line in lines) for i in range(1, 6))

    def pass_shape(self):
        return f"1:{self.pass_ms},{MANY_ROWS}:{self.pass_ms + (MANY_ROWS - 1) * self.row_ms}"

    def batch_shape(self):
        return f"1:{self.draft_ms},{MANY_ROWS}:{self.draft_ms + (MANY_ROWS - 1) * self.draft_node_ms}"


def ran(words):
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{words[0]}: {(run.stderr.strip().splitlines() or ['no word of why'])[-1]}")
    return run.stdout


def recorded(setting, prompt, seed, options, path):
    ran([RECORD, "--target", setting.target, "--draft", setting.draft, "--prompt", prompt, "--seed", seed,
         "--tokens", options.tokens, "--temperature", options.temperature, "--out", path])
    return path


def policy_of(way, prices):
    chain = re.fullmatch(r"chain(\d+)", way)
    if chain:
        return ["--policy", "chain", "--gamma", chain[1]]
    return ["--policy", way, *(["--nodes", round(prices.pass_nodes)] if way in SIZED else [])]


def simulated_ms(setting, way, trace, tokens, prices):
    """Per token. A target that stands alone has no draft, recorded or other."""
    shape = setting.pace or prices.pass_shape()
    place = ["--rtt", setting.round_trip_ms] if setting.round_trip_ms else ["--one-processor"]
    alone = ["--draft", "none", "--policy", "ours", "--dry", "alone"]
    draft = alone if way == "alone" else ["--trace", trace, *policy_of(way, prices)]
    said = ran([SIMULATE, "run", "--tokens", tokens, "--target", shape, "--draft-time", prices.batch_shape(), *place, *draft])
    return float(re.search(r"time per token +([\d.]+)", said)[1])


def predicted_task(setting, prompts, written, prices, options, directory):
    """{way: [ratio to the target alone, by round]}"""
    ratios = {way: [] for way in written if way != "server"}
    for turn in range(options.rounds):
        trace = recorded(setting, prompts[turn % len(prompts)], turn, options, pathlib.Path(directory) / "trace")
        tokens = written["alone"][turn].tokens
        alone_ms = prices.pass_ms if not setting.pace else simulated_ms(setting, "alone", trace, tokens, prices)
        for way, found in ratios.items():
            found.append(1.0 if way == "alone" else alone_ms / simulated_ms(setting, way, trace, tokens, prices))
    return ratios


def predicted(setting, tasks, written, options, directory):
    """{task: {way: ratios}}; nothing where a draft is no model, or too little was written to know its prices."""
    path = pathlib.Path(directory) / "prices"
    if setting.draft == "ngram" or not path.exists():
        return {}
    prices = Prices(path)
    return {task: predicted_task(setting, prompts, written[task], prices, options, directory)
            for task, prompts in tasks.items()}
