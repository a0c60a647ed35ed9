# SPDX-License-Identifier: Apache-2.0
"""The servers of a scenario, and the steps with them and one runner. scenarios.py documents the
checks of each step.

No check depends on the speed of the machine. If a deadline is not tested, it is PATIENT_MS, more
than a runner may take to answer, so that only a defect lets a call time out. If a client must fail
over from a hanging server, the deadline is long enough for both halves. If a call must time out,
the deadline is short and the server stays silent; other calls of this client can also time out, and
are repeated. If a client that retries must be refused, the deadline is short at first, and longer
if the error is not that of the servers.
"""
import itertools
import time

import places
from checks import Ids, check_error, increases, is_at_deadline
from harness import Parts
from middle import Link
from runner_process import HANG_S, Wrong, wait_until
from scenarios import MOVED

AGENT = "conformance"
PATIENT_MS = 1000 * 5 * HANG_S
SHORT_MS = 5000    # with less, calls may time out on a slow machine
# deadlines for a client that does not fail before it
REFUSED_MS = (1500, 6000, 24000)
SHOWN = 500  # bytes of an answer
TRIES = 100  # most repetitions of a command during other steps
LOOKS = 20   # most polls for a quiet time
FEW = 100    # calls of a client that retries each of its requests
PREFETCHED = 1_000_000  # more IDs than a client prefetches
OPTIONS = ("attempt_timeout_ms", "prefetch_ms", "max_age_ms")
OF_PLACES = ("kill", "terminate", "start", "suspend", "resume")
CALLS = ("get_id", "get_ids", "get_id_runs", "get_worker", "get_workers", "get_timestamp",
         "get_worker_id", "get_datacenter_id")


class Unsupported(Exception):
    """The package does not support this, for the reason in the message."""


class Stage:
    def __init__(self, scenario, runner, lacks, directory):
        self._scenario = scenario
        self._prefetch = False
        self._runner = runner
        self._names = runner.names
        self._lacks = lacks
        self._directory = directory
        self._places = places.of_scenario(scenario.servers, directory)
        self._ids = Ids({place.worker_id for place in self._places.values()})
        self._current = None
        self._opened = {}     # the last "open" step
        self._known = []      # servers in the client's options
        self._timeout_ms = PATIENT_MS
        self._killed = {}     # {name of a server: (time of its end, connections until then)}
        self._awaited = {}    # {name of a server: the fault that must have happened}
        self._fault_of_current = None  # the last "meddle" step of the current server
        # the last command began before the end of the "meanwhile" steps
        self._is_disturbed = False
        self._has_steps_left = False  # the last command ended before the "meanwhile" steps
        self._files = itertools.count()

    def play(self, prefetch, steps):
        self._prefetch = prefetch
        self._awaited.clear()
        self._fault_of_current = None
        if self._names:
            self._names.say(None)
        try:
            for number, step in enumerate(steps, 1):
                (what, told), = step.items()
                try:
                    self._do(what, told)
                except (Wrong, AssertionError) as error:
                    raise Wrong(f"prefetch {'on' if prefetch else 'off'}, step {number}, {what} "
                                f"{told or ''}: {error}") from None
            for name in list(self._awaited):
                self._check_hit(name)
            self._ids.check_distinct()
            self._ids.check_spoilt([spoilt for place in self._proxied()
                                    for spoilt in place.proxy.spoilt])
            self._do_close(None)
        finally:
            if self._names:
                self._names.answer_late()
            for place in self._proxied():
                place.proxy.heal()

    def close(self):
        """Returns the problems of the servers."""
        return [problem for place in self._places.values() for problem in place.close()]

    def _do(self, what, told):
        if what in OF_PLACES:
            if what == "kill":
                self._note_connections(self._chosen(told))
            for place in self._chosen(told):
                getattr(place, what)()
        else:
            getattr(self, f"_do_{what}")(told or {})

    # The client

    def _do_open(self, told):
        self._opened = told
        self._known = [self._places[name].text for name in told.get("servers", self._places)]
        self._timeout_ms = told.get("timeout_ms", PATIENT_MS)
        if "timeout_ms" not in told and self._scenario.is_refused and self._lacks.excuse("at-once"):
            self._timeout_ms = told.get("refused_ms", REFUSED_MS[0])
        options = {key: told[key] for key in OPTIONS if key in told}
        if not self._prefetch:
            options["prefetch_ms"] = 0
        if "tls" in told:
            options["tls"] = places.Certificates.get().told(told["tls"])
        answer = self._ask("open", servers=self._known, agent=told.get("agent", AGENT),
                           timeout_ms=self._timeout_ms, **options)
        self._ids.forget_order()
        if "error" in told and answer.get("ok") is True:
            answer = self._ask("next", count=1)
        if "error" in told:
            check_error(answer, {**told, "tried": 0}, self._known, self._timeout_ms, self._lacks)
        elif answer != {"ok": True}:
            raise Wrong(f"it does not open: {answer}")

    def _ask(self, what, **settings):
        return self._supported(self._runner.ask(do=what, **settings))

    @staticmethod
    def _supported(answer):
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        return answer

    def _during(self, told, what, settings):
        """Yields the answers to a command, which is repeated until the "meanwhile" steps are done.
        `settings` makes the settings of each repetition."""
        steps = told.get("meanwhile", ())
        wanted = len(steps) * told.get("rounds", 1)
        todo = itertools.cycle(steps) if told.get("loop") or "rounds" in told else iter(steps)
        done = 0
        for _ in range(TRIES):
            self._is_disturbed = done < wanted
            self._runner.send(do=what, **settings())
            while not self._runner.has_answered():
                step = next(todo, None)
                if step is None:
                    break
                for name, server in step.items():
                    self._do(name, server)
                done += 1
            answer = self._supported(self._runner.answer())
            self._has_steps_left = done < wanted
            yield answer
            if done >= wanted:
                return
        raise Wrong(f"{done} of {wanted} steps were done while it ran {TRIES} times")

    def _do_next(self, told):
        for _ in range(told.get("times", 1)):
            self._take_next(told)

    def _take_next(self, told):
        """First takes all prefetched IDs, if a call must fail or an ID must come from another
        server."""
        whose, ends_by = (self._workers_of(told.get(key)) for key in ("by", "ends_by"))
        wanted = 1 if "error" in told and not self._prefetch else told["count"]
        if "error" in told and told.get("may_pass"):
            self._lacks.excuse("attempts")  # the table does not depend on whether a call fails
        may_pass = told.get("may_pass") and not self._lacks.has("retries")
        wanted = min(wanted, FEW) if may_pass else wanted  # each request is retried, with pauses
        most = PREFETCHED if self._prefetch and not may_pass else wanted
        taken = 0
        for answer, workers in self._takes(told, lambda: wanted - taken % wanted):
            self._check_whose(workers, whose)
            if self._has_followed():
                ends_by, taken = self._workers_of(told.get("ends_by")), 0
                continue
            taken += len(workers)
            most += len(workers) * self._is_disturbed
            if "error" in told and self._has_failed(answer, told):
                return
            if taken == 0 or taken % wanted or "error" in answer or self._has_steps_left:
                continue
            if "error" not in told and (ends_by is None or workers[-1] in ends_by) and (
                    taken >= most or not self._unhit()):
                return
            if taken >= most and not (may_pass and self._unhit()):
                break
        if may_pass or (self._prefetch and told.get("may_pass")):
            return
        raise Wrong(f"no call failed of {taken}" if "error" in told else
                    f"the last of {taken} IDs is of worker {workers[-1]}, not of {ends_by}")

    def _takes(self, told, count):
        """Yields (answer, worker IDs) of each command."""
        for answer, began_ms in self._repeated(told, "next", lambda: {
                "count": count(), "pause_ms": told.get("pause_ms", 0)}):
            numbers = self._ids.read(answer)
            workers = self._take_in(numbers, told, answer)
            self._ids.follow(numbers, workers)
            self._check_fresh(numbers, told, began_ms)
            yield answer, workers

    def _repeated(self, told, what, settings):
        """Yields (answer, time of the command) until HANG_S have passed. The "meanwhile" steps run
        once."""
        ends_at = time.monotonic() + HANG_S
        answer = None
        while time.monotonic() < ends_at:
            began_ms = time.time() * 1000
            for answer in self._during(told, what, settings):
                yield answer, began_ms
            told = {**told, "meanwhile": ()}
        raise Wrong(f"it goes on like this for {HANG_S} s: {str(answer)[-SHOWN:]}")

    def _do_next_ids(self, told):
        whose = self._workers_of(told.get("by"))
        for answer, _ in self._repeated(told, "next_ids", lambda: {"count": told["count"]}):
            numbers = self._ids.read(answer)
            workers = self._take_in(numbers, told, answer)
            if "error" in answer and numbers:
                raise Wrong(f"{len(numbers)} IDs of a batch that failed")
            if not increases(numbers) and len(set(workers)) == 1:
                raise Wrong("a batch that does not increase")
            self._check_whose(workers, whose)
            if "error" in told and "error" not in answer:
                raise Wrong(f"no call failed of {told['count']}")
            if self._has_followed() or (self._fault_of_current and self._unhit()):
                continue
            if "error" not in answer if "error" not in told else self._has_failed(answer, told):
                return

    def _take_in(self, numbers, told, answer):
        """Returns the worker IDs of the numbers."""
        workers = self._ids.add(numbers)
        if workers:
            self._current = self._place_of(workers[-1])
        if "error" not in answer and "count" in told and len(numbers) > told["count"]:
            raise Wrong(f"{len(numbers)} IDs, not {told['count']}")
        if "error" in answer and "error" not in told and not self._may_fail(answer):
            raise Wrong(f"it failed, after {len(numbers)} IDs and {answer.get('took_ms')} ms: "
                        f"{answer['error']}: {answer.get('message')}")
        return workers

    def _may_fail(self, answer):
        """Whether a short deadline can have ended the call. A client that retries until then may
        report what happened before: a fault that has ended can have reset its connection."""
        if answer["error"] != "unreachable":
            return self._may_time_out(answer)
        if self._timeout_ms >= SHORT_MS or self._lacks.has("retries"):
            return False
        check_error(answer, {"error": "unreachable", "tried": "some"}, self._known,
                    self._timeout_ms, self._lacks)
        return is_at_deadline(answer, self._timeout_ms)

    def _may_time_out(self, answer):
        if answer["error"] != "timeout" or self._timeout_ms >= SHORT_MS:
            return False
        check_error(answer, {"error": "timeout", "tried": "some"}, self._known, self._timeout_ms,
                    self._lacks)
        return True

    def _has_failed(self, answer, told):
        """Whether the call failed as it must. A short deadline can end a call before its server was
        asked; then the call is repeated."""
        if "error" not in answer:
            return False
        if told["error"] != answer["error"] and self._may_time_out(answer):
            return False
        if told["error"] == "timeout" and self._timeout_ms < SHORT_MS and self._unhit():
            return False
        # get_id cannot report retry_after_ms
        if "retry_after_ms" in told and any(
                place.proxy.hit_last == "get_id" for place in self._proxied()):
            told = {**told, "retry_after_ms": 0}
        try:
            check_error(answer, told, self._known, self._timeout_ms, self._lacks)
        except Wrong:
            if self._timeout_ms not in REFUSED_MS[:-1] or "timeout_ms" in self._opened:
                raise
            self._open_for_longer()
            return False
        return True

    def _open_for_longer(self):
        """On a slow machine, a server may not have answered before the deadline."""
        longer = REFUSED_MS[REFUSED_MS.index(self._timeout_ms) + 1]
        self._do_open({**self._opened, "refused_ms": longer})

    @staticmethod
    def _check_whose(workers, whose):
        if whose is not None and not set(workers) <= whose:
            raise Wrong(f"IDs of the workers {set(workers)}, not only of {whose}")

    @staticmethod
    def _check_fresh(numbers, told, began_ms):
        """Checks the age of IDs. It does not depend on speed, because they were requested after
        `began_ms`."""
        age_ms = began_ms - min((Parts.of(number).time_ms for number in numbers), default=began_ms)
        if age_ms > told.get("fresh_ms", age_ms):
            raise Wrong(f"an ID is {age_ms:.0f} ms old, {told['fresh_ms']} ms at most")

    def _do_storm(self, told):
        files = []
        wanted = told["count"][self._prefetch]

        def settings():
            files.append(self._directory / f"storm-{next(self._files)}")
            return {"threads": told["threads"], "count": wanted, "file": str(files[-1])}
        for answer in self._during(told, "storm", settings):
            if answer.get("taken") != wanted or answer.get("failed") != 0:
                raise Wrong(f"not all taken, or calls failed: {answer}")
            with open(files[-1], encoding="ascii") as file:
                count = self._ids.add_many(map(int, file))
            files[-1].unlink()
            if count != wanted:
                raise Wrong(f"{count} IDs in the file, not {wanted}")

    def _do_fork(self, told):
        answer = self._ask("fork", count=told["count"])
        for who in ("parent", "child"):
            numbers = self._ids.read(answer, who)
            if len(numbers) != told["count"]:
                raise Wrong(f"{len(numbers)} IDs of the {who}, not {told['count']}: "
                            f"{answer.get('message', 'it does not say why')}")
            self._ids.add(numbers)
        self._ids.forget_order()

    def _do_close(self, _):
        if (answer := self._ask("close")) != {"ok": True}:
            raise Wrong(f"it does not close: {answer}")

    def _do_next_then_close(self, _):
        """The runner closes the client at the next line, which is sent when a server has received
        the call."""
        self._runner.send(do="next_then_close")
        wait_until(lambda: self._runner.has_answered() or
                   all(self._places[name].proxy.hits for name in self._awaited), "the call comes")
        answer = self._supported(self._runner.ask(do="now"))
        check_error(answer, {"error": "closed", "tried": "some"}, self._known, self._timeout_ms,
                    self._lacks)

    # Servers

    def _place_of(self, worker_id):
        return next(place for place in self._places.values() if place.worker_id == worker_id)

    def _chosen(self, told):
        if told == "current":
            if self._current is None:
                raise Wrong("no ID has come yet, so there is no current server")
            return [self._current]
        if told == "others":
            return [place for place in self._places.values() if place is not self._current]
        if told == "living":
            return [place for place in self._places.values() if place.is_alive]
        if told == "stopped":
            return [place for place in self._places.values()
                    if place.server and not place.is_alive]
        return [self._places[told]]

    def _workers_of(self, told):
        return {place.worker_id for place in self._chosen(told)} if told else None

    def _proxied(self):
        return [place for place in self._places.values() if place.proxy]

    def _do_meddle(self, told):
        self._fault_of_current = told if told["server"] == "current" else None
        told = dict(told)
        place, = self._chosen(told.pop("server"))
        self._check_hit(place.name)
        fault, may_miss = told.pop("with"), told.pop("may_miss", False)
        spoils = fault not in ("slow", "far") and (fault != "late"
                                                   or not self._lacks.excuse("late"))
        place.proxy.meddle(fault, spoils=spoils, **told)
        if not may_miss:
            self._awaited[place.name] = fault

    def _unhit(self):
        return any(self._places[name].proxy.hits == 0 for name in self._awaited)

    def _check_hit(self, name):
        fault = self._awaited.pop(name, None)
        if fault and self._places[name].proxy.hits == 0:
            raise Wrong(f"{fault} never happened to {name}: the client did not ask it")

    def _has_followed(self):
        """Moves the fault of the current server if the client left that server before the fault:
        an attempt to prefetch can time out on a slow machine."""
        if self._fault_of_current is None:
            return False
        left = [name for name in self._awaited
                if name != self._current.name and self._places[name].proxy.hits == 0]
        for name in left:
            del self._awaited[name]
            self._places[name].proxy.heal()
            self._do_meddle(self._fault_of_current)
        return bool(left)

    def _do_heal(self, told):
        for place in self._chosen(told):
            self._check_hit(place.name)
            place.proxy.heal()

    def _do_outlast(self, told):
        for place in self._chosen(told):
            wait_until(lambda: place.proxy.held == 0, "no call is held")

    def _do_end_idle(self, told):
        self._break_idle(told, Link.end)

    def _do_reset_idle(self, told):
        self._break_idle(told, Link.reset)

    def _break_idle(self, told, end):
        """With prefetch, a client connects again when it needs more IDs."""
        for place in self._chosen(told):
            for _ in range(TRIES):
                broken = place.proxy.each_link(end)
                if broken or not self._prefetch:
                    break
                self._take_next({"count": FEW})
            if not broken:
                raise Wrong(f"no connection to {place.name} to be broken")
            wait_until(lambda: place.proxy.are_over(broken), "the connections end")

    def _do_names(self, told):
        if told == MOVED:
            self._names.move()
        else:
            self._names.say(None if told == "known" else told)

    def _do_step_clock(self, told):
        """Steps the clock, and waits until the server has noticed."""
        for place in self._chosen(told["server"]):
            place.clock.step_ms(told["by_ms"])
            wait_until(lambda: place.refuses() == (told["by_ms"] < 0), "the server notices")

    def _do_pause(self, told):
        time.sleep(told["ms"] / 1000)  # lint: allow sleep: the pause is the subject of the test

    def _do_unasked(self, told):
        for place in self._chosen(told):
            if place.proxy.connections:
                raise Wrong(f"{place.name} was asked")

    def _note_connections(self, chosen):
        for place in chosen:
            if place.proxy:
                self._killed[place.name] = time.monotonic(), place.proxy.connections

    def _do_paced(self, told):
        """A slow machine makes the time longer, and so the limit higher. Two more are allowed: one
        connection may have been in progress, and one is made at once."""
        for name, (since, before) in self._killed.items():
            connections = self._places[name].proxy.connections - before
            most = (time.monotonic() - since) * 1000 / told["ms"] + 2
            if connections > most:
                raise Wrong(f"{connections} connections to {name}, at most {most:.0f}")

    def _do_hit_in_all(self, told):
        hits = sum(place.proxy.hits for place in self._proxied())
        if "exactly" in told and not self._lacks.has("attempt-timeouts"):
            told = {"least": told["exactly"]}  # an attempt can time out on a slow machine
        if hits < told.get("least", 0) or hits != told.get("exactly", hits):
            raise Wrong(f"it happened {hits} times, not {told}")

    def _do_served(self, told):
        """Waits until servers have answered this many calls, or the command has ended: then no call
        from before this step is left."""
        def answered():
            return sum(sum(counters.values()) for counters in self._asked_for().values())
        wanted = answered() + told["calls"]
        wait_until(lambda: self._runner.has_answered() or answered() >= wanted,
                   "calls are answered", look_every_s=0.05)

    def _do_issued(self, _):
        issued = sum(place.server.counters()["ids_generated"] for place in self._chosen("living"))
        if issued < len(self._ids.seen):
            raise Wrong(f"{len(self._ids.seen)} IDs were handed out, {issued} issued")

    def _asked_for(self):
        """Returns how many calls each server has answered: {server: {call: number}}."""
        told = {place.name: place.server.counters() for place in self._chosen("living")}
        return {name: {call: counters.get(f"answered_{call}", 0) for call in CALLS}
                for name, counters in told.items()}

    def _do_idle(self, told):
        """Waits for a quiet time. Polls repeatedly, because a refill may be in progress."""
        after = self._asked_for()
        for _ in range(LOOKS):
            before = after
            self._do_pause(told)
            after = self._asked_for()
            if before == after:
                return
        raise Wrong("servers were asked meanwhile: " + ", ".join(
            f"{name}: {call} {after[name][call] - before[name][call]} times"
            for name in after for call in CALLS if after[name][call] != before[name][call]))
