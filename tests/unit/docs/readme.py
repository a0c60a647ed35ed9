# SPDX-License-Identifier: Apache-2.0
"""Reads README.md and the pages below docs/, for the tests that check them."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
# the directory of the tools below the build, from the command that changes PATH
TOOLS = re.search(r"export PATH=\$PWD/build/(\S+):\$PATH", README.read_text(encoding="utf-8"))[1]

_BLOCK = r"```\w*\n(.*?)```"
_EXAMPLE = rf"<!-- docs/examples/(\S+) -->\n{_BLOCK}"


def sections(text):
    """Returns {heading of any level: text below it}."""
    parts = re.split(r"^#+ (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def without_code(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """Returns the anchors of all headings, like GitHub's."""
    return {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
            for heading in sections(without_code(text))}


def examples():
    """Returns {file name: (its text on a page, the commands in its section that run it)}."""
    found = {}
    for page in PAGES:
        for text in sections(page.read_text(encoding="utf-8")).values():
            for name, snippet in re.findall(_EXAMPLE, text, re.DOTALL):
                blocks = re.findall(_BLOCK, text, re.DOTALL)
                others = [block for block in blocks if block != snippet]
                found[name] = (snippet, "".join(others))
    return found


def table(page, heading):
    """Returns the rows of the table below a heading, as lists of cells, without the header row."""
    rows = [line.strip("| ").split("|")
            for line in sections(page.read_text(encoding="utf-8"))[heading].splitlines()
            if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]
