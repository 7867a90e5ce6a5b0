"""Ways to write the same texts, turn by turn, and what came of them: the part that bench/local and bench/split share.

Every round takes the next prompt and writes it on in every way, one after the other; who comes first moves on from round
to round, so that whatever else the machine does hits all alike. All ways have to write the same text.
"""

import csv
import re
import statistics
import subprocess
import sys

PROMPTS = ("Once upon a time, in a small village by the sea, there",
           "The old man looked at the river and said",
           "Lily had a red ball. She",
           "It was the best of",
           "My dear friend, I write to")


class Failed(Exception):
    pass


class Written:
    """A text that `outrider run` has written, and what it says of that."""

    def __init__(self, command):
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            raise Failed((run.stderr.strip().splitlines() or ["no word of why"])[-1])
        self.text = run.stdout
        self.speed = float(re.search(r"generated: \d+ tokens, ([\d.]+) tokens/s", run.stderr)[1])
        passes = re.search(r"passes: (\d+) \(([\d.]+) tokens each of ([\d.]+) drafted\)", run.stderr)
        self.tokens_per_pass = float(passes[2]) if passes else 1.0
        self.rows_per_token = (1 + float(passes[3])) / float(passes[2]) if passes else 1.0
        up = re.search(r"up ([\d.]+) (B|KiB|MiB)", run.stderr)
        self.bytes_up = float(up[1]) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[up[2]] if up else 0.0


def add_arguments(parser, rounds, tokens):
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--tokens", type=int, default=tokens)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--prompts", help="a prompt a line; by default five of our own")
    parser.add_argument("--csv")


def prompts_of(options):
    if not options.prompts:
        return PROMPTS
    with open(options.prompts) as file:
        return [line for line in file.read().splitlines() if line]


def chain_or_policy(way):
    chain = re.fullmatch(r"chain(\d+)", way)
    return ["--policy", "chain", "--spec-gamma", chain[1]] if chain else ["--policy", way]


def writing(options, prompt, seed):
    return ["--prompt", prompt, "--seed", str(seed), "--max-tokens", str(options.tokens),
            "--temperature", str(options.temperature)]


def measure(title, commands, options):
    """{way: [Written by round]}; commands[way](prompt, seed) is what to run."""
    prompts = prompts_of(options)
    ways = list(commands)
    written = {way: [] for way in ways}
    for turn in range(options.rounds):
        prompt = prompts[turn % len(prompts)]
        for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
            print(f"\r{title}: round {turn + 1} of {options.rounds}, {way}\033[K", end="", file=sys.stderr)
            try:
                written[way].append(Written(commands[way](prompt, turn)))
            except Failed as why:
                sys.exit(f"\n{title}: {way}: {why}")
        if len({runs[-1].text for runs in written.values()}) != 1:
            sys.exit(f"\n{title}: the ways have written different texts after '{prompt}'")
    print("\r\033[K", end="", file=sys.stderr)
    return written


def ratios(runs, others):
    return [run.speed / other.speed for run, other in zip(runs, others)]


def report(title, written, rows):
    """Prints a table, adds to `rows`, and returns the median ratio to `alone` by way."""
    print(f"\n{title}")
    print(f"{'':24} tokens/s   of alone (least to largest)   tokens a pass   rows a token   bytes up a token")
    medians = {}
    for way, runs in written.items():
        of_alone = ratios(runs, written["alone"])
        medians[way] = statistics.median(of_alone)
        middle = {name: statistics.median(getattr(run, name) for run in runs)
                  for name in ("speed", "tokens_per_pass", "rows_per_token", "bytes_up")}
        print(f"{way:24} {middle['speed']:8.1f}   {medians[way]:8.2f} ({min(of_alone):.2f} to {max(of_alone):.2f})"
              f"   {middle['tokens_per_pass']:18.2f}   {middle['rows_per_token']:12.2f}   {middle['bytes_up'] / rows.tokens:16.0f}")
        rows.add(title, way, runs, of_alone)
    others = {way: ratio for way, ratio in medians.items() if not way.startswith("auto")}
    if "auto" in medians:
        best = max(others, key=others.get)
        print(f"auto is {medians['auto'] / others[best]:.2f} of the best of the others, {best}")
    return medians


class Rows:
    """For a CSV file."""

    def __init__(self, options):
        self.path = options.csv
        self.tokens = options.tokens
        self.rows = []

    def add(self, title, way, runs, of_alone):
        self.rows += [(title, way, turn, run.speed, ratio, run.tokens_per_pass, run.rows_per_token, run.bytes_up)
                      for turn, (run, ratio) in enumerate(zip(runs, of_alone))]

    def write(self):
        if not self.path:
            return
        with open(self.path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("setting", "way", "round", "tokens_per_second", "of_alone", "tokens_per_pass",
                             "rows_per_token", "bytes_up"))
            writer.writerows(self.rows)
