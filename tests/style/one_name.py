#!/usr/bin/env python3
"""Fails naming each pair of places that define a type of the same full name.

Two classes called `outrider::Outbox`, in two files that know nothing of each other, are one class to the linker: it
keeps one copy of their inline functions, and the other class runs on fields that it does not have. No compiler says so,
for none sees both. So a name means one type in the whole tree, in programs that are linked together today and in those
that will be.

Counted are the classes, structs, unions and enums that have a body and stand in a namespace or in one another, in
headers and sources. Types in a nameless namespace or in a function are their file's own and clash with nothing; a
specialisation has its arguments in its name.

    one_name.py ROOT          check the tree under ROOT
    one_name.py --self-test   show that the check finds what it should, and nothing else
"""
import re

import checking

FOLDERS = ["common", "client", "server", "adapters", "bench", "tests"]
SOURCES = {".h", ".cc", ".cu", ".cuh"}
NOT_CODE = re.compile(
    r"""//(?:[^\n\\]|\\.|\\\n)*       # comments
      | /\*.*?\*/
      | ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*  # the preprocessor's lines
      | R"([^()\\\s]*)\(.*?\)\1"        # what is quoted, raw or not
      | "(?:[^"\\\n]|\\.)*"
      | (?<![0-9A-Za-z_])'(?:[^'\\\n]|\\.)+'
    """,
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
TOKEN = re.compile(r"[A-Za-z_]\w*|::|[0-9][\w.']*|\S")
TYPE_KEYWORDS = {"class", "struct", "union", "enum"}
OPENS, CLOSES = {"(": ")", "[": "]", "<": ">"}, {")", "]", ">"}


def after_group(tokens, start):
    """Where the group that opens at `start` has closed."""
    depth = 0
    for i in range(start, len(tokens)):
        depth += (tokens[i] in OPENS) - (tokens[i] in CLOSES)
        if depth == 0:
            return i + 1
    return len(tokens)


def type_name(head):
    """The name of the type whose body opens after the tokens `head`, or None when they open something else."""
    i = 0
    while i < len(head) and head[i] not in TYPE_KEYWORDS:
        if head[i] == "template" and head[i + 1 : i + 2] == ["<"]:
            i = after_group(head, i + 1)
        elif head[i] in ("typedef", "static", "inline", "constexpr", "const", "export"):
            i += 1
        else:
            return None
    while i < len(head) and head[i] in TYPE_KEYWORDS:  # `enum class` is two
        i += 1
    name = []
    while i < len(head) and head[i] not in (":", "final"):
        if head[i] == "<":
            end = after_group(head, i)
            name.append("".join(head[i:end]))
            i = end
        elif head[i] == "=":
            return None
        else:
            if name and name[-1] != "::" and head[i] != "::":
                name = []  # alignas(64), [[nodiscard]], macros: the last word before the body is the name
            name.append(head[i])
            i += 1
    return "".join(name) or None


def opened_scope(head):
    """What `{` opens after the tokens `head`: the name that it adds, "" for one that adds none, None for one's own."""
    if "namespace" in head:
        name = "".join(head[head.index("namespace") + 1 :])
        return name or None
    if head[:1] == ["extern"] and len(head) == 1:  # extern "C", whose string is gone
        return ""
    return type_name(head)


def types_of(text):
    """(line, full name) of each type that other files could clash with."""
    code = NOT_CODE.sub(lambda match: "\n" * match.group().count("\n") + " ", text)
    scopes, head, found = [], [], []
    for line, content in enumerate(code.splitlines(), 1):
        for token in TOKEN.findall(content):
            if token == "{":
                scope = opened_scope(head)
                scopes.append(scope)
                if "namespace" not in head and scope and None not in scopes:
                    found.append((line, "::".join(name for name in scopes if name)))
                head = []
            elif token == "}":
                if scopes:
                    scopes.pop()
                head = []
            elif token == ";" or (token == ":" and head and head[-1] in ("public", "private", "protected")):
                head = []
            else:
                head.append(token)
    return found


def clashes(root):
    first, found = {}, []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            relative = path.relative_to(root).as_posix()
            for line, name in types_of(path.read_text(encoding="utf-8")):
                here = f"{relative}:{line}"
                if name in first:
                    found.append(f"{here}: {name} is also the name of the type at {first[name]}")
                first.setdefault(name, here)
    return found


SELF_TEST = {
    # Clash: plainly, nested, in two sources, behind attributes and templates, with bodies opened on another line.
    "common/a.h": "namespace outrider {\nclass Outbox final : public Box { struct Entry { int x; }; };\n"
                  "template <class T> struct ABSL_ATTRIBUTE(x) Ring {};\nenum class Verb : int\n{ kGo };\n}\n",
    "common/b.h": "namespace outrider {\nclass Outbox { public: struct Entry {}; };\n"
                  "template <typename T>\nstruct Ring {};\nenum Verb { kWent };\n}\n",
    "server/c.cc": "struct Alone { int a = 1'000; char b = '{'; };\n",
    "server/d.cc": "struct [[nodiscard]] Alone {};\n",
    # Do not: other namespaces, specialisations, declarations, functions' and files' own, what is not code.
    "client/a.h": "namespace outrider::client { struct Outbox {}; struct Later; enum class Late : int; }\n"
                  "namespace outrider { template <> struct Ring<int> {}; template <> struct Ring<char> {}; }\n",
    "client/b.cc": "namespace outrider { namespace {\nstruct Outbox {}; enum Verb {};\n}\n"
                   "struct Outbox MakeOutbox() { struct Alone { int x; }; return {}; }\n"
                   "// struct Outbox {\n/* struct Outbox { */ const char* k = \"struct Outbox {\";\n"
                   "const char* r = R\"x(struct Outbox { )\")x\";\n#define OUTBOX struct Outbox { \\\n  }\n"
                   "const struct Outbox kEmpty = {};\n}  // namespace outrider\n",
    # What is quoted opens and closes nothing.
    "client/d.cc": "namespace outrider { const char* k = \"{{\"; char b = '{'; const char* r = R\"({ \" {)\"; /* { */\n"
                   "struct Outbox {}; }\n",
    "client/c.cc": "namespace outrider { void Local() { struct Outbox {}; }\n"
                   "struct { int x; } nameless; struct { int y; } too; }\n",
}


def self_test():
    expected = [
        "common/b.h:2: outrider::Outbox",
        "common/b.h:2: outrider::Outbox::Entry",
        "common/b.h:4: outrider::Ring",
        "common/b.h:5: outrider::Verb",
        "client/d.cc:2: outrider::Outbox",
        "server/d.cc:1: Alone",
    ]
    checking.expect(clashes, SELF_TEST, lambda clash: " ".join(clash.split(" ")[:2]), expected)


if __name__ == "__main__":
    checking.main(__doc__, clashes, self_test)
