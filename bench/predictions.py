"""What the simulator says of a setting, to stand beside what was measured: the part of bench/local and bench/split behind --predict.

Of every text that was written is recorded what its draft would have proposed all along (build/release/bench/record_acceptance).
The simulator runs the real session and verifier on that recording, with the times of passes by rows as build/release/bench/pass_speed
has them between the texts, and those of batches that the measured sessions have found out for themselves (their price
file): what is predicted is what comes of those, not they. Chains keep no prices. In one process the first batch of a chain finds
the draft's weights gone from the cache, since a pass has read the target's, and the others may not: they are charged with as much
less as one pass of the draft takes after another.
"""

import functools
import os
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "build/release/bench/record_acceptance"
SIMULATE = ROOT / "build/release/bench/simulate"
PASSES = ROOT / "build/release/bench/pass_speed"
ROWS = (1, 2, 3, 5, 7, 9, 13, 17, 33)
CONTEXT = 64
MANY_ROWS = 64
UNPREDICTED = ("-blind", "-wait", "-alone", "-cold")  # of a way's name


class Prices:
    """What batches of the draft take: medians of what sessions found, each of which saw few of them."""

    def __init__(self, found):
        self.draft_ms, self.draft_node_ms = map(statistics.median, zip(*found))

    def batch_shape(self, of_first=1.0):
        """`of_first`: of what they found."""
        first = of_first * self.draft_ms
        return f"1:{first},{MANY_ROWS}:{first + (MANY_ROWS - 1) * self.draft_node_ms}"


def batches_of(path):
    """[(ms of a batch of one node, ms of each more)] in a file of prices (client/device/price_file.h)."""
    lines = [line.split() for line in path.read_text().splitlines()[1:]] if path.exists() else []
    return [(float(line[3]), float(line[4])) for line in lines if line[0] != "accepted"]


class Passes:
    """Of a model, one at a time, on so many threads."""

    def __init__(self, model, threads):
        cores = set(list(os.sched_getaffinity(0))[:threads])
        self.process = subprocess.Popen([str(PASSES), model, str(threads), str(CONTEXT)], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.process.stdout.readline()

    def milliseconds(self, rows):
        self.process.stdin.write(f"verify {rows}\n")
        self.process.stdin.flush()
        return 1e3 * float(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


class PassesBeside:
    """Of a setting's target, timed after each text: a machine that others use too is not for long the same."""

    def __init__(self, setting, options):
        is_asked = options.predict and setting.draft != "ngram" and not setting.pace
        self.passes = Passes(setting.target, threads_of(setting, options)) if is_asked else None
        self.shapes = {}

    def watch(self, prompt, seed):
        if not self.passes:
            return
        turns = [[self.passes.milliseconds(rows) for rows in ROWS] for _ in range(5)]
        self.shapes[prompt, seed] = ",".join(f"{rows}:{statistics.median(times):.3f}" for rows, times in zip(ROWS, zip(*turns)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.passes:
            self.passes.__exit__()


@functools.cache
def of_a_cold_batch(target, draft, threads):
    """What a batch takes that follows another, of one that follows a pass of the target."""
    with Passes(target, threads) as passes, Passes(draft, threads) as batches:
        turns = [(passes.milliseconds(1), batches.milliseconds(1), batches.milliseconds(1)) for _ in range(31)]
    _, cold, warm = map(statistics.median, zip(*turns))
    return min(1.0, warm / cold)


def ran(words):
    run = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{words[0]}: {(run.stderr.strip().splitlines() or ['no word of why'])[-1]}")
    return run.stdout


def recorded(setting, prompt, seed, options, path):
    ran([RECORD, "--target", setting.target, "--draft", setting.draft, "--prompt", prompt, "--seed", seed,
         "--tokens", options.tokens, "--temperature", options.temperature, "--out", path])
    return path


def gamma_of(way):
    chain = re.fullmatch(r"chain(\d+)", way)
    return int(chain[1]) if chain else None


def policy_of(way):
    if gamma_of(way):
        return ["--policy", "chain", "--gamma", gamma_of(way)]
    objective = re.fullmatch(r"auto-(server|balanced)", way)
    if objective:
        return ["--policy", "auto", "--objective", objective[1], "--sized"]
    return ["--policy", way, "--sized"]


def threads_of(setting, options):
    """Of the target: a server on a core of its own has one."""
    return 1 if setting.round_trip_ms else options.threads or os.cpu_count()


def batch_shape_of(setting, way, prices, options):
    gamma = gamma_of(way)
    if not gamma or setting.pace or setting.round_trip_ms:
        return prices.batch_shape()
    warm = of_a_cold_batch(setting.target, setting.draft, threads_of(setting, options))
    return prices.batch_shape((1 + (gamma - 1) * warm) / gamma)


def simulated_ms(setting, way, trace, text, shapes, prices, options):
    """Per token. A target that stands alone has no draft, recorded or other."""
    shape = setting.pace or shapes[text.prompt, text.seed]
    place = ["--rtt", setting.round_trip_ms] if setting.round_trip_ms else ["--one-processor"]
    draft = ["--policy", "alone"] if way == "alone" else ["--trace", trace, *policy_of(way)]
    batches = batch_shape_of(setting, way, prices, options)
    said = ran([SIMULATE, "run", "--tokens", text.tokens, "--target", shape, "--draft-time", batches, *place, *draft])
    return float(re.search(r"time per token +([\d.]+)", said)[1])


def predicted_task(setting, written, shapes, prices, options, directory):
    """{way: [ratio to the target alone, by round]}"""
    ratios = {way: [] for way in written if way != "server" and not way.endswith(UNPREDICTED)}
    for text in written["alone"]:
        trace = recorded(setting, text.prompt, text.seed, options, pathlib.Path(directory) / "trace")
        alone_ms = simulated_ms(setting, "alone", trace, text, shapes, prices, options)
        for way, found in ratios.items():
            found.append(1.0 if way == "alone" else alone_ms / simulated_ms(setting, way, trace, text, shapes, prices, options))
    return ratios


def predicted(setting, written, shapes, found, options, directory):
    """{task: {way: ratios}}; nothing where a draft is no model, or too little was written to know its prices."""
    if setting.draft == "ngram" or not found:
        return {}
    prices = Prices(found)
    return {task: predicted_task(setting, texts, shapes, prices, options, directory) for task, texts in written.items()}
