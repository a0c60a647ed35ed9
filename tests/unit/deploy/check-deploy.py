#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""check-deploy.py SNOWFLAKECTL VERSION SERVICE...

Checks that deploy/ agrees with the tree and with itself: the packages' build dependencies and
version, the addresses of the socket unit and the relay, that a relay starts only if its servers are
configured, that the image sets no option, that dpkg does not wait for a server, that a failed
reload fails, and the privileges of each SERVICE, a systemd unit. Without systemd-analyze, the last
check is skipped.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

DEPLOY = pathlib.Path(__file__).resolve().parent.parent.parent.parent / "deploy"
# Packages that Debian assumes, or that meson depends on.
NOT_NAMED = {"gcc", "libc6-dev", "ninja-build"}
EXPOSURE = 15  # in tenths, at most 100


def find(pattern, path):
    return re.search(pattern, (DEPLOY / path).read_text(), re.MULTILINE | re.DOTALL)[1]


def check_build_depends():
    wanted = set(find(r"^BUILD=\((.*?)\)", "install-packages").split()) - NOT_NAMED
    named = find(r"^Build-Depends:(.*?)^\S", "debian/control")
    named = set(re.findall(r"^ ([\w.+-]+)", named, re.MULTILINE)) - {"debhelper-compat"}
    for package in sorted(wanted ^ named):
        yield f"{package} is in one of install-packages and debian/control, not in the other"


def check_version(version):
    newest = find(r"\A\w+ \((.*?)\)", "debian/changelog")
    if newest != version:
        yield f"debian/changelog is of {newest}, meson.build of {version}"


def check_kubernetes(version):
    """Images have the version as their tag, and the alerts are those of other installations."""
    for path in sorted((DEPLOY / "kubernetes").rglob("*.yaml")):
        for tag in re.findall(r"^ *image: snowflaked:(\S+)$", path.read_text(), re.MULTILINE):
            if tag != version:
                yield f"{path} has the image of {tag}, meson.build is of {version}"
    printed = subprocess.run((DEPLOY / "monitoring/customize-alerts", "--kubernetes"), check=True,
                             capture_output=True, text=True, timeout=60).stdout
    if printed != (DEPLOY / "kubernetes/monitoring/prometheus-rule.yaml").read_text():
        yield ("run deploy/monitoring/customize-alerts --kubernetes >"
               "deploy/kubernetes/monitoring/prometheus-rule.yaml")


def git(directory, *arguments):
    """With a time and a name of its own, whatever the configuration of this machine is."""
    who = {f"GIT_{role}_{what}": value for role in ("AUTHOR", "COMMITTER") for what, value in
           (("NAME", "a"), ("EMAIL", "a@b.example"), ("DATE", "2026-01-31T12:00:00 +0200"))}
    subprocess.run(("git", "-C", directory, "-c", "commit.gpgsign=false", "-c",
                    "tag.gpgsign=false", *arguments), check=True, timeout=60, capture_output=True,
                   env={**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null"})


def version_of(tree, **environment):
    return subprocess.run((tree / "deploy/version",), capture_output=True, text=True, timeout=60,
                          check=True, env={**os.environ, **environment}).stdout.rstrip("\n")


def archived_version(tree, directory):
    git(tree, "archive", f"--output={directory}.tar", "HEAD")
    directory.mkdir(exist_ok=True)
    subprocess.run(("tar", "-x", "-C", directory, "-f", f"{directory}.tar"), check=True)
    return version_of(directory)


def check_versions(version):
    """What deploy/version prints: for commits, releases and archives of them, and without git."""
    with tempfile.TemporaryDirectory() as directory:
        tree, archive = (pathlib.Path(directory, name) for name in ("tree", "archive"))
        (tree / "deploy").mkdir(parents=True)
        for name in ("meson.build", "deploy/version", ".gitattributes"):
            shutil.copy(DEPLOY.parent / name, tree / name)
        bare = version_of(tree)
        given = version_of(tree, SNOWFLAKE_VERSION="7.8.9")
        git(tree, "init", "--quiet")
        git(tree, "add", ".")
        git(tree, "commit", "--message=a")
        git(tree, "tag", "elsewhere")
        snapshot = version_of(tree)
        found = {"without git": (bare, re.escape(version)), "given": (given, "7.8.9"),
                 "a commit": (snapshot, re.escape(version) + r"\+git20260131100000\.[0-9a-f]{12}")}
        found["an archive of it"] = (archived_version(tree, archive), re.escape(snapshot))
        git(tree, "tag", f"v{version}")
        found["a release"] = (version_of(tree), re.escape(version))
        found["an archive of a release"] = (archived_version(tree, archive), re.escape(version))
        archived = (archive / "deploy/version").read_text()
        git(tree, "branch", "other")
        archived_version(tree, archive)
        found["an archive from a clone with other branches"] = (
            (archive / "deploy/version").read_text(), re.escape(archived))
    for what, (printed, expected) in found.items():
        if not re.fullmatch(expected, printed):
            yield f"deploy/version, {what}: {printed}, not {expected}"


def check_binary_version(snowflakectl, version):
    printed = subprocess.run((snowflakectl, "--version"), capture_output=True, text=True,
                             timeout=60).stdout
    snapshot = r"(\+git\d{14}\.[0-9a-f]{12})?"
    if not re.fullmatch(rf"snowflakectl {re.escape(version)}{snapshot}\n", printed):
        yield f"snowflakectl --version prints {printed}"


def check_socket():
    address = find(r"^#listen=(\S+)", "snowflaked.conf")
    listens = find(r"^ListenStream=(\S+)", "snowflaked.socket")
    if listens != address:
        yield f"snowflaked.socket listens on {listens}, the server on {address}"


def check_relay(snowflakectl):
    text = (DEPLOY / "snowflaked-relay.conf").read_text()
    address = find(r"^#listen=(\S+)", "snowflaked.conf")
    directory = find(r"^RuntimeDirectory=(\S+)", "snowflaked-relay.service.in")
    if f"\nlisten={address};unix:/run/{directory}/" not in text:
        yield f"snowflaked-relay.conf does not listen on {address} and in /run/{directory}"
    needs_relay = "relay-discover: has no effect without relay; remove it"
    for config, status, words in ((text, 1, needs_relay),
                                  (text.replace("\n#relay=", "\nrelay="), 0, "")):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(config)
            file.flush()
            done = subprocess.run((snowflakectl, "config", "check", file.name),
                                  capture_output=True, text=True, timeout=60)
        if done.returncode != status or words not in done.stderr:
            yield f"snowflaked-relay.conf: {done.returncode}, not {status}: {done.stderr}"


def check_image():
    """An option of the image would replace the same option of a config file, silently."""
    entry, health = (json.loads(find(rf"^{key}(\[.*?\])$", "Dockerfile"))
                     for key in ("ENTRYPOINT ", "HEALTHCHECK .*?CMD "))
    if entry != ["snowflaked"] or re.search(r"^CMD", (DEPLOY / "Dockerfile").read_text(), re.M):
        yield f"the image has options of its own: {entry}"
    if health[0] != "curl" or health[-1] != "http://127.0.0.1:9990/livez":
        yield f"the health check does not use the admin port, which has no TLS: {health}"


def check_service(service):
    """SIGHUP alone has no exit status, so the last command of a reload has one."""
    text = pathlib.Path(service).read_text()
    config = re.search(r"^ExecStart=\S+ --config=(\S+)$", text, re.MULTILINE)[1]
    if "ExecReload=/bin/kill" in text:
        yield f"{service}: a Debian without procps has no /bin/kill"
    last = re.findall(r"^ExecReload=(.*)$", text, re.MULTILINE)[-1]
    if not last.endswith(f"/snowflakectl config check {config}"):
        yield f"{service}: systemctl reload succeeds if the server cannot use {config}"
    if "\nRestartPreventExitStatus=2\n" not in text:
        yield f"{service}: systemd repeatedly starts a server without its certificate"


def check_scripts():
    """debhelper's commands wait until the services are ready, and dpkg with them."""
    rules = find(r"^override_dh_installsystemd:\n(.*)", "debian/rules")
    for line in rules.splitlines():
        if not {"--no-start", "--no-restart-after-upgrade"} <= set(line.split()):
            yield f"debian/rules: dpkg waits until a server issues IDs: {line.strip()}"
    for line in (DEPLOY / "debian/snowflaked.postinst").read_text().splitlines():
        if re.search(r"systemctl .*(start|\$1)", line) and "--no-block" not in line:
            yield f"debian/snowflaked.postinst: dpkg waits: {line.strip()}"


def check_exposure(service):
    if shutil.which("systemd-analyze") is None:
        return
    analyzed = subprocess.run(
        ("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager",
         service), capture_output=True, text=True, timeout=60)
    if analyzed.returncode != 0 or "Overall exposure level" not in analyzed.stdout:
        yield f"systemd-analyze: {analyzed.stderr}{analyzed.stdout}"


def main():
    snowflakectl, version, *services = sys.argv[1:]
    problems = [*check_build_depends(), *check_version(version), *check_versions(version),
                *check_binary_version(snowflakectl, version), *check_kubernetes(version),
                *check_socket(),
                *check_relay(snowflakectl), *check_image(), *check_scripts(),
                *(problem for service in services
                  for problem in (*check_service(service), *check_exposure(service)))]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
