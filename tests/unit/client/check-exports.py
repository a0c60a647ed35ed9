#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that a library, and the symbols file of its Debian package, contain exactly the names in
its headers: check-exports.py SHARED-LIBRARY STATIC-LIBRARY SYMBOLS HEADER...

An archive cannot hide names from its program. The prefixes of additional names in the client
library's archive are listed, so that it does not grow by accident."""

import re
import subprocess
import sys

FROM_WITHIN = ("LAYOUT_", "address_", "batch_", "client_", "clock_", "fork_guard_", "fork_mark_",
               "id_error_", "id_text_", "layout_", "pool_", "random_", "resolution_",
               "socket_", "system_clock_", "text_", "thrift_reader_", "tls_client_", "tls_context_",
               "tls_error_", "tls_names_", "tls_stream_", "ulid_", "useragent_", "uuid7_",
               "uuid_",
               "__x86.")  # the compiler's, for position-independent code on i386


def names_in_header(path):
    with open(path, encoding="utf-8") as header:
        return set(re.findall(r"^SNOWFLAKE_[A-Z]+_EXPORT[^;]*?(\w+) ?\(", header.read(),
                              re.MULTILINE))


def names_in_library(path, *options):
    lines = subprocess.run(["nm", "--extern-only", "--defined-only", *options, path], check=True,
                           stdout=subprocess.PIPE, text=True, timeout=10).stdout.splitlines()
    return {line.split()[-1] for line in lines if re.match(r"[0-9a-f]+ [A-Z] ", line)}


def names_for_debian(path):
    with open(path, encoding="utf-8") as symbols:
        return set(re.findall(r"^ (\w+)@", symbols.read(), re.MULTILINE))


def main(shared, static, symbols, *headers):
    wanted = set().union(*map(names_in_header, headers))
    exported = names_in_library(shared, "--dynamic")
    linked = {name for name in names_in_library(static) if not name.startswith(FROM_WITHIN)}
    packaged = names_for_debian(symbols)
    for name in sorted(wanted ^ packaged):
        print(f"{name} is " + ("not" if name in wanted else "of no header, and") + f" in {symbols}")
    for name in sorted(wanted ^ exported):
        print(f"{name} is " + ("not exported" if name in wanted else "exported, in no header"))
    for name in sorted(wanted ^ linked):
        print(f"{name} is " + ("not" if name in wanted else "of no file that belongs") +
              " in the static library")
    return 0 if wanted and wanted == exported == linked == packaged else 1


sys.exit(main(*sys.argv[1:]))
