# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/reference/thrift.md say, for the tests that hold them to that."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "docs" / "examples"
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
_THRIFT = (ROOT / "docs" / "reference" / "thrift.md").read_text(encoding="utf-8")
# where it says that the tools are, below the build
TOOLS = re.search(r"export PATH=\$PWD/build/(\S+):\$PATH", TEXT)[1]

_BLOCK = r"```\w*\n(.*?)```"
_EXAMPLE = rf"<!-- docs/examples/(\S+) -->\n{_BLOCK}"


def sections(text=TEXT):
    """Of the headings of all levels: heading -> text below it."""
    parts = re.split(r"^#+ (.*)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def examples():
    """File name -> its text there and, if there are any, the commands that run it."""
    found = {}
    for text in [*sections().values(), *sections(_THRIFT).values()]:
        for name, snippet in re.findall(_EXAMPLE, text, re.DOTALL):
            others = [block for block in re.findall(_BLOCK, text, re.DOTALL) if block != snippet]
            found[name] = (snippet, "".join(others))
    return found


def table(heading):
    """The rows of the table below a heading, as lists of cells, without the head."""
    rows = [line.strip("| ").split("|") for line in sections()[heading].splitlines()
            if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]
