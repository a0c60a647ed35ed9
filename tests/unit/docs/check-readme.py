#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check-readme.py SNOWFLAKED SNOWFLAKECTL

Checks README.md and the pages below docs/ against the tree: the examples against docs/examples/,
the options in tables and commands against --help, and the links, with their anchors. Prints each
difference.
"""
import re
import subprocess
import sys

from readme import EXAMPLES, PAGES, README, ROOT, anchors, examples, table, without_code

CONFIGURATION = ROOT / "docs" / "reference" / "configuration.md"
DATABASES = ROOT / "docs" / "how-to" / "databases.md"
SOURCE_TREE = ROOT / "docs" / "internals" / "source-tree.md"
OTHER_PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]

# a command at the start of a line, with its continuation lines, or between backticks
COMMAND = r"(?m)(?:^|`)({})((?: (?:\\\n|[^`\n])*)?)"
LINK = r"\[[^]]*\]\(([^)#:\s]*)(?:#([^)\s]*))?\)"  # a link to a file in the tree
MIN_LINKS = 100


def name_of(page):
    return str(page.relative_to(ROOT))


def check_examples():
    shown = examples()
    linked = re.findall(r"\(\.\./examples/([^)]+)\)", DATABASES.read_text(encoding="utf-8"))
    for path in sorted(EXAMPLES.iterdir()):
        # unlike the page, a file has a license line, and a script an interpreter line
        text = re.sub(r"\A(?:#!.*\n)?.*SPDX-License-Identifier.*\n", "", path.read_text())
        if path.name in linked:
            continue  # the test of that page runs it
        if path.name not in shown:
            yield f"no page shows docs/examples/{path.name}"
        elif shown.pop(path.name)[0] != text:
            yield f"docs/examples/{path.name} differs from its page"
    for name in shown:
        yield f"a page shows docs/examples/{name}, which does not exist"


def help_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


def options_in_help(program):
    """Returns {"--name ARGUMENT": default, or "" if there is none}."""
    entries = re.findall(r"^  (--[a-z-]+(?: [A-Z:]+)?)(?:  +|\n +)(.*\n(?: {10,}.*\n)*)",
                         help_of(program, "--help"), re.MULTILINE)
    found = {}
    for usage, description in entries:
        default = re.search(r"default (.*)\)$", " ".join(description.split()))
        found[usage] = default[1] if default else ""
    return found


def check_options(program):
    known = options_in_help(program)
    for usage, default, _ in table(CONFIGURATION, "Options"):
        usage, default = usage.strip("`"), default.strip("`")
        if usage not in known:
            yield f"the option {usage} is not in --help"
        elif default != known[usage]:
            yield f"the default of {usage} is {known[usage]!r}, not {default!r}"


def check_commands(snowflaked):
    programs = {"snowflaked": snowflaked, "deploy/quickstart": ROOT / "deploy" / "quickstart"}
    known = {name: re.findall(r"(?m)^  (--[a-z-]+)", help_of(program, "--help"))
             for name, program in programs.items()}
    for page in PAGES:
        for name, arguments in re.findall(COMMAND.format("|".join(known)),
                                          page.read_text(encoding="utf-8")):
            for option in re.findall(r" (--[a-z-]+)", arguments):
                if option not in known[name]:
                    yield f"{name_of(page)}: {name} --help does not list {option}"


def check_tool_commands(snowflakectl):
    """Checks that the help of each command lists the options in command lines."""
    commands = re.findall(r"(?m)^  ([a-z]+) +[A-Z]", help_of(snowflakectl, "--help"))
    known = {command: re.findall(r"(--[a-z-]+)", help_of(snowflakectl, "help", command))
             for command in commands}
    for page in PAGES:
        for _, arguments in re.findall(COMMAND.format("snowflakectl"),
                                       page.read_text(encoding="utf-8")):
            words = re.sub(r"\s#.*|[|;&>].*", "", arguments).split()
            command = next((word for word in words if word in known), None)
            if command is None:
                continue  # no command, as in `snowflakectl --zookeeper`
            for option in [word.split("=")[0] for word in words if word.startswith("--")]:
                if option not in known[command]:
                    yield f"{name_of(page)}: snowflakectl help {command} does not list {option}"


def check_links():
    count = 0
    for page in [*PAGES, *OTHER_PAGES]:
        text = without_code(page.read_text(encoding="utf-8"))
        links = [*re.findall(LINK, text), *[(path, "") for path in re.findall(
            r'(?:src|srcset)="([^":]+)"', text)]]
        count += len(links)
        for path, anchor in links:
            target = page.parent / path if path else page
            if not target.exists():
                yield f"{name_of(page)}: {path} does not exist"
            elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
                yield f"{name_of(page)}: {path} has no heading for #{anchor}"
    if count < MIN_LINKS:
        yield f"only {count} links were found"


def check_source_tree():
    for path, _ in table(SOURCE_TREE, "Directories"):
        if not re.fullmatch(LINK, path):
            yield f"{name_of(SOURCE_TREE)}: {path} is not a link"


def check_index():
    """Checks that docs/README.md links to each page below docs/."""
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / path).resolve()
              for path, _ in re.findall(LINK, index.read_text(encoding="utf-8"))}
    for page in PAGES:
        if page not in (README, index) and page not in linked:
            yield f"docs/README.md does not link to {name_of(page)}"


def main(snowflaked, snowflakectl):
    problems = [*check_examples(), *check_options(snowflaked), *check_commands(snowflaked),
                *check_tool_commands(snowflakectl), *check_links(), *check_source_tree(),
                *check_index()]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
