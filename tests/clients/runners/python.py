#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the conformance suite asks of a client, asked of clients/python: a command a line, an answer
a line, both JSON.

The driver may kill servers meanwhile, so that each call that fails is an answer and no end.
"""
import contextlib
import json
import os
import pathlib
import ssl
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"))

import snowflake_client  # noqa: E402
from snowflake_client import Snowflake, SnowflakeError  # noqa: E402

# the first that fits: the client's errors are errors of Python's too
KINDS = [(snowflake_client.ClockError, "clock"), (snowflake_client.UnavailableError, "unavailable"),
         (snowflake_client.InvalidAgentError, "invalid-agent"),
         (snowflake_client.UnreachableError, "unreachable"),
         (snowflake_client.SnowflakeTimeoutError, "timeout"),
         (snowflake_client.ClosedError, "closed"), (ValueError, "invalid-argument")]
OPTIONS = ("timeout_ms", "prefetch_ms", "max_age_ms")


def described(error):
    answer = {"error": next(kind for type_, kind in KINDS if isinstance(error, type_)),
              "message": str(error), "attempts": list(getattr(error, "attempts", []))}
    if getattr(error, "retry_after_ms", None) is not None:
        answer["retry_after_ms"] = error.retry_after_ms
    return answer


def outcome(call, count=1, pause_ms=0):
    """`count` calls, one after the other, until one fails: the IDs of all."""
    ids = []
    for left in range(count - 1, -1, -1):
        began = time.monotonic()
        try:
            ids += call()
        except (SnowflakeError, ValueError) as error:
            return {"ids": list(map(str, ids)), **described(error),
                    "took_ms": (time.monotonic() - began) * 1000}
        if pause_ms and left:
            time.sleep(pause_ms / 1000)  # lint: allow sleep (the pace that the driver asks for)
    return {"ids": list(map(str, ids))}


class Runner:
    def __init__(self):
        self.client = None

    def hello(self):
        return {"language": "Python", "package": f"snowflake-client {snowflake_client.__version__}"}

    def open(self, servers, agent, tls=None, **options):
        if self.client is not None:
            self.client.close()
        context = None
        if tls:
            context = ssl.create_default_context(cafile=tls.get("ca"))
            if tls.get("certificate"):
                context.load_cert_chain(tls["certificate"], tls.get("key"))
        began = time.monotonic()
        try:
            self.client = Snowflake(
                servers, agent=agent, tls=context,
                **{name: value for name, value in options.items() if name in OPTIONS})
        except (SnowflakeError, ValueError) as error:
            return {**described(error), "took_ms": (time.monotonic() - began) * 1000}
        return {"ok": True}

    def next(self, count=1, pause_ms=0, **_):
        return outcome(self._take, count, pause_ms)

    def next_ids(self, count, **_):
        return outcome(lambda: self.client.next_ids(count))

    def storm(self, threads, count, file, **_):
        storm = Storm(self.client, count)
        crowd = [threading.Thread(target=storm.run) for _ in range(threads)]
        for thread in crowd:
            thread.start()
        for thread in crowd:
            thread.join()
        with open(file, "w") as lines:
            lines.writelines(f"{number}\n" for number in storm.ids)
        return {"taken": len(storm.ids), "failed": storm.failed}

    def pace(self, per_second, seconds, **_):
        took, failed, began = [], 0, time.monotonic()
        for number in range(round(per_second * seconds)):
            wait = began + number / per_second - time.monotonic()
            if wait > 0:
                time.sleep(wait)  # lint: allow sleep (the pace that is asked for)
            start = time.monotonic()
            try:
                self.client.next_id()
            except SnowflakeError:
                failed += 1
            took.append(time.monotonic() - start)
        took.sort()
        return {"taken": len(took) - failed, "failed": failed,
                "p50_us": took[len(took) // 2] * 1e6, "p99_us": took[len(took) * 99 // 100] * 1e6,
                "longest_us": took[-1] * 1e6}

    def speed(self, seconds, **_):
        return speed(self.client.next_id, seconds)

    def plain(self, server, seconds, **_):
        from snowflake_client.generated import SnowflakeExtended
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TFramedTransport

        host, _, port = server.rpartition(":")
        transport = TFramedTransport(TSocket(host.strip("[]"), int(port)))
        client = SnowflakeExtended.Client(TBinaryProtocol(transport))
        transport.open()
        try:
            return speed(lambda: client.get_id("plain"), seconds)
        finally:
            transport.close()

    def fork(self, count, **_):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.close(reading)
                with open(writing, "w") as answer:
                    json.dump(self.next(count), answer)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(writing)
        of_parent = self.next(count)
        with open(reading) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        of_child = json.loads(text) if text else {"ids": [], "error": "the child died"}
        failed = of_parent if "error" in of_parent else of_child if "error" in of_child else {}
        return {**failed, "parent": of_parent["ids"], "child": of_child["ids"]}

    def next_then_close(self, **_):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(outcome(self._take)))
        thread.start()
        sys.stdin.readline()
        self.client.close()
        thread.join()
        return answers[0]

    def close(self, **_):
        if self.client is not None:
            self.client.close()
        return {"ok": True}

    def _take(self):
        return [self.client.next_id()]


class Storm:
    """Threads that take as many IDs altogether; who fails takes again."""

    def __init__(self, client, count):
        self._client = client
        self._left = count
        self._lock = threading.Lock()
        self.ids = []
        self.failed = 0

    def run(self):
        ids, failed = [], 0
        while self._claims():
            taken = False
            while not taken:
                try:
                    ids.append(self._client.next_id())
                    taken = True
                except SnowflakeError:
                    failed += 1
        with self._lock:
            self.ids += ids
            self.failed += failed

    def _claims(self):
        with self._lock:
            self._left -= 1
            return self._left >= 0


def speed(call, seconds):
    done, began, took = 0, time.perf_counter(), 0.0
    while took < seconds:
        for _ in range(100):
            call()
        done += 100
        took = time.perf_counter() - began
    return {"per_second": done / took}


DOES = ("hello", "open", "next", "next_ids", "storm", "pace", "speed", "plain", "fork",
        "next_then_close", "close")


def main():
    runner = Runner()
    for line in sys.stdin:
        command = json.loads(line)
        name = command.pop("do")
        if name in DOES:
            answer = getattr(runner, name)(**command)
        else:
            answer = {"unsupported": f"no {name}"}
        with contextlib.suppress(BrokenPipeError):
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
