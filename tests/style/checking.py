"""What the checks of this folder have in common: they walk a tree, or show themselves that they would find something."""
import pathlib
import sys
import tempfile


def main(doc, complaints, self_test):
    """For the command line ROOT, or --self-test; `complaints(root)` lists what is wrong under a root."""
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        return
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(doc)
    found = complaints(pathlib.Path(sys.argv[1]).resolve())
    if found:
        sys.exit("\n".join(found))


def expect(complaints, tree, places, expected):
    """Fails unless the complaints about a tree, {path: text}, are about the places expected."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name).resolve()
        for path, text in tree.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        found = sorted(places(complaint) for complaint in complaints(root))
    if found != sorted(expected):
        sys.exit(f"self-test: found {found}, expected {sorted(expected)}")
