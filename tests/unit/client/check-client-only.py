#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and installs the client library alone (-Dclient-only=true), and an example with it, by
pkg-config: with the shared library, and with the static one: check-client-only.py SOURCE."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

NEEDED = {"glib-2.0", "gio-2.0", "openssl", "threads"}


def run(*command, **environment):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **environment}).stdout


def main(source):
    with tempfile.TemporaryDirectory() as directory:
        build, root = pathlib.Path(directory, "build"), pathlib.Path(directory, "root")
        run("meson", "setup", build, source, "-Dclient-only=true", "--buildtype=debug",
            f"--prefix={root}")
        dependencies = json.loads(run("meson", "introspect", "--dependencies", build))
        assert {one["name"] for one in dependencies} == NEEDED, dependencies
        targets = json.loads(run("meson", "introspect", "--targets", build))
        assert len(targets) == 3, [one["name"] for one in targets]
        run("meson", "install", "-C", build)
        example = pathlib.Path(source, "docs", "examples", "read-id.c")
        libraries = root / "lib"
        for linking in ([], ["--static"]):
            flags = run("pkg-config", "--cflags", "--libs", *linking, "snowflake-client",
                        PKG_CONFIG_PATH=str(libraries / "pkgconfig")).split()
            program = pathlib.Path(directory, "read-id")
            if linking:
                (libraries / "libsnowflake-client.so").unlink()
            run("cc", "-o", program, example, *flags)
            shown = run(program, "1724551110456385539", LD_LIBRARY_PATH=str(libraries))
            assert shown.startswith("worker "), shown


main(*sys.argv[1:])
