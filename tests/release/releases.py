# SPDX-License-Identifier: Apache-2.0
"""The releases under test, and the packages of an earlier version."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# The last release; until there is one, the last commit that is not in the version of its packages.
EARLIER = "fe32b8b4"
KEY = "release@snowflake.invalid"


def run(*command, status=0, **settings):
    """Runs a command. Returns its output. Fails on another exit status."""
    done = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **settings)
    if done.returncode != status:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def clone(source, directory, revision="HEAD"):
    if not directory.exists():
        directory.parent.mkdir(exist_ok=True)
        run("git", "clone", "--quiet", source, directory)
        run("git", "-C", directory, "checkout", "--quiet", revision)


def with_key(work):
    """Returns an environment with the key that signs."""
    return {**os.environ, "GNUPGHOME": str(work / "gnupg")}


def make_key(work):
    (work / "gnupg").mkdir(mode=0o700)
    run("gpg", "--batch", "--passphrase", "", "--quick-generate-key", KEY, env=with_key(work))


def stop_agent(work):
    run("gpgconf", "--kill", "gpg-agent", env=with_key(work))


def prepare(work):
    """Makes a signed release and another one from clones in different directories, and the packages
    of the earlier version, unless they are there."""
    if not (work / "gnupg").exists():
        make_key(work)
    sources, others = work / "a", work / "elsewhere" / "sources"
    clone(ROOT, sources)
    clone(sources, others)  # also if there is a new commit in the meantime
    for directory, tree, options in (("signed", sources, ("--sign", KEY)), ("other", others, ())):
        if not (work / directory).exists():
            print(run(tree / "deploy/release", *options, work / directory, env=with_key(work)))
    if not (work / "earlier").exists():
        clone(ROOT, work / "earlier-sources", EARLIER)
        (work / "earlier").mkdir()
        run(work / "earlier-sources" / "deploy/build-deb", work / "earlier",
            env={**os.environ, "DEB_BUILD_OPTIONS": "nocheck"})
