# SPDX-License-Identifier: Apache-2.0
"""The packages under test, and the minimal Debian in which they are installed."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Packages of a machine with systemd, tools for the tests, and a compiler for programs that use the
# library.
MACHINE = ("systemd-sysv", "dbus", "curl", "gcc", "libc6-dev", "pkg-config")


def output(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def field(package, name):
    return output("dpkg-deb", "--field", package, name).strip()


def build(directory):
    directory.mkdir()
    subprocess.run((ROOT / "deploy" / "build-deb", directory), check=True)


def paths(directory):
    """Returns the paths of the packages in the directory by name, without debugging symbols."""
    found = (path for path in directory.glob("*.deb") if "-dbgsym_" not in path.name)
    return {field(path, "Package"): path for path in found}


def newer(directory, target):
    """Packages of the next version with the same contents."""
    target.mkdir()
    for path in paths(directory).values():
        tree = target / "tree"
        subprocess.run(("dpkg-deb", "--raw-extract", path, tree), check=True)
        control = tree / "DEBIAN" / "control"
        version = re.escape(field(path, "Version"))
        control.write_text(re.sub(rf"^(Version: {version}|.*\(= {version})", r"\1+1",
                                  control.read_text(), flags=re.MULTILINE))
        subprocess.run(("dpkg-deb", "--build", "--root-owner-group", tree, target),
                       check=True, stdout=subprocess.DEVNULL)
        subprocess.run(("rm", "-r", tree), check=True)


def dependencies(directory):
    """Returns the dependencies of the packages other than each other."""
    ours = paths(directory)
    for path in ours.values():
        for dependency in field(path, "Depends").split(","):
            name = dependency.split("|")[0].split("(")[0].strip()
            if name not in ours:
                yield name


def make_root(directory, root):
    """Makes a minimal Debian with the packages' dependencies, but without the packages."""
    codename = re.search(r"^VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text(),
                         re.MULTILINE)[1]
    include = ",".join(sorted({*MACHINE, *dependencies(directory)}))
    subprocess.run(("mmdebstrap", "--variant=minbase", f"--include={include}", codename, root),
                   check=True)
