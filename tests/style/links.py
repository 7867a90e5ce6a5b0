#!/usr/bin/env python3
"""Fails naming each link of a .md file that leads to nothing in the tree.

    links.py ROOT          check the tree under ROOT
    links.py --self-test   show that the check finds what it should, and nothing else

Looked at are links and pictures, [text](path) and ![text](path), with or without a #section, outside of blocks and spans
of code. A section has to be a heading of the page that the link leads to. Links to other places (https:) are not
followed.
"""
import re

import checking

CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ +(.*?)\s*$", re.MULTILINE)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def sections(page):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def complaint(root, page, link):
    """Why `link` on `page` leads nowhere, or None."""
    if re.match(r"[a-z]+:", link):
        return None
    path, _, section = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if not target.is_relative_to(root):
        return "leads out of the tree"
    if not target.exists():
        return "leads to nothing"
    if section and section not in sections(target):
        return f"{target.relative_to(root)} has no such section"
    return None


def broken_links(root):
    found = []
    for page in sorted(root.rglob("*.md")):
        if page.relative_to(root).parts[0] == "build":
            continue
        text = CODE.sub(blank, page.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1):
            for link in LINK.findall(line):
                why = complaint(root, page, link)
                if why:
                    found.append(f"{page.relative_to(root)}:{number}: {link}: {why}")
    return found


def self_test():
    tree = {
        "README.md": "[good](docs/a.md) [good](docs/) [good](docs/a.md#what-it-is) [good](#top)\n# Top\n"
        "[good](https://example.org/x) `[code](gone.md)`\n```\n[code](gone.md)\n```\n",
        "docs/a.md": "# What it is\n[good](../README.md)\n[bad](README.md)\n[worse](../README.md#gone)\n![gone](a.svg)\n"
        "[out](../../etc)\n",
    }
    expected = ["docs/a.md:3", "docs/a.md:4", "docs/a.md:5", "docs/a.md:6"]
    checking.expect(broken_links, tree, lambda complaint: complaint.split(": ")[0], expected)


if __name__ == "__main__":
    checking.main(__doc__, broken_links, self_test)
