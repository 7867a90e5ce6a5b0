"""One round of a session, of a trace that `outrider run --trace` has written: what bench/plots draws as a waterfall.

A round lies between two verdicts. Every event has a line of its own, from the first to the last; batches of the drafter
that follow one another share one.
"""

import json
import sys

from matplotlib import pyplot

COLOURS = {"session": "#0072b2", "up": "#d55e00", "down": "#009e73", "drafter": "#a0447c", "screen": "#b07800"}
DEVICE = ("session", "up", "drafter")
OTHERS = "#444444"  # targets, here or at a server
SHOWN = {"pass, us"}  # values that the picture shows by itself
THINNEST = 0.002  # of the window; what is shorter could not be seen


class Event:
    def __init__(self, record, tracks):
        self.track = tracks[record["tid"]]
        self.name = record["name"]
        self.values = record["args"]
        self.begin = record["ts"] / 1000
        self.end = self.begin + record.get("dur", 0) / 1000

    def said(self):
        values = ", ".join(f"{name} {value}" for name, value in self.values.items() if name not in SHOWN)
        return f"{self.name}: {values}" if values else self.name


class Batches:
    """Of the drafter, with no message and no verdict between them."""

    track = "drafter"

    def __init__(self, first):
        self.events = [first]
        self.begin = first.begin

    def said(self):
        nodes = sum(event.values["nodes expanded"] for event in self.events)
        return f"{len(self.events)} batch{'es' if len(self.events) > 1 else ''}: {nodes} nodes expanded"


def read(path):
    with open(path) as file:
        records = json.load(file)
    tracks = {record["tid"]: record["args"]["name"] for record in records if record["name"] == "thread_name"}
    return sorted((Event(record, tracks) for record in records if record["ph"] in "Xi"), key=lambda event: event.begin)


def window(events, number, count):
    """Of `count` rounds from that number on; by default from the middle one of those whose pass had nodes and is told of."""
    verdicts = [event for event in events if event.name == "verdict"]
    rounds = len(verdicts) - count
    if rounds < 1:
        sys.exit(f"bench/plots: the trace has {len(verdicts)} verdicts, and {count} rounds lie between {count + 1}")
    if number is None:
        telling = [i for i in range(rounds)
                   if verdicts[i + 1].values["pass, us"] > 0 and verdicts[i + 1].values["nodes of the pass"] > 0]
        telling = telling or list(range(rounds))
        number = telling[len(telling) // 2]
    if not 0 <= number < rounds:
        sys.exit(f"bench/plots: the trace has rounds 0 to {rounds - 1}")
    return verdicts[number].begin, verdicts[number + count].end


def lines_of(events):
    lines = []
    for event in events:
        before = next((line for line in reversed(lines) if line.track in DEVICE), None)
        if event.name != "batch":
            lines.append(event)
        elif isinstance(before, Batches):
            before.events.append(event)
        else:
            lines.append(Batches(event))
    return lines


def draw(path, number, count, title):
    events = read(path)
    begin, end = window(events, number, count)
    lines = lines_of([event for event in events if event.end >= begin and event.begin <= end])
    figure, axis = pyplot.subplots(figsize=(10, 1.2 + 0.24 * len(lines)))
    for i, line in enumerate(lines):
        draw_line(axis, i, line, begin, end)
    axis.set_xlim(-0.01 * (end - begin), 1.3 * (end - begin))  # what is said of the last stands behind it
    axis.set_yticks(range(len(lines)), [line.track.split(",")[0] for line in lines])
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    note = "; a server's pass stands where its verdict came" if any("server" in line.track for line in lines) else ""
    axis.set_xlabel(f"ms from the first verdict{note}")
    axis.set_title(title, fontweight="bold", fontsize=12, loc="left")
    return figure


def draw_line(axis, i, line, begin, end):
    colour = COLOURS.get(line.track, OTHERS)
    spans = [(event.begin - begin, event.end - event.begin) for event in getattr(line, "events", [line])]
    if spans[0][1] > 0:
        spans = [(at, max(length, THINNEST * (end - begin))) for at, length in spans]
        axis.broken_barh(spans, (i - 0.35, 0.7), color=colour, linewidth=0)
    else:
        axis.plot(spans[0][0], i, ">", color=colour, markersize=5)
    axis.annotate(line.said(), (sum(spans[-1]), i), xytext=(6, 0), textcoords="offset points", va="center", fontsize=8)
