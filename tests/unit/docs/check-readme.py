#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check-readme.py SNOWFLAKED

Whether README.md agrees with the tree: its examples, and those of docs/reference/thrift.md, with
docs/examples/, its options with the
program's --help, those of its commands too, and whether what it points at is there.
"""
import re
import subprocess
import sys

from readme import EXAMPLES, ROOT, TEXT, examples, table

# at the beginning of a line, which a backslash makes longer, or of code between backticks
COMMAND = r"(?m)(?:^|`)(snowflaked|deploy/quickstart)((?: (?:\\\n|[^`\n])*)?)"
GUIDE = ROOT / "docs" / "how-to" / "databases.md"
LINK = r"\[[^]]*\]\(([^)#:]+)\)"  # to what is in the tree


def check_examples():
    shown = examples()
    linked = re.findall(r"\(\.\./examples/([^)]+)\)", GUIDE.read_text())
    for path in sorted(EXAMPLES.iterdir()):
        # a file of its own needs a license, and a script its interpreter
        text = re.sub(r"\A(?:#!.*\n)?.*SPDX-License-Identifier.*\n", "", path.read_text())
        if path.name in linked:
            continue  # and run by the guide's test
        if path.name not in shown:
            yield f"docs/examples/{path.name} is not shown"
        elif shown.pop(path.name)[0] != text:
            yield f"docs/examples/{path.name} is not what is shown"
    for name in shown:
        yield f"docs/examples/{name} is shown, but is not there"


def help_of(program):
    return subprocess.run([program, "--help"], check=True, capture_output=True, text=True,
                          timeout=60).stdout


def options_in_help(program):
    """--name ARGUMENT -> default, or "" if there is none."""
    entries = re.findall(r"^  (--[a-z-]+(?: [A-Z:]+)?)(?:  +|\n +)(.*\n(?: {10,}.*\n)*)",
                         help_of(program), re.MULTILINE)
    found = {}
    for usage, description in entries:
        default = re.search(r"default (.*)\)$", " ".join(description.split()))
        found[usage] = default[1] if default else ""
    return found


def check_options(program):
    known = options_in_help(program)
    for usage, default, _ in table("Options"):
        usage, default = usage.strip("`"), default.strip("`")
        if usage not in known:
            yield f"the option {usage} is not in --help"
        elif default != known[usage]:
            yield f"the default of {usage} is {known[usage]!r}, not {default!r}"


def check_commands(snowflaked):
    programs = {"snowflaked": snowflaked, "deploy/quickstart": ROOT / "deploy" / "quickstart"}
    known = {name: re.findall(r"(?m)^  (--[a-z-]+)", help_of(program))
             for name, program in programs.items()}
    for name, arguments in re.findall(COMMAND, TEXT):
        for option in re.findall(r" (--[a-z-]+)", arguments):
            if option not in known[name]:
                yield f"the option {option} of {name} is not in --help"


def check_paths():
    for path, _ in table("Where things are"):
        if not re.fullmatch(LINK, path):
            yield f"{path} in \"Where things are\" is not a link"
    for target in re.findall(LINK, TEXT):
        if not (ROOT / target).exists():
            yield f"{target} is not there"


def main(program):
    problems = [*check_examples(), *check_options(program), *check_commands(program),
                *check_paths()]
    for problem in problems:
        print(f"README.md: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
