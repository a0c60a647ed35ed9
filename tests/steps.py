# SPDX-License-Identifier: Apache-2.0
"""The steps of tests/run, and their tiers."""
import argparse
import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import runner
import runner_selftest
from runner import CHAOS, COMPUTES, LIMIT_S, WAITS, Step, check, meson, suite

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILDS = pathlib.Path(os.environ.get("SNOWFLAKE_TEST_BUILDS", ROOT / "build-tests"))
GO_CACHE = os.environ.get("GOCACHE", f"{BUILDS}/go-cache")
PROCESSORS = len(os.sched_getaffinity(0))
CHAOS_S, LONG_CHAOS_S = 60, 3600
SIMULATION_S, LONG_SIMULATION_S = 60, 3600  # CPU time
FUZZ_S = 300  # for each target
TMPFS, TMPFS_LEAST = "/dev/shm", 2 << 30  # bytes that must be free

QUICK, USUAL, FULL = "quick", "usual", "full"
TIERS = {
    QUICK: "lint, and the release build with a smoke test of each area",
    USUAL: "what continuous integration runs, in 10 minutes on two idle cores",
    FULL: "all tests on each build, the long ones too; some hours",
}
ALL, MORE = (QUICK, USUAL, FULL), (USUAL, FULL)

# Tests of each area, for the build that users install.
SMOKE = (
    "test_admin.Ids", "test_audit.Full", "test_batches.Batches.test_runs",
    "test_batches.OtherServers", "test_bench.Report", "test_calls.Calls.", "test_contract",
    "test_ctl_fleet.Relays.", "test_drain.Limits", "test_journal.AsJson", "test_lifecycle.Start",
    "test_local.Passed", "test_metrics.Calls.", "test_multiplexed.Multiplexed.",
    "test_parking.FullRate", "test_passed_sockets", "test_pool.Discovery", "test_pool.Forks",
    "test_relay.Local", "test_snowflakectl.Asking", "test_wire.SplitWrites.",
    "test_state.Disks", "test_tls.Allowed", "test_wire.Forms.test_every_form",
    "test_workers.FromServers", "test_zookeeper.Stop")
# Tests that a sanitizer build skips: sanitizers change memory use, libfaketime does not work with
# them, and some tests do not depend on the build.
UNSANITIZED = (
    "Hostile.test_memory_has_a_bound", "States.test_the_end_after_a_failure",
    "test_bad_input.Costs", "test_crowd.Memory", "Embedded.test_fork_under_load",
    "Calls.test_memory_is_what_the_manual_says", "Stop.test_a_loop_that_cannot_go_on",
    "Pending.test_input_does_not_pile_up", "Pending.test_unread_replies",
    "Quarantine.test_zookeepers_clock", "Running.test_the_disk_hangs", "test_quickstart",
    "test_state.Steps", "test_using_ids.Databases", "test_zookeeper_start.Clock",
    "test_zookeeper_status.Clocks", "test_zookeeper_troubles.Lies")
# Tests under ThreadSanitizer: threads, loops, handshakes and their order.
THREADED = (
    "test_admin.Ids", "test_audit.File.test_every_id", "test_audit.File.test_rotated",
    "test_audit.Load.test_many", "test_audit.ToScribe.test_it_dies", "test_crowd.Spread",
    "test_drain.Crossing", "test_drain.Delay.test_it_says_so", "test_drain.Limits.test_all_loops",
    "Fleets.test_many_lists",
    "Hostile.test_connections_beyond", "Hostile.test_resets", "Hostile.test_two_thousand",
    "InTheJournal.test_it_takes_nothing", "test_lifecycle.Stop.test_a_keeper_that_hangs",
    "test_lifecycle.Stop.test_several_signals", "test_lifecycle.Stop.test_what_was_sent",
    "FirstStart.test_one_name", "Parking.test_clients_that_leave", "Parking.test_in_order",
    "Parking.test_other_calls", "test_pool.ComeAndGo", "test_pool.Forks",
    "StopUnderPressure.test_connections", "StopUnderPressure.test_the_limit",
    "StopUnderPressure.test_what_came_behind_a_call", "test_relay.Failures.test_a_restart",
    "test_relay.Failures.test_servers_restarted", "test_relay.Promises.test_many_clients",
    "Replies.test_among_clients_that_reset_on_two", "test_tls.Crowd.test_a_stop",
    "test_tls.Crowd.test_a_thousand", "Replaced.test_under_load", "Batches.test_a_million",
    "test_zookeeper.Stop", "Lists.test_stopping", "Lists.test_many_who_ask")

# Tests that run under qemu, which does not report everything about a process to it.
FOREIGN = (
    "test_batches.Batches.test_runs", "test_calls.Calls.", "test_parking.FullRate",
    "test_snowflakectl.Asking", "test_snowflakectl.Decode.test_forms",
    "test_snowflakectl.Decode.test_rejects", "test_tls.Calls.test_every_form",
    "test_wire.Forms.test_every_form")

SANITIZED = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1",
    "LSAN_OPTIONS": f"suppressions={ROOT}/tests/lsan.suppressions:print_suppressions=0",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # a test of embedded nodes starts threads in a forked child: clang's TSan forbids it by default
    "TSAN_OPTIONS": f"halt_on_error=1:die_after_fork=0:suppressions={ROOT}/tests/tsan.suppressions",
}


# Options of builds whose programs run: not too slow, and with line numbers in backtraces.
WATCHED = ("-Doptimization=1", "-Dc_args=-g1", "-Dbench=disabled", "-Dc_link_args=-fuse-ld=gold")


def program(path, *arguments):
    return (str(ROOT / path), *map(str, arguments))


def build(name, tiers, *options, **environment):
    """Builds the default targets. Without names, ninja would also build the unit tests."""
    script = (
        '{ [ -e "$0/build.ninja" ] || meson setup "$0" "$@"; } && '
        'meson introspect --targets "$0" | jq -r --arg in "$(realpath "$0")/" '
        '".[] | select(.build_by_default) | .filename[0] | ltrimstr(\\$in)" | '
        'xargs ninja -C "$0"')
    return Step(f"{name}: build", tiers, COMPUTES, (), (
        "bash", "-o", "pipefail", "-c", script, str(BUILDS / name), str(ROOT), *options), check,
        environment)


def unit_tests(name, tiers, under=(), options=()):
    """`meson test` builds the test programs, too: the build step leaves them out."""
    directory = BUILDS / name
    script = 'rm -f "$0" && exec "$@"'
    return Step(f"{name}: unit tests", tiers, COMPUTES, (f"{name}: build",), (
        "sh", "-c", script, str(directory / "meson-logs" / "testlog.json"), *under,
        "meson", "test", "-C", str(directory), "--print-errorlogs", *options),
        meson(directory), {"GOCACHE": GO_CACHE} if name == "release" else {
            **SANITIZED,
            # ThreadSanitizer does not see how GLib's own allocator passes memory between threads
            **({"G_SLICE": "always-malloc"} if name == "tsan" else {})})


def integration_tests(name, tiers, jobs, patterns=(), under=(), **environment):
    """jobs: per processor."""
    return Step(f"{name}: integration tests", tiers, WAITS, (f"{name}: build",), (
        *under, *program("tests/integration/run.py", "--build", BUILDS / name, "--jobs",
                         jobs * PROCESSORS, *patterns)), suite("integration"),
        {"GOCACHE": GO_CACHE,
         "SNOWFLAKE_CLIENTS": f"{BUILDS}/clients",
         **({} if name == "release" else SANITIZED), **environment})


def foreign(architecture):
    """Steps for another architecture: build everything, then run unit tests and a smoke test of the
    server and snowflakectl under qemu."""
    directory = BUILDS / architecture
    return [
        Step(f"{architecture}: build", (FULL,), COMPUTES, (),
             program("tests/foreign/build", architecture, directory), check),
        Step(f"{architecture}: unit tests", (FULL,), COMPUTES, (f"{architecture}: build",),
             program("tests/foreign/unit-tests", directory), meson(directory)),
        Step(f"{architecture}: integration tests", (FULL,), WAITS, (f"{architecture}: build",),
             program("tests/integration/run.py", "--build", directory / "programs", "--jobs",
                     PROCESSORS, *FOREIGN), suite("integration")),
    ]


def of_release(name, tiers, lane, counts, *command, shows=""):
    return Step(name, tiers, lane, ("release: build",), program(*command), suite(counts),
                {"GOCACHE": GO_CACHE}, shows)


def client(language):
    """Returns the step with the tests of a client package."""
    return Step(f"clients/{language}", MORE, WAITS, ("release: build",),
                program(f"clients/{language}/test"), suite(f"client-{language}"),
                {"SNOWFLAKE_BUILD": str(BUILDS / "release"), "GOCACHE": GO_CACHE})


def chaos(tiers, seconds):
    step = of_release("chaos", tiers, CHAOS, "chaos", "tests/chaos/run", "--build",
                      BUILDS / "release", "--seconds", seconds)
    return step._replace(limit_s=seconds + LIMIT_S)


def without_randomization():
    """Disables address randomization, with which ThreadSanitizer can fail."""
    under = ("setarch", "--addr-no-randomize")
    with contextlib.suppress(FileNotFoundError):
        if subprocess.run([*under, "true"], stderr=subprocess.DEVNULL).returncode == 0:
            return under
    return ()


def table(chaos_s):
    """The steps of a lane run in this order."""
    instructions = ("bench/instructions", "--build-dir", BUILDS / "release")
    under = without_randomization()
    early = [
        Step("packages", (QUICK, USUAL), WAITS, (), program("tests/install"), check),
        Step("packages", (FULL,), WAITS, (), program("tests/install", "--full"), check),
        # needs only the packages for the build; its integration tests take longest
        build("asan", MORE, "-Db_sanitize=address,undefined", *WATCHED),
        Step("asan: test programs", (USUAL,), COMPUTES, ("asan: build",),
             ("ninja", "-C", str(BUILDS / "asan")), check),
    ]
    return early + [step._replace(needs=("packages", *step.needs)) for step in [
        build("release", ALL, "--buildtype=release"),
        # with clang, so that its warnings need no separate build
        build("tsan", MORE, "-Db_sanitize=thread", "-Db_lundef=false", *WATCHED, CC="clang",
              CXX="clang++"),
        Step("tests/run: self-test", ALL, COMPUTES, (), program("tests/run", "--self-test"),
             suite("runner")),
        Step("lint: self-test", ALL, COMPUTES, (), program("tests/lint", "--self-test"), check),
        Step("lint", ALL, COMPUTES, (), program("tests/lint"), check),
        unit_tests("release", (QUICK, FULL), options=("--no-suite", "fuzz")),
        # tests that the sanitizer builds do not run, or run for fewer rounds
        unit_tests("release", (USUAL,), options=("--suite", "release")),
        # runs the inputs that fuzzing found, too; the other builds do not
        unit_tests("asan", MORE),
        unit_tests("tsan", (USUAL,), under, ("--no-suite", "fuzz", "--no-suite", "one-thread")),
        unit_tests("tsan", (FULL,), under, ("--no-suite", "fuzz")),
        of_release("instructions: self-test", MORE, COMPUTES, "instructions", *instructions,
                   "--self-test"),
        of_release("instructions", MORE, COMPUTES, "instructions", *instructions,
                   shows=r"\||not judged"),
        of_release("mutants", (FULL,), COMPUTES, "mutants", "tests/simulation/mutants",
                   "--build", BUILDS / "release"),
        Step("model", (USUAL,), COMPUTES, (), program("tests/model/run"), suite("model")),
        Step("model", (FULL,), COMPUTES, (), program("tests/model/run", "--full"), suite("model")),
        Step("fuzz", (FULL,), COMPUTES, (), program("tests/fuzz/run", "--seconds", FUZZ_S),
             suite("fuzz"), shows=r"fuzz-|all "),

        integration_tests("asan", (USUAL,), 3),
        integration_tests("asan", (FULL,), 2, SNOWFLAKE_LONG="1"),
        integration_tests("release", (QUICK, USUAL), 2, (*SMOKE, *UNSANITIZED)),
        integration_tests("release", (FULL,), 2, SNOWFLAKE_LONG="1"),
        integration_tests("tsan", (USUAL,), 2, THREADED, under),
        integration_tests("tsan", (FULL,), 2, (), under, SNOWFLAKE_LONG="1"),
        client("go"),
        client("java"),
        client("node"),
        client("python"),
        *foreign("i386"),
        *foreign("s390x"),
        Step("package", (FULL,), WAITS, (), program("tests/package/run"), suite("package")),
        of_release("container", (FULL,), WAITS, "container", "tests/container/run", "--build",
                   BUILDS / "release"),
        Step("release", (FULL,), WAITS, (), program("tests/release/run"), suite("release"),
             {"GOCACHE": GO_CACHE}),
        of_release("compatibility", (FULL,), WAITS, "compatibility", "tests/compatibility/run",
                   "--build", BUILDS / "release", "--directory", BUILDS / "compatibility"),

        # these also wait most of their time
        of_release("chaos: self-test", MORE, CHAOS, "chaos", "tests/chaos/run", "--build",
                   BUILDS / "release", "--self-test"),
        chaos((USUAL,), chaos_s or CHAOS_S),
        chaos((FULL,), chaos_s or LONG_CHAOS_S),
        of_release("simulation", (QUICK, USUAL), CHAOS, "simulation", "tests/simulation/run",
                   "--build", BUILDS / "release", "--cpu-seconds", SIMULATION_S,
                   shows="simulation"),
        of_release("simulation", (FULL,), CHAOS, "simulation", "tests/simulation/run",
                   "--build", BUILDS / "release", "--cpu-seconds", LONG_SIMULATION_S,
                   shows="simulation"),
        of_release("clients: self-test", MORE, CHAOS, "clients", "tests/clients/run", "--build",
                   BUILDS / "release", "--self-test"),
        of_release("clients", MORE, CHAOS, "clients", "tests/clients/run", "--build",
                   BUILDS / "release"),
    ]]


def has_tmpfs():
    with contextlib.suppress(OSError):
        tmpfs = os.statvfs(TMPFS)
        free = tmpfs.f_bavail * tmpfs.f_frsize
        return (not tmpfs.f_flag & os.ST_NOEXEC and free >= TMPFS_LEAST and
                os.access(TMPFS, os.W_OK))
    return False


@contextlib.contextmanager
def files_in_memory():
    """Makes tests write their files to a tmpfs if there is one, so that no test depends on how long
    a disk takes to sync. Removes what they leave there."""
    if "TMPDIR" in os.environ or not has_tmpfs():
        yield
        return
    # a short name: the path of a Unix socket has 107 bytes at most
    with tempfile.TemporaryDirectory(prefix="sf-", dir=TMPFS,
                                     ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o711)  # some tests start programs of another user
        os.environ["TMPDIR"] = directory
        yield


def show(steps):
    for tier, what in TIERS.items():
        print(f"{tier}: {what}")
    for step in steps:
        tiers = " ".join(f"{tier if tier in step.tiers else '-':5}" for tier in TIERS)
        print(f"{tiers}  {step.lane:8}  {step.name}")


def main():
    parser = argparse.ArgumentParser(add_help=False)  # tests/run prints the help
    parser.add_argument("--quick", action="store_const", dest="tier", const=QUICK, default=USUAL)
    parser.add_argument("--full", action="store_const", dest="tier", const=FULL)
    parser.add_argument("--chaos-seconds", type=int)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("patterns", nargs="*")
    given = parser.parse_args()
    if given.self_test:
        return runner_selftest.main()
    # steps only in the longest tier may take hours
    steps = [step._replace(limit_s=0) if step.tiers == (FULL,) else step
             for step in table(given.chaos_seconds)]
    if given.list:
        show(steps)
        return 0
    steps = [step for step in steps if given.tier in step.tiers]
    if given.patterns:
        steps = [step for step in steps if step.name in ("packages", "release: build")]
        steps.append(integration_tests("release", ALL, 2, given.patterns))
    with files_in_memory():
        return runner.run_to_the_end(steps, BUILDS / "logs")


if __name__ == "__main__":
    sys.exit(main())
