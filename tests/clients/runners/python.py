#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The runner of clients/python."""
import pathlib
import ssl
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "clients" / "python"))

import snowflake_client  # noqa: E402
from runner import Runner  # noqa: E402
from snowflake_client import Snowflake, SnowflakeError, _servers  # noqa: E402

# the first that fits: the client's errors are errors of Python's too
KINDS = [(snowflake_client.ClockError, "clock"), (snowflake_client.UnavailableError, "unavailable"),
         (snowflake_client.InvalidAgentError, "invalid-agent"),
         (snowflake_client.UnreachableError, "unreachable"),
         (snowflake_client.SnowflakeTimeoutError, "timeout"),
         (snowflake_client.ClosedError, "closed"), (ValueError, "invalid-argument")]


ATTEMPT = _servers._SHORTEST_ATTEMPT, _servers._LONGEST_ATTEMPT


class PythonRunner(Runner):
    language = "Python"
    package = f"snowflake-client {snowflake_client.__version__}"
    errors = (SnowflakeError, ValueError)
    lacks = {"at-once": "a call retries until its deadline"}

    def make_client(self, servers, agent, tls=None, **times_ms):
        context = None
        if tls:
            context = ssl.create_default_context(cafile=tls.get("ca"))
            if tls.get("certificate"):
                context.load_cert_chain(tls["certificate"], tls.get("key"))
        # the package has no such option, and the runner goes on with other scenarios
        attempt_ms = times_ms.pop("attempt_timeout_ms", None)
        _servers._SHORTEST_ATTEMPT, _servers._LONGEST_ATTEMPT = (
            ATTEMPT if attempt_ms is None else (attempt_ms / 1000, attempt_ms / 1000))
        times = {name.removesuffix("_ms"): time / 1000 for name, time in times_ms.items()}
        return Snowflake(servers, agent=agent, tls=context, **times)

    def describe(self, error):
        answer = {"error": next(kind for type_, kind in KINDS if isinstance(error, type_)),
                  "message": str(error), "attempts": list(getattr(error, "attempts", []))}
        if getattr(error, "retry_after_ms", None) is not None:
            answer["retry_after_ms"] = error.retry_after_ms
        return answer

    def do_pace(self, per_second, seconds):
        took, failed, began = [], 0, time.monotonic()
        for number in range(round(per_second * seconds)):
            wait = began + number / per_second - time.monotonic()
            if wait > 0:
                time.sleep(wait)  # lint: allow sleep: the pace that is asked for
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

    def do_speed(self, seconds):
        return speed(self.client.next_id, seconds)

    def do_plain(self, server, seconds):
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "integration"))
        from bindings import current  # generates the code, so no other command needs the compiler
        from thrift.protocol.TBinaryProtocol import TBinaryProtocol
        from thrift.transport.TSocket import TSocket
        from thrift.transport.TTransport import TFramedTransport

        host, _, port = server.rpartition(":")
        transport = TFramedTransport(TSocket(host.strip("[]"), int(port)))
        client = current.SnowflakeExtended.Client(TBinaryProtocol(transport))
        transport.open()
        try:
            return speed(lambda: client.get_id("plain"), seconds)
        finally:
            transport.close()

    def do_redis(self, port, seconds):
        import redis  # only bench/run installs it

        with redis.Redis(port=port) as client:
            return speed(lambda: client.incr("ids"), seconds)


def speed(call, seconds):
    done, began, took = 0, time.perf_counter(), 0.0
    while took < seconds:
        for _ in range(100):
            call()
        done += 100
        took = time.perf_counter() - began
    return {"per_second": done / took}


if __name__ == "__main__":
    PythonRunner().run()
