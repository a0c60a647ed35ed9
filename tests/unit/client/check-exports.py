#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a shared library, a static library and the symbols file of a Debian package have the
names in the library's headers, and no others:
check-exports.py SHARED-LIBRARY STATIC-LIBRARY SYMBOLS HEADER...

In the shared library, each name has the version that it has in the symbols file."""
import re
import subprocess
import sys


def names_in_header(path):
    with open(path, encoding="utf-8") as header:
        return set(re.findall(r"^\w[^;(]*\b(snowflake_\w+)\(", header.read(), re.MULTILINE))


def names_in_library(path, *options):
    """Returns {name: version}; without options, the versions are empty."""
    lines = subprocess.run(["nm", "--extern-only", "--defined-only", *options, path], check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    return dict(re.findall(r"^[0-9a-f]+ [B-Z] (\w+)@*(\S*)$", lines, re.MULTILINE))


def names_for_debian(path):
    with open(path, encoding="utf-8") as symbols:
        return dict(re.findall(r"^ (\w+)@(\S+)", symbols.read(), re.MULTILINE))


def main(shared, static, symbols, *headers):
    wanted = set().union(*map(names_in_header, headers))
    exported = names_in_library(shared, "--dynamic")
    packaged = names_for_debian(symbols)
    places = ((shared, exported), (symbols, packaged), (static, names_in_library(static)))
    faults = [f"{name} is " + (f"not in {place}" if name in wanted else f"only in {place}")
              for place, names in places for name in sorted(wanted ^ names.keys())]
    faults += [f"{name} has version {exported[name]}, in {symbols} {packaged[name]}"
               for name in sorted(exported.keys() & packaged.keys())
               if exported[name] != packaged[name]]
    print(*faults, sep="\n")
    return 0 if wanted and not faults else 1


sys.exit(main(*sys.argv[1:]))
