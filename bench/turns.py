"""Ways to write the same texts, turn by turn, and what came of them: the part that bench/local, bench/split, bench/busy and bench/crowd share.

A setting is what stays as it is while ways take turns: target, pace, round trip, draft. In it every task has its rounds;
each takes the task's next prompt and writes it on in every way, one after the other; a text that ends at once is replaced by
another. Who comes first moves on from round to round, so that whatever else the machine does hits all alike. All ways have to
write the same text.
"""

import csv
import dataclasses
import math
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import answers
import predictions

sys.stdout.reconfigure(line_buffering=True)  # what is done is seen, through a pipe too

TASKS = pathlib.Path(__file__).resolve().parent / "tasks"
PROMPTS = ("Once upon a time, in a small village by the sea, there",
           "The old man looked at the river and said",
           "Lily had a red ball. She",
           "It was the best of",
           "My dear friend, I write to")


# A text that ends sooner comes with a verdict or two, and says nothing of speed: another is written in its place.
TOKENS_MIN = 24
SHORT_MAX = 20


class Failed(Exception):
    pass


def cell(value, width, digits=2):
    """Of a table: a figure, or a dash where there is none."""
    return f"{'-' if math.isnan(value) else format(value, f'.{digits}f'):>{width}}"


@dataclasses.dataclass(frozen=True)
class Setting:
    target: str
    draft: str
    pace: str = ""  # of a target that is paced, by emulators/paced_server.cc
    round_trip_ms: str = ""  # of a target behind a link

    def title(self):
        words = [name_of(self.target)]
        if self.pace:
            words[0] += f" paced {self.pace} ms"
        if self.round_trip_ms:
            words.append(f"round trip {self.round_trip_ms} ms")
        return ", ".join(words + [name_of(self.draft)])


def ran(command):
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise Failed((run.stderr.strip().splitlines() or [f"no word of why, exit status {run.returncode}"])[-1])
    return run


class Written:
    """A text that `outrider run` has written, and what it says of that."""

    def __init__(self, command, prompt="", seed=0):
        self.prompt, self.seed = prompt, seed
        run = ran(command)
        self.said = run.stderr
        self.text = run.stdout
        generated = re.search(r"generated: (\d+) tokens, ([\d.]+) tokens/s", run.stderr)
        self.tokens = int(generated[1])
        self.speed = float(generated[2])
        later = re.search(r"a token took [\d.]+ ms \(median\), ([\d.]+) \(95 of 100\)", run.stderr)
        self.p95_ms = float(later[1]) if later else math.nan
        self.passes, self.rows = cost_of(run.stderr, self.tokens)
        self.answers = answers.answers_of(run.stderr)
        up = re.search(r"up ([\d.]+) (B|KiB|MiB)", run.stderr)
        self.bytes_up = float(up[1]) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[up[2]] if up else 0.0

    @property
    def tokens_per_pass(self):
        return self.tokens / self.passes

    @property
    def passes_per_token(self):
        return self.passes / self.tokens

    @property
    def rows_per_token(self):
        return self.rows / self.tokens

    @property
    def bytes_per_token(self):
        return self.bytes_up / self.tokens


def cost_of(said, tokens):
    """(passes, rows) of the target; one that is alone has both once for each token."""
    drafted_here = re.search(r"passes: (\d+) \([\d.]+ tokens each of ([\d.]+) drafted\)", said)
    if drafted_here:
        passes = int(drafted_here[1])
        return passes, passes * (1 + float(drafted_here[2]))
    drafted_there = re.search(r"passes: (\d+) at the server, over its own draft", said)
    if drafted_there:
        return int(drafted_there[1]), math.nan  # the server does not tell
    return tokens, tokens


# --- programs ---

class Running:
    """A program on some cores, from the line that it begins with until the block ends."""

    def __init__(self, cores, words, pattern):
        # A file takes all that is said, whether or not anybody reads it meanwhile.
        self.output = tempfile.NamedTemporaryFile("r", errors="replace")
        with open(self.output.name, "w") as file:
            self.process = subprocess.Popen(["taskset", "-c", str(cores), *map(str, words)], stdout=file, stderr=subprocess.STDOUT)
        while not (found := re.search(pattern, self.all_words(), re.MULTILINE)):
            if self.process.poll() is not None:
                sys.exit(f"{words[0]} has not begun: {(self.all_words().strip().splitlines() or ['it says nothing'])[-1]}")
            time.sleep(0.02)
        self.said = found[1]
        self.begun_with = self.all_words()

    def all_words(self):
        self.output.seek(0)
        return self.output.read()

    @property
    def last_words(self):
        return self.all_words()[len(self.begun_with):]

    def cpu_seconds(self):
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self):
        with open(f"/proc/{self.process.pid}/status") as file:
            return int(re.search(r"VmRSS:\s+(\d+)", file.read())[1]) / 1024

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


# --- options ---

def add_arguments(parser, rounds, tokens):
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--tokens", type=int, default=tokens)
    parser.add_argument("--temperature", type=float, default=0.8)
    prompts = parser.add_mutually_exclusive_group()
    prompts.add_argument("--prompts", help="a prompt a line; by default five of our own")
    prompts.add_argument("--tasks", help=f"of bench/tasks: {', '.join(task_names())}, or all")
    parser.add_argument("--csv")
    parser.add_argument("--predict", action="store_true", help="what the simulator says, beside what was measured")


def task_names():
    return sorted(path.stem for path in TASKS.glob("*.txt"))


def tasks_of(options):
    """{task: prompts}"""
    if not options.prompts and not options.tasks:
        return {"openings": PROMPTS}
    if options.prompts:
        paths = [pathlib.Path(options.prompts)]
    else:
        paths = [TASKS / f"{name}.txt" for name in (task_names() if options.tasks == "all" else listed([options.tasks]))]
    try:
        return {path.stem: [line for line in path.read_text(encoding="utf-8").splitlines() if line] for path in paths}
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}; tasks are {', '.join(task_names())}")


def listed(arguments):
    """What was given several times, or with commas."""
    return [word for argument in arguments for word in argument.split(",")]


def name_of(model):
    return pathlib.Path(model).name


def ways_of(options, ways, draft):
    """`ways` are those of a draft that is a model; what an ngram says has no tree."""
    chosen = (options.ways or ("alone,chain8,auto" if draft == "ngram" else ways)).split(",")
    return chosen if "alone" in chosen else ["alone", *chosen]


# What a way may have after its name: the same way, but for that.
VARIANTS = {
    "-wait": ["--spec-dry", "wait"],  # the target waits at a root below which nothing is drafted
    "-alone": ["--spec-dry", "alone"],  # or goes on alone at once
    "-server": ["--spec-objective", "server"],  # of auto: to save a server's work
    "-balanced": ["--spec-objective", "balanced"],  # or time where it is worth that work
    "-cold": [],  # nothing is known of prices when a text begins
    "-pruned": ["--spec-prune", "on"],  # of a target on this machine, with exits beside it (LEVER's pruning)
    "-unpruned": ["--spec-prune", "off"],
    "-path": ["--spec-projection", "path"],  # its head is asked along the accepted path alone
    "-rows": ["--spec-projection", "all"],  # or for all rows of a pass at once
    "-resting": ["--spec-provisional", "off"],  # nothing is drafted while a pass runs there
    "-fixed": ["--spec-alpha", "0.01"],  # of llmcad and edgellm: the fallback rule's first threshold, for good
    "-full": ["--spec-alpha", "0"],  # or none: a pass is verified when it is full
    "-blind": ["--exits", "none"],  # without hints and pruning
}


def variant_of(way):
    """(way without its variant, the variant's ending or nothing)"""
    ending = next((ending for ending in VARIANTS if way.endswith(ending)), "")
    return way.removesuffix(ending), ending


def chain_or_policy(way):
    way, variant = variant_of(way)
    chain = re.fullmatch(r"chain(\d+)", way)
    return (["--policy", "chain", "--spec-gamma", chain[1]] if chain else ["--policy", way]) + VARIANTS.get(variant, [])


def writing(options, prompt, seed):
    return ["--prompt", prompt, "--seed", str(seed), "--max-tokens", str(options.tokens),
            "--temperature", str(options.temperature)]


def described(options):
    tasks = ", ".join(f"{task} ({len(prompts)} prompts)" for task, prompts in tasks_of(options).items())
    return (f"{options.tokens} tokens, temperature {options.temperature}, {options.rounds} rounds of {tasks}, "
            "every way by turns; all texts are compared")


# --- measuring ---

def measure(title, setting, commands, options, write=Written):
    """{task: {way: [Written by round]}}, and by task and way what was predicted; commands[way](prompt, seed) is what to run.

    What else than a Written comes of a command, `write` says; one whose text is None is compared with no other.
    """
    tasks = tasks_of(options)
    # What runs find out about prices is for the next ones of this setting, and no others.
    with tempfile.TemporaryDirectory() as directory, predictions.PassesBeside(setting, options) as passes:
        prices = pathlib.Path(directory) / "prices"
        found = []
        written = {task: measure_task(f"{title}, {task}", prompts, commands, prices, found, passes, options, write)
                   for task, prompts in tasks.items()}
        if not options.predict:
            return written, {}
        return written, predictions.predicted(setting, written, passes.shapes, found, options, directory)


def measure_task(title, prompts, commands, prices, found, passes, options, write):
    """Adds to `found` what the price file says after each text."""
    ways = list(commands)
    written = {way: [] for way in ways}
    for seed in range(options.rounds + SHORT_MAX + 1):
        turn = len(written["alone"])
        if turn == options.rounds:
            break
        prompt = prompts[seed % len(prompts)]
        texts = {}
        for way in ways[turn % len(ways):] + ways[:turn % len(ways)]:
            print(f"\r{title}: round {turn + 1} of {options.rounds}, {way}\033[K", end="", file=sys.stderr)
            try:
                known = "" if variant_of(way)[1] == "-cold" else prices
                texts[way] = write(commands[way](prompt, seed) + ["--price-file", known], prompt, seed)
            except Failed as why:
                sys.exit(f"\n{title}: {way}: {why}")
            found += predictions.batches_of(prices)
        if len({run.text for run in texts.values()} - {None}) != 1:
            sys.exit(f"\n{title}: the ways have written different texts after '{prompt}'")
        if texts["alone"].tokens < min(TOKENS_MIN, options.tokens):
            continue
        passes.watch(prompt, seed)
        for way, run in texts.items():
            written[way].append(run)
    else:
        sys.exit(f"\n{title}: {SHORT_MAX} texts have ended before {TOKENS_MIN} tokens")
    print("\r\033[K", end="", file=sys.stderr)
    return written


# --- what came of it ---

def ratios(runs, others):
    return [run.speed / other.speed for run, other in zip(runs, others)]


def report(setting, measured, rows):
    """Prints a table of all tasks together, with a column for each, and adds to `rows`."""
    written, predicted = measured
    of_alone = {task: {way: ratios(runs, by_way["alone"]) for way, runs in by_way.items()}
                for task, by_way in written.items()}
    pooled = {way: pooled_of(of_alone, way) for way in next(iter(of_alone.values()))}
    print(f"\n{setting.title()}")
    print_table({way: pooled_of(written, way) for way in pooled}, pooled, of_alone, predicted)
    for task, by_way in written.items():
        for way, runs in by_way.items():
            rows.add(setting, task, way, runs, of_alone[task][way], predicted.get(task, {}).get(way))
    if "auto" in pooled:
        report_auto(pooled, of_alone)
    for way in pooled:
        if texts := answers_of(pooled_of(written, way)):
            answers.print_histogram(way, texts)


def pooled_of(by_task, way):
    return [what for by_way in by_task.values() for what in by_way.get(way, [])]


def answers_of(runs):
    """Of those texts that have any."""
    return [run.answers for run in runs if run.answers]


def print_table(written, pooled, of_alone, predicted):
    tasks = list(of_alone) if len(of_alone) > 1 else []
    has_answers = any(answers_of(runs) for runs in written.values())
    print(f"{'':24} tokens/s   of alone (least to largest)" + "".join(f"{task:>13}" for task in tasks)
          + "   ms a token, 95 of 100   passes a token   rows a token   bytes up a token"
          + ("   ms to growth   99 of 100" if has_answers else "") + ("   predicted" if predicted else ""))
    for way, runs in written.items():
        middle = {name: statistics.median(getattr(run, name) for run in runs)
                  for name in ("speed", "p95_ms", "passes_per_token", "rows_per_token", "bytes_per_token")}
        spread = f"({min(pooled[way]):.2f} to {max(pooled[way]):.2f})"
        print(f"{way:24} {middle['speed']:8.1f}   {statistics.median(pooled[way]):8.2f} {spread:18}"
              + "".join(f"{statistics.median(of_alone[task][way]):13.2f}" for task in tasks)
              + f"{middle['p95_ms']:24.1f}{middle['passes_per_token']:17.2f}{middle['rows_per_token']:15.2f}"
              + f"{middle['bytes_per_token']:19.0f}"
              + (followed(answers_of(runs)) if has_answers else "")
              + beside(statistics.median(pooled[way]), pooled_of(predicted, way)))


def followed(texts):
    if not texts:
        return f"{'':27}"
    return f"{answers.quantile_ms(texts, 0.5):15.3f}{answers.quantile_ms(texts, 0.99):12.3f}"


def beside(ratio, predicted):
    if not predicted:
        return ""
    middle = statistics.median(predicted)
    return f"   {middle:6.2f} ({100 * (middle / ratio - 1):+.0f} %)"


def report_auto(pooled, of_alone):
    """What auto is of the best of the others, of every task and of all; that may be another one each time."""
    found = []
    for task, by_way in {"all": pooled, **of_alone}.items() if len(of_alone) > 1 else of_alone.items():
        medians = {way: statistics.median(ratios_of_way) for way, ratios_of_way in by_way.items()}
        others = {way: ratio for way, ratio in medians.items() if not way.startswith("auto")}
        best = max(others, key=others.get)
        found.append(f"{task} {medians['auto'] / others[best]:.2f} ({best})")
    print(f"auto, of the best of the others: {', '.join(found)}")


class Sheet:
    """A CSV file, written as settings are done. What no option asked for goes nowhere."""

    def __init__(self, path, columns):
        self.file = open(path, "w", newline="") if path else None
        self.write(columns)

    def write(self, row):
        if self.file:
            csv.writer(self.file).writerow(row)
            self.file.flush()


class Rows(Sheet):
    COLUMNS = ("bench", "target", "pace", "round_trip_ms", "draft", "task", "way", "round", "tokens", "tokens_per_second",
               "ratio", "p95_ms", "tokens_per_pass", "passes_per_token", "rows_per_token", "bytes_up", "answers",
               "answer_p50_ms", "answer_p99_ms", "predicted_ratio")

    def __init__(self, bench, options):
        super().__init__(options.csv, self.COLUMNS)
        self.bench = bench

    def add(self, setting, task, way, runs, ratios_of_way, predicted=None):
        for turn, (run, ratio) in enumerate(zip(runs, ratios_of_way)):
            self.write((self.bench, name_of(setting.target), setting.pace, setting.round_trip_ms, name_of(setting.draft),
                        task, way, turn, run.tokens, run.speed, round(ratio, 4), run.p95_ms,
                        round(run.tokens_per_pass, 3), round(run.passes_per_token, 3), round(run.rows_per_token, 3),
                        round(run.bytes_up),
                        *answers.cells_of(run.answers), round(predicted[turn], 4) if predicted else ""))
