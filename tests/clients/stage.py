# SPDX-License-Identifier: Apache-2.0
"""One scenario, one variant of it, with one runner: the steps are done, and what comes of them is
held against what scenarios.py says."""
import itertools
import time

import checks
import places
from checks import Ids, check_error, check_number, increases, is_over
from harness import PATIENCE, Parts, wait_for
from runner_process import Wrong, stretch
from scenarios import MOVED

AGENT = "conformance"
TIMEOUT_MS = 3000
TRIES = 100  # of a command that is repeated while something else goes on
IN_HAND = 1_000_000  # more than a client has
OPTIONS = ("prefetch_ms", "max_age_ms")
STRETCHED = ("timeout_ms", "ms", "settle_ms", "after_ms", "within_ms")
IDLE_COUNTERS = ("ids_generated", f"ids_generated_{AGENT}", "answered_get_id", "answered_get_ids",
                 "answered_get_id_runs", "answered_get_worker", "answered_get_workers",
                 "answered_get_timestamp", "answered_get_worker_id", "answered_get_datacenter_id")


class Unsupported(Exception):
    """By the package, and it says why."""


class Stage:
    def __init__(self, scenario, prefetch, runner, lacks, directory, names):
        self._prefetch = prefetch
        self._runner = runner
        self._lacks = lacks
        self._directory = directory
        self._names = names
        self._stretch = stretch()
        self._places = places.of_scenario(scenario.servers, directory)
        self._ids = Ids({place.worker_id for place in self._places.values()})
        self._current = None
        self._known = []      # the servers that the client was told
        self._timeout_ms = TIMEOUT_MS
        self._awaited = {}    # by name of a server: the fault that must have happened to it
        self._open_error = None
        self._files = itertools.count()

    def play(self, steps):
        for number, step in enumerate(steps, 1):
            (what, told), = step.items()
            try:
                self._do(what, told)
            except (Wrong, AssertionError) as error:
                raise Wrong.of(error, f"step {number}, {what} {told or ''}: {error}") from None
        for name in list(self._awaited):
            self._check_hit(name)
        self._ids.check_distinct()
        self._ids.check_spoilt([spoilt for place in self._proxied()
                                for spoilt in place.proxy.spoilt])

    def close(self):
        """What was wrong with the servers."""
        return [problem for place in self._places.values() for problem in place.close()]

    def _do(self, what, told):
        if isinstance(told, dict):
            told = {key: value * self._stretch if key in STRETCHED else value
                    for key, value in told.items()}
            if isinstance(told.get("count"), dict):
                told["count"] = told["count"][self._prefetch]
        getattr(self, f"_do_{what}")(told or {})

    # The client

    def _do_open(self, told):
        self._known = [self._places[name].text for name in told.get("servers", self._places)]
        self._timeout_ms = told.get("timeout_ms", TIMEOUT_MS * self._stretch)
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
        answer = self._runner.ask(do=what, **settings)
        return self._supported(answer)

    @staticmethod
    def _supported(answer):
        if "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        return answer

    def _during(self, told, what, settings):
        """The answers to a command, which is given until all was done that is to be done
        meanwhile. `settings` makes those of each time."""
        steps = told.get("meanwhile", ())
        wanted = len(steps) * told.get("rounds", 1)
        todo = itertools.cycle(steps) if told.get("loop") or "rounds" in told else iter(steps)
        done = 0
        for _ in range(TRIES):
            self._runner.send(do=what, **settings())
            while not self._runner.has_answered():
                step = next(todo, None)
                if step is None:
                    break
                for name, server in step.items():
                    self._do(name, server)
                done += 1
            yield self._supported(self._runner.answer())
            if done >= wanted:
                return
        raise Wrong(f"{done} of {wanted} steps were done while it ran {TRIES} times")

    def _do_next(self, told):
        """What is in hand is taken first, however much it is, before it must fail, or come from
        another server."""
        whose, ends_by = (self._workers_of(told.get(key)) for key in ("by", "ends_by"))
        if "error" in told and not self._prefetch:
            told["count"] = 1
        tries = IN_HAND // told["count"] + 1 if self._prefetch else 1
        for _ in range(tries):
            answer, workers = self._take_once(told)
            self._check_whose(workers, whose)
            if "error" in told:
                if "error" in answer:
                    self._check_error(answer, told)
                    return
            elif ends_by is None or workers[-1] in ends_by:
                return
        if self._prefetch and told.get("may_pass"):
            return
        raise Wrong(f"no call failed of {tries * told['count']}" if "error" in told else
                    f"the last of {tries * told['count']} IDs is of worker {workers[-1]}, not of "
                    f"{ends_by}")

    def _take_once(self, told):
        asked = {"count": told["count"], "pause_ms": told.get("pause_ms", 0)}
        began_ms = time.time() * 1000
        for answer in self._during(told, "next", lambda: asked):
            numbers = self._ids.read(answer)
            workers = self._take_in(numbers, told, answer)
            self._ids.follow(numbers, workers)
            self._check_fresh(numbers, told, began_ms)
        return answer, workers

    def _do_next_ids(self, told):
        whose = self._workers_of(told.get("by"))
        answer = self._ask("next_ids", count=told["count"])
        numbers = self._ids.read(answer)
        workers = self._take_in(numbers, told, answer)
        if "error" in told:
            self._check_error(answer, told)
            if numbers:
                raise Wrong(f"{len(numbers)} IDs of a batch that failed")
        if not increases(numbers) and len(set(workers)) == 1:
            raise Wrong("a batch that does not increase")
        self._check_whose(workers, whose)

    def _take_in(self, numbers, told, answer):
        """The worker IDs of the numbers."""
        workers = self._ids.add(numbers)
        if workers:
            self._current = self._place_of(workers[-1])
        if "error" in told and "error" in answer:
            return workers
        if "error" in answer:
            raise Wrong(f"it failed, after {len(numbers)} IDs and {answer.get('took_ms')} ms: "
                        f"{answer['error']}: {answer.get('message')}")
        if len(numbers) != told["count"]:
            raise Wrong(f"{len(numbers)} IDs, not {told['count']}")
        if "longest_us" in answer:
            self._check_longest(answer, told)
        return workers

    def _check_error(self, answer, told):
        """When to ask again get_id has no place for."""
        if "retry_after_ms" in told and any(
                place.proxy.hit_last == "get_id" for place in self._proxied()):
            told = {**told, "retry_after_ms": 0}
        check_error(answer, told, self._known, self._timeout_ms, self._lacks)

    def _check_longest(self, answer, told):
        longest_ms = check_number(answer, "longest_us") / 1000
        limit_ms = min(told.get("within_ms", self._timeout_ms), self._timeout_ms)
        if is_over(longest_ms, limit_ms, checks.SLACK_MS):
            raise Wrong(f"a call took {longest_ms:.0f} ms of {limit_ms} ms at most")

    @staticmethod
    def _check_whose(workers, whose):
        if whose is not None and not set(workers) <= whose:
            raise Wrong(f"IDs of the workers {set(workers)}, not only of {whose}")

    def _check_fresh(self, numbers, told, began_ms):
        if "fresh_ms" not in told:
            return
        age_ms = began_ms - min(Parts.of(number).time_ms for number in numbers)
        if is_over(age_ms, told["fresh_ms"], checks.SLACK_MS):
            raise Wrong(f"an ID is {age_ms:.0f} ms old, {told['fresh_ms']} ms at most")

    def _do_pace(self, told):
        asked = {"per_second": told["per_second"], "seconds": told["seconds"]}
        for answer in self._during(told, "pace", lambda: asked):
            taken, failed = (check_number(answer, key) for key in ("taken", "failed"))
            if failed or taken < 0.9 * told["per_second"] * told["seconds"] / PATIENCE:
                raise Wrong(f"{taken} IDs taken, {failed} calls failed")
            self._check_longest(answer, told)

    def _do_storm(self, told):
        files = []

        def settings():
            files.append(self._directory / f"storm-{next(self._files)}")
            return {"threads": told["threads"], "count": told["count"], "file": str(files[-1])}
        for answer in self._during(told, "storm", settings):
            if answer.get("taken") != told["count"] or answer.get("failed") != 0:
                raise Wrong(f"not all taken, or calls failed: {answer}")
            self._check_longest(answer, told)
            with open(files[-1], encoding="ascii") as file:
                count = self._ids.add_many(map(int, file))
            if count != told["count"]:
                raise Wrong(f"{count} IDs in the file, not {told['count']}")

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

    def _do_next_then_close(self, told):
        answer = self._ask("next_then_close", after_ms=told["after_ms"])
        check_error(answer, {"error": "closed", "tried": "some"}, self._known, self._timeout_ms,
                    self._lacks)
        if answer["took_ms"] < told["after_ms"] * 0.9:
            raise Wrong(f"it was closed after {answer['took_ms']} ms, before it was to be")
        if is_over(answer["took_ms"], told["within_ms"], checks.SLACK_MS):
            raise Wrong(f"it was closed after {answer['took_ms']} ms only")

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

    def _each(self, told, action):
        for place in self._chosen(told):
            action(place)

    def _do_kill(self, told):
        self._each(told, lambda place: place.kill())

    def _do_terminate(self, told):
        self._each(told, lambda place: place.terminate())

    def _do_start(self, told):
        self._each(told, lambda place: place.start())

    def _do_suspend(self, told):
        self._each(told, lambda place: place.suspend())

    def _do_resume(self, told):
        self._each(told, lambda place: place.resume())

    def _do_meddle(self, told):
        told = dict(told)
        place, = self._chosen(told.pop("server"))
        self._check_hit(place.name)
        fault, may_miss = told.pop("with"), told.pop("may_miss", False)
        spoils = fault not in ("slow", "far") and (fault != "late"
                                                   or not self._lacks.excuse("late"))
        place.proxy.meddle(fault, spoils=spoils, **told)
        if not may_miss:
            self._awaited[place.name] = fault

    def _check_hit(self, name):
        fault = self._awaited.pop(name, None)
        if fault and self._places[name].proxy.hits == 0:
            raise Wrong(f"{fault} never happened to {name}: the client did not ask it")

    def _do_heal(self, told):
        for place in self._chosen(told):
            self._check_hit(place.name)
            place.proxy.heal()

    def _do_end_idle(self, told):
        self._break_idle(told, "end_idle")

    def _do_reset_idle(self, told):
        self._break_idle(told, "reset_idle")

    def _break_idle(self, told, how):
        for place in self._chosen(told):
            broken = getattr(place.proxy, how)()
            if not broken:
                raise Wrong(f"no connection to {place.name} to be broken")
            wait_for(lambda: place.proxy.are_over(broken), what="connections to end")

    def _do_names(self, told):
        if told == MOVED:
            self._names.move()
        else:
            self._names.say(None if told == "known" else told)

    def _do_step_clock(self, told):
        """The server has noticed then."""
        for place in self._chosen(told["server"]):
            place.clock.step_ms(told["by_ms"])
            wait_for(lambda: place.refuses() == (told["by_ms"] < 0), what="the server to notice")

    def _do_pause(self, told):
        time.sleep(told["ms"] / 1000)  # lint: allow sleep: the pause is what is looked at

    def _do_unasked(self, told):
        for place in self._chosen(told):
            if place.proxy.connections:
                raise Wrong(f"{place.name} was asked")

    def _do_hit_in_all(self, told):
        hits = sum(place.proxy.hits for place in self._proxied())
        if hits < told.get("least", 0) or hits != told.get("exactly", hits):
            raise Wrong(f"it happened {hits} times, not {told}")

    def _do_issued(self, _):
        issued = sum(place.server.counters()["ids_generated"] for place in self._chosen("living"))
        if issued < len(self._ids.seen):
            raise Wrong(f"{len(self._ids.seen)} IDs were handed out, {issued} issued")

    def _asked_for(self):
        told = {place.name: place.server.counters() for place in self._chosen("living")}
        return {name: {counter: counters.get(counter, 0) for counter in IDLE_COUNTERS}
                for name, counters in told.items()}

    def _do_idle(self, told):
        self._do_pause({"ms": told["settle_ms"]})
        before = self._asked_for()
        self._do_pause(told)
        after = self._asked_for()
        if before != after:
            raise Wrong("servers were asked meanwhile: " + ", ".join(
                f"{name}: {counter} by {after[name][counter] - before[name][counter]}"
                for name in after for counter in IDLE_COUNTERS
                if after[name][counter] != before[name][counter]))
