#!/usr/bin/env python3
"""Holds the bytes and sizes of proto/README.md to the .proto file.

Between <!-- bytes --> and <!-- end --> stand messages with their bytes, field by field, and between <!-- sizes --> and
<!-- end --> what messages weigh. Both are written here, by protoc, and checked by the test. A message above its bar (growth on
the mean) is a failure, whatever the page says.

    page.py ROOT            fails where the page says anything else than protoc does
    page.py ROOT --write    writes what it should say
"""
import pathlib
import random
import re
import subprocess
import sys


# --- growth, as common/tokens/growth_bits.h has it ---

def golomb(value, k):
    more = (value + 2 ** k).bit_length() - 1 - k
    return "1" * more + "0" + f"{value + 2 ** k:b}"[1:]


def grow(seen, first_id, nodes, more="", told=None):
    """A message of growth; nodes are (step, doubt, token). `told` are the tokens of this epoch, the newest first."""
    told = [] if told is None else told
    new = [token for i, (_, _, token) in enumerate(nodes) if token not in told and token not in [t for _, _, t in nodes[:i]]]
    width = max([1, *new]).bit_length()
    bits = golomb(len(nodes), 4) + f"{width - 1:05b}"
    for step, doubt, token in nodes:
        bits += golomb(step, 1) + golomb(doubt, 1)
        bits += "1" + golomb(told.index(token), 4) if token in told else f"0{token:0{width}b}"
        tell(told, token)
    data = [int(f"{bits[i:i + 8]:0<8}", 2) for i in range(0, len(bits), 8)]
    escaped = "".join(f"\\{byte:03o}" for byte in data)
    return f'grow {{ seen: {seen} first_id: {first_id} nodes: "{escaped}"{more} }}'


def step_between(parent, next_parent, node):
    if next_parent == parent:
        return 0
    if parent == 0:
        return node - next_parent
    return 2 * (next_parent - parent) - 1 if next_parent > parent else 2 * (parent - next_parent)


def ungolomb(bits, at, k):
    more = bits.index("0", at) - at
    at += more + 1
    return int("1" + bits[at:at + more + k], 2) - 2 ** k, at + more + k


def tell(told, token):
    """Into a short list: none of the messages here has 256 tokens."""
    if token in told:
        told.remove(token)
    told.insert(0, token)


def nodes_of(data, told):
    """What bytes of growth mean."""
    bits = "".join(f"{byte:08b}" for byte in data)
    count, at = ungolomb(bits, 0, 4)
    width, at = int(bits[at:at + 5], 2) + 1, at + 5
    said = []
    for _ in range(count):
        step, at = ungolomb(bits, at, 1)
        doubt, at = ungolomb(bits, at, 1)
        by_place, at = bits[at] == "1", at + 1
        if by_place:
            place, at = ungolomb(bits, at, 4)
            token, how = told[place], f" (place {place})"
        else:
            token, how, at = int(bits[at:at + width], 2), "", at + width
        said.append(f"{step} {doubt} {token}{how}")
        tell(told, token)
    return ", ".join(said)


# By growth of the examples.
TOLD = []

# What a device says, then what the server answers, in one short session.
EXAMPLES = [
    ("A device opens a session with the prompt 403, 2501, 263, and takes what the server likes for the rest.",
     "Client", 'open { nonce: 0x1122334455667788 prompt { tokens { ids: [403, 2501, 263] } } pass_nodes: 16 hints: true attempt: 1 }'),
    ("The server names the session and hands out a token.",
     "Server", 'opened { session: "0123456789abcdef" token: "secret-of-16-byt" time_to_live_ms: 120000 '
     'pass_nodes: 16 sketch_nodes_max: 256 length_max: 4096 numerics_id: "5d41402abc4b2a76" growth_follows: true }'),
    ("Two children of the root with doubts 1 and 2, two below node 1 with doubts 0 and 3, one below node 3 with doubt 2.",
     "Client", grow(0, 0, [(0, 1, 278), (0, 2, 931), (2, 0, 6635), (0, 3, 2217), (3, 2, 373)], told=TOLD)),
    ("An exit has looked at the pass: after node 3 it expects token 373.",
     "Server", 'hint { verdict: 1 exit: 1 leaf: 3 next: 373 probability: 217 }'),
    ("The pass says so too. Its leaf is node 5 + 1 - 3, and 373 below that is node 5, which is the root now.",
     "Server", 'verdict { leaf_back: 3 next: 373 seen: 5 hash: 0x3a54ff53 nodes: 5 pass_us: 20125 }'),
    ("Growth below node 5, sent by a device that has seen verdict 1; nothing more will come before the next.",
     "Client", grow(1, 0, [(1, 0, 263), (1, 1, 2217)], " go: true", told=TOLD)),
    ("The link was lost: another stream takes the session over.",
     "Client", 'resume { session: "0123456789abcdef" token: "secret-of-16-byt" length: 6 hash: 0x8f1bbcdc3a54ff53 '
     'attempt: 2 }'),
    ("Two tokens were committed that the device never heard of.",
     "Server", 'resumed { token: "another-16-bytes" length: 8 hash: 0x1b873593cc9e2d51 tokens: [263, 2217] verdict: 2 }'),
    ("The next turn of a chat.", "Client", 'append { tokens: [13, 1724] length: 8 }'),
    ("The device has gone.", "Client", 'close { }'),
]


def encode(root, kind, text):
    command = ["protoc", f"--encode=outrider.v1.{kind}Message", "-I", "proto", "outrider/v1/verifier.proto"]
    done = subprocess.run(command, input=text.encode(), cwd=root, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"page.py: protoc refuses {text}: {done.stderr.decode()}")
    return done.stdout


# --- the .proto file, as far as it takes to name fields ---

def fields_of(proto):
    """{message: {number: (name, type, repeated)}}"""
    messages = {}
    proto = re.sub(r"^message \w+ \{\}$", "", proto, flags=re.M)  # these have none
    for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", proto, re.M | re.S):
        body = re.sub(r"//.*", "", body)
        body = re.sub(r"enum \w+ \{.*?\}", "", body, flags=re.S)
        found = re.findall(r"(repeated )?([\w.]+) (\w+) = (\d+);", body)
        messages[name] = {int(number): (field, kind, bool(repeated)) for repeated, kind, field, number in found}
    return messages


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def annotate(messages, message, data, told, depth=0):
    """Lines of bytes and what they mean; `told` as in grow()."""
    lines = []
    at = 0

    def say(raw, meaning):
        shown = raw.hex(" ")
        lines.append(f"{'   ' * depth}{shown if len(shown) < 47 else shown[:41] + ' ...':<{50 - 3 * depth}}{meaning}")

    while at < len(data):
        begin = at
        tag, at = varint(data, at)
        name, kind, _ = messages[message][tag >> 3]
        if tag & 7 == 0:
            value, at = varint(data, at)
            say(data[begin:at], f"{name}: {value}")
        elif tag & 7 == 1:
            at += 8
            say(data[begin:at], f"{name}: 0x{int.from_bytes(data[at - 8:at], 'little'):016x}")
        elif tag & 7 == 5:
            at += 4
            say(data[begin:at], f"{name}: 0x{int.from_bytes(data[at - 4:at], 'little'):08x}")
        elif tag & 7 == 2:
            size, at = varint(data, at)
            inner = data[at:at + size]
            if kind in messages:
                say(data[begin:at], f"{name}, {size} bytes")
                lines += annotate(messages, kind, inner, told, depth + 1)
            elif kind in ("bytes", "string"):
                say(data[begin:at + size], f"{name}: {nodes_of(inner, told) if message == 'Grow' else inner.decode()}")
            else:
                values, inside = [], 0
                while inside < size:
                    value, inside = varint(inner, inside)
                    values.append(value)
                say(data[begin:at + size], f"{name}: {' '.join(map(str, values))}")
            at += size
        else:
            sys.exit(f"page.py: {message} has a field of wire type {tag & 7}")
    return lines


def bytes_section(root, messages):
    parts = []
    told = []
    for story, kind, text in EXAMPLES:
        data = encode(root, kind, text)
        way = "up" if kind == "Client" else "down"
        lines = annotate(messages, f"{kind}Message", data, told)
        parts.append(f"{story} **{way}**, {len(data)} bytes\n\n```\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


# --- sizes ---

def bar(nodes):
    return 7 * nodes // 2 + 24


def within(bar_bytes, size, name):
    if size > bar_bytes:
        sys.exit(f"page.py: {name} takes {size} bytes; the bar is {bar_bytes}")
    return size


def growth(rng, vocabulary, count, first_id):
    """A batch of the drafter: nodes chosen among the newest, four children of each, in order."""
    nodes, parents = [], list(range(max(1, first_id - 40), first_id)) or [0]
    node, parent_before = first_id, 0
    while len(nodes) < count:
        parent = parents[-1 - min(int(rng.expovariate(0.15)), len(parents) - 1)]
        for child in range(min(4, count - len(nodes))):
            token = rng.randrange(vocabulary)
            nodes.append((step_between(parent_before, parent, node), min(15, child + rng.randrange(4)), token))
            node, parent_before = node + 1, parent
        parents = [p for p in parents if p != parent] + [node - 4]
        parents = [p for p in parents if p < node] or [first_id]
    return grow(0, 0, nodes)


def sizes_section(root):
    rng = random.Random(1)
    rows = ["| growth of | vocabulary 512 | 32 000 | 152 000 | 3.5 a node + 24 |", "|---|---|---|---|---|"]
    for count in (1, 4, 16, 64):
        cells = []
        for vocabulary in (512, 32000, 152000):
            sizes = [len(encode(root, "Client", growth(rng, vocabulary, count, 2000 + 7 * i)))
                     for i in range(20)]
            cells.append(f"{within(bar(count), sum(sizes) / len(sizes), f'growth of {count}'):.1f}")
        rows.append(f"| {count} node{'s' if count > 1 else ''} | " + " | ".join(cells) + f" | {bar(count)} |")
    rows += ["", "| message | bytes | of them |", "|---|---|---|"]
    early = "leaf_back: 8 next: 931 seen: 2048 hash: 0x3a54ff53 nodes: 16"
    late = "leaf_back: 200 next: 151000 seen: 60000 hash: 0x3a54ff53 nodes: 63"
    ordinary = [
        ("verdict, with the time of its pass", "Server", f"verdict {{ {early} pass_us: 20125 }}", "5 the hash, 4 the time"),
        ("verdict, with the time since growth", "Server", f"verdict {{ {early} since_seen_us: 20602 }}", ""),
        ("verdict after 60 000 nodes, vocabulary 152 000", "Server", f"verdict {{ {late} pass_us: 1900000 }}", ""),
        ("verdict of a pass alone", "Server", "verdict { next: 931 hash: 0x3a54ff53 pass_us: 20125 }", ""),
        ("hint", "Server", "hint { verdict: 300 exit: 2 leaf: 2041 next: 31000 probability: 217 }", ""),
        ("go, without growth", "Client", "grow { seen: 300 go: true }", ""),
    ]
    others = [
        ("the last verdict of a reply, at its largest", "Server",
         f"verdict {{ {late} pass_us: 1900000 finish: FINISH_STOP_STRING }}", ""),
        ("resume", "Client", EXAMPLES[6][2], "36 name and token, 9 the hash"),
        ("open, 1000 tokens of 32 000", "Client",
         f"open {{ nonce: 0x1122334455667788 prompt {{ tokens {{ ids: {[rng.randrange(32000) for _ in range(1000)]} }} }} }}", ""),
    ]
    for name, kind, text, note in ordinary:
        rows.append(f"| {name} | {within(bar(0), len(encode(root, kind, text)), name)} | {note} |")
    for name, kind, text, note in others:
        rows.append(f"| {name} | {len(encode(root, kind, text))} | {note} |")
    return "\n".join(rows) + "\n"


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[1])
    page = root / "proto/README.md"
    messages = fields_of((root / "proto/outrider/v1/verifier.proto").read_text(encoding="utf-8"))
    text = page.read_text(encoding="utf-8")
    wanted = text
    for name, section in (("bytes", bytes_section(root, messages)), ("sizes", sizes_section(root))):
        pattern = rf"(<!-- {name} -->\n).*?(<!-- end -->)"
        if not re.search(pattern, wanted, re.S):
            sys.exit(f"page.py: proto/README.md has no place for {name}")
        wanted = re.sub(pattern, lambda m, s=section: f"{m.group(1)}\n{s}\n{m.group(2)}", wanted, flags=re.S)
    if sys.argv[2:] == ["--write"]:
        page.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        sys.exit("proto/README.md is out of date: tests/proto/page.py . --write")


if __name__ == "__main__":
    main()
