#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that --help and the man page have the same options, that the man page lists the keys of
config files and their variables, and that the help of each command fits 80 columns:
check-man.py SNOWFLAKECTL MAN-PAGE"""

import json
import re
import subprocess
import sys

COMMANDS = ["id", "ulid", "uuid", "decode", "layouts", "range", "ping",
            "status", "workers", "top", "registry", "audit", "config", "bench", "completion",
            "help"]
COLUMNS = 80
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")


def help_of(program, *command):
    return subprocess.run([program, *command, "--help"], check=True, capture_output=True,
                          encoding="utf-8").stdout


def options_in_help(texts):
    """Returns the options in the help, which begin lines."""
    found = set()
    for text in texts:
        for line in text.splitlines():
            if line.startswith("  -"):
                found.update(OPTION.findall(re.split(r" {2,}|=", line.strip())[0]))
    return found


def commands_in_help(text):
    return re.findall(r"^  ([a-z]+) ", text.partition("Commands:")[2], re.MULTILINE)


def options_in_man(path):
    """Returns the options that have a paragraph: the line after .TP."""
    with open(path, encoding="utf-8") as page:
        lines = page.read().replace("\\-", "-").splitlines()
    found = set()
    for tag, line in zip(lines, lines[1:]):
        if tag == ".TP":
            found.update(OPTION.findall(line))
    return found


def settings_of(program):
    """Returns the lines in which the man page lists keys and variables."""
    shown = subprocess.run([program, "--json", "config", "show"], check=True, capture_output=True,
                           env={"XDG_CONFIG_HOME": "/nonexistent"}, encoding="utf-8")
    return [f'.BR {each["option"]} ", " {each["variable"]}' for each in json.loads(shown.stdout)]


def settings_in_man(path):
    with open(path, encoding="utf-8") as page:
        lines = page.read().replace("\\-", "-").splitlines()
    return [line for line in lines if re.fullmatch(r'\.BR [a-z-]+ ", " SNOWFLAKE_[A-Z_]+', line)]


def main(program, page):
    texts = [help_of(program), *(help_of(program, name) for name in COMMANDS)]
    in_help, in_man = options_in_help(texts), options_in_man(page)
    for option in sorted(in_help - in_man):
        print(f"{option} is in --help, not in the man page")
    for option in sorted(in_man - in_help):
        print(f"{option} is in the man page, not in --help")
    same_commands = commands_in_help(texts[0]) == COMMANDS
    if not same_commands:
        print(f"--help names the commands {commands_in_help(texts[0])}, not {COMMANDS}")
    settings, settings_man = settings_of(program), settings_in_man(page)
    if settings != settings_man:
        print(f"config show has {settings}, the man page {settings_man}")
    wide = [line for text in texts for line in text.splitlines() if len(line) > COLUMNS]
    for line in wide:
        print(f"{len(line)} columns, {COLUMNS} at most: {line}")
    if not {"--server", "--json", "-n", "--layout", "-c", "--reservations", "--yes"} <= in_help:
        print(f"--help was not understood: found only {sorted(in_help)}")
        return 1
    return 0 if in_help == in_man and same_commands and not wide \
        and settings and settings == settings_man else 1


sys.exit(main(*sys.argv[1:]))
