#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whether --help and the man page name the same options: check-man.py SNOWFLAKECTL MAN-PAGE"""

import re
import subprocess
import sys

COMMANDS = ["id", "decode", "ping", "workers", "registry", "bench", "help"]
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")


def options_in_help(program):
    """The options of the program and of every command. An option begins its line."""
    found = set()
    for command in [[]] + [[name] for name in COMMANDS]:
        text = subprocess.run([program, *command, "--help"], check=True, capture_output=True,
                              text=True, timeout=10).stdout
        for line in text.splitlines():
            if line.startswith("  -"):
                found.update(OPTION.findall(re.split(r" {2,}|=", line.strip())[0]))
    return found


def commands_in_help(program):
    text = subprocess.run([program, "--help"], check=True, capture_output=True, text=True,
                          timeout=10).stdout
    return re.findall(r"^  ([a-z]+) ", text.partition("Commands:")[2], re.MULTILINE)


def options_in_man(path):
    """The options that have a paragraph of their own: the line after .TP."""
    with open(path, encoding="utf-8") as page:
        lines = page.read().replace("\\-", "-").splitlines()
    found = set()
    for tag, line in zip(lines, lines[1:]):
        if tag == ".TP":
            found.update(OPTION.findall(line))
    return found


def main(program, page):
    in_help, in_man = options_in_help(program), options_in_man(page)
    for option in sorted(in_help - in_man):
        print(f"{option} is in --help, not in the man page")
    for option in sorted(in_man - in_help):
        print(f"{option} is in the man page, not in --help")
    same_commands = commands_in_help(program) == COMMANDS
    if not same_commands:
        print(f"--help names the commands {commands_in_help(program)}, not {COMMANDS}")
    if not {"--server", "--json", "-n", "--layout", "-c", "--watch", "--yes"} <= in_help:
        print(f"--help was not understood: found only {sorted(in_help)}")
        return 1
    return 0 if in_help == in_man and same_commands else 1


sys.exit(main(*sys.argv[1:]))
