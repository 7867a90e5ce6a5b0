#!/usr/bin/env python3
"""Walks every #include of ours and fails naming each edge that points upward.

The rooms are listed from the ground up. A file may include its own room and the rooms before it; `client` and `server`
never meet; only they themselves include `tests` and `bench`, and a room's `testing` folder is for those two. The picture is drawn in
README.md.

    layering.py ROOT          check the tree under ROOT
    layering.py --self-test   show that the check finds what it should, and nothing else
"""
import re

import checking

ROOMS = [
    "proto",
    "common/base",
    "common/drawing",
    "common/formats/tensors",
    "common/formats/containers",
    "common/formats/tokenizers",
    "common/formats/models",
    "common/text/unicode",
    "common/text/jinja",
    "common/text",
    "common/tokens",
    "common/kernels",
    "common/model",
    "common/engine",
    "common/cuda",
    "common/torch",
    "common/speculation",
    "common/verification",
    "client",
    "server",
    "adapters",
]
STRANGERS = [("client", "server"), ("server", "client"), ("adapters", "client"), ("adapters", "server")]
LEAVES = ["tests", "bench"]  # may include anything and each other, included by nobody else
SOURCES = {".h", ".cc", ".cu", ".cuh"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')


def room_of(path):
    for room in ROOMS + LEAVES:
        if path == room or path.startswith(room + "/"):
            return room
    return None


def complaint(source, included):
    """Why `source` may not include `included`, or None."""
    here, there = room_of(source), room_of(included)
    if "/testing/" in included and "/testing/" not in source and here not in LEAVES:
        return "testing is for tests and benchmarks"
    if there is None or here == there:
        return None
    if here is None:
        return "stands in no room the layering knows"
    if here in LEAVES:
        return None
    if there in LEAVES:
        return f"{there} is included by nobody"
    if (here, there) in STRANGERS:
        return f"{here} and {there} meet only in proto and common"
    if ROOMS.index(there) > ROOMS.index(here):
        return f"{there} lies above {here}"
    return None


def upward_edges(root):
    edges = []
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root).as_posix()
        if path.suffix not in SOURCES or relative.startswith("build/"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            why = match and complaint(relative, match.group(1))
            if why:
                edges.append(f'{relative}:{number}: includes "{match.group(1)}": {why}')
    return edges


def self_test():
    tree = {
        "common/base/good.h": '#include <vector>\n#include "common/base/other.h"\n',
        "common/formats/models/good.cc": '#include "common/base/good.h"\n#include "absl/status/status.h"\n',
        "common/base/bad.h": '#include "common/text/tokenizer.h"\n',
        "client/bad.cc": '#include "server/decode_service.h"\n',
        "common/text/bad.cc": '#include "tests/text/fake.h"\n',
        "common/text/testing/good.h": '#include "common/text/testing/other.h"\n',
        "common/text/worse.cc": '#include "common/text/testing/good.h"\n',
        "tests/text/good.cc": '#include "client/session.h"\n#include "bench/simulator/world/link.h"\n',
        "bench/good.cc": '#include "common/text/testing/good.h"\n',
    }
    expected = ["client/bad.cc", "common/base/bad.h", "common/text/bad.cc", "common/text/worse.cc"]
    checking.expect(upward_edges, tree, lambda edge: edge.split(":")[0], expected)


if __name__ == "__main__":
    checking.main(__doc__, upward_edges, self_test)
