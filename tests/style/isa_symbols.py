#!/usr/bin/env python3
"""Fails naming each weak function that an object file of one instruction set defines.

    isa_symbols.py NM OBJECT...          NM is the nm of the toolchain that made the objects
    isa_symbols.py --self-test NM CXX    show that the check finds what it should, and nothing else

An inline function of a header (std::max, say) that is not inlined leaves a weak copy in every object that calls it, and
the linker keeps one of them for the whole program. If that is the one compiled for AVX-512, the program dies on a
processor without it, in a place that never asked. So files with flags of their own hold functions with internal linkage
only, besides the table that they exist for. Weak data (typeinfo, references to the exception personality; sanitizers
make such) is the same bytes whatever the flags, and let pass.
"""
import pathlib
import subprocess
import sys
import tempfile

def weak_functions(nm, objects):
    found = []
    for path in objects:
        listing = subprocess.run([nm, "-C", "--defined-only", path], check=True, capture_output=True, text=True).stdout
        for line in listing.splitlines():
            address, kind, name = line.split(" ", 2)
            if kind == "W":  # V and u are objects
                found.append(f"{path}: {name} is weak: its copy may be the one the whole program uses")
    return found


GOOD = """
namespace { template <class T> struct Twice { T operator()(T x) const { return x + x; } }; }
int Four(int x) { return Twice<int>()(Twice<int>()(x)); }
"""
BAD = """
template <class T> struct Thrice { T operator()(T x) const { return x + x + x; } };
inline int kCount = 3;
int Nine(int x) { return Thrice<int>()(Thrice<int>()(x)) + kCount; }
"""


def self_test(nm, cxx):
    with tempfile.TemporaryDirectory() as name:
        found = {}
        for kind, text in (("good", GOOD), ("bad", BAD)):
            source = pathlib.Path(name) / f"{kind}.cc"
            source.write_text(text)
            subprocess.run([cxx, "-std=c++20", "-O0", "-c", source, "-o", source.with_suffix(".o")], check=True)
            found[kind] = len(weak_functions(nm, [source.with_suffix(".o")]))
    if found != {"good": 0, "bad": 1}:
        sys.exit(f"self-test: found {found}")


def main():
    if len(sys.argv) == 4 and sys.argv[1] == "--self-test":
        self_test(*sys.argv[2:])
        return
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    found = weak_functions(sys.argv[1], sys.argv[2:])
    if found:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    main()
