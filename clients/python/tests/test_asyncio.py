# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import os
import pathlib
import ssl
import tempfile
import threading
import time
from unittest import mock

from support import LONG_S, Call, Case, at_server

from test_tls import KEY, openssl

from snowflake_client import AsyncSnowflake, ClosedError, SnowflakeTimeoutError, UnreachableError


async def until(condition):
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end, "it does not come to be"
        await asyncio.sleep(0.005)


class Async(Case):
    def run_with(self, servers, main, **options):
        async def run():
            async with AsyncSnowflake(servers, agent="test",
                                      **{"timeout": LONG_S, **options}) as client:
                return await main(client)

        return asyncio.run(run())

    def test_ids(self):
        async def main(client):
            ids = [await client.next_id() for _ in range(1000)]
            return ids + await client.next_ids(20000) + [await client.next_id()]

        for prefetch in (0.05, 0):
            self.assert_ids(self.run_with(self.server(), main, prefetch=prefetch), 21001)

    def test_many_tasks(self):
        async def main(client):
            return await asyncio.gather(*(client.next_id() for _ in range(2000)))

        for prefetch in (0.05, 0):
            ids = self.run_with(self.server(), main, prefetch=prefetch)
            self.assertEqual(len(set(ids)), 2000)

    def test_prefetched_ids_need_no_switch_of_tasks(self):
        async def main(client):
            while client.stats().buffered < 100:
                await client.next_id()
            with mock.patch("asyncio.BaseEventLoop.call_soon", side_effect=AssertionError):
                for _ in range(50):
                    await client.next_id()

        self.run_with(self.server(), main, prefetch=1, max_age=LONG_S)

    def test_no_call_needs_a_thread(self):
        async def main(client):
            with mock.patch("_thread.start_new_thread", side_effect=AssertionError("a thread")), \
                    mock.patch("threading.Thread.start", side_effect=AssertionError("a thread")):
                return [await client.next_id() for _ in range(500)] + await client.next_ids(20000)

        for prefetch in (0.05, 0):
            self.assert_ids(self.run_with(self.server(), main, prefetch=prefetch), 20500)

    def test_several_event_loops(self):
        """One after the other, and at the same time in threads."""
        client = AsyncSnowflake(self.server(), agent="test", timeout=LONG_S, prefetch=0)

        async def take(count):
            return sum(await asyncio.gather(*(client.next_ids(3) for _ in range(count))), [])

        async def close():
            await client.close()

        async def with_own_connection():
            ids = await take(100)
            client._engine().close()
            del client._engines[asyncio.get_running_loop()]
            return ids

        ids, errors = [], []

        def run():
            try:
                ids.extend(asyncio.run(with_own_connection()))
            except BaseException as error:
                errors.append(error)

        for _ in range(3):
            run()
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG_S)
        asyncio.run(close())
        self.assertEqual(errors, [])
        self.assertEqual(len(set(ids)), 7 * 300)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as directory:
            files = pathlib.Path(directory)
            openssl("req", "-x509", *KEY, "-days", 2, "-keyout", files / "key.pem", "-out",
                    files / "own.pem", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost")
            server = self.server("--tls-certificate", str(files / "own.pem"), "--tls-key",
                                 str(files / "key.pem"), listen="tls:127.0.0.1:0")
            context = ssl.create_default_context(cafile=str(files / "own.pem"))

            async def main(client):
                return await client.next_ids(3)

            async def fail(client):
                with self.assertRaises(UnreachableError) as caught:
                    await client.next_id()
                return caught.exception

            self.assert_ids(self.run_with(server.replace("127.0.0.1", "localhost"), main,
                                          tls=context), 3)
            with self.without_retries():
                error = self.run_with(server, fail, tls=context)
                self.assertIsInstance(error.__cause__, ssl.SSLCertVerificationError)
                error = self.run_with(f"tls:{self.dead()}", fail, tls=context)
                self.assertIsInstance(error.__cause__, ConnectionRefusedError)

    def test_a_server_that_hangs_is_left(self):
        hanging, good = self.peer(lambda call: call.peer.hang()), self.peer(Call.ids)

        async def main(client):
            return [await client.next_id() for _ in range(10)]

        with mock.patch("random.shuffle"), self.short_attempts(at_server(hanging.address)):
            self.assert_ids(self.run_with([hanging.address, good.address], main, prefetch=0), 10)
        self.assertLessEqual(len(hanging.calls), 1)

    def test_a_connection_that_ended_since_is_no_failure(self):
        peer = self.peer(Call.ids)

        async def main(client):
            for connections in range(1, 4):
                await client.next_id()
                self.assertEqual(peer.connections, connections)
                peer.break_connections()
            return client.stats().failures

        self.assertEqual(self.run_with(peer.address, main, prefetch=0), 0)

    def test_the_loop_goes_on_while_a_server_hangs(self):
        peer = self.peer(lambda call: call.peer.hang())
        before = threading.active_count()

        async def main(client):
            tasks = [asyncio.create_task(client.next_id()) for _ in range(100)]
            tasks.append(asyncio.create_task(client.next_ids(10)))
            await until(lambda: peer.calls or tasks[0].done())
            threads = threading.active_count() - before
            return threads, await asyncio.gather(*tasks, return_exceptions=True)

        threads, errors = self.run_with(peer.address, main, timeout=0.5)
        self.assertLess(threads, 10)
        self.assertEqual({type(error) for error in errors}, {SnowflakeTimeoutError})
        self.assertEqual({error.attempts[0].server for error in errors}, {peer.address})

    def test_a_crowd_that_waits_finds_a_far_server_when_it_is_back(self):
        is_back = threading.Event()

        async def main(client):
            calls, found, ends_at = [], 0, time.monotonic() + LONG_S
            while time.monotonic() < ends_at and not found:
                calls.append(asyncio.ensure_future(client.next_id()))
                await asyncio.sleep(0.01)
                if len(calls) == 80:
                    is_back.set()
                found = sum(call.done() and not call.exception() for call in calls)
            ends = await asyncio.gather(*calls, return_exceptions=True)
            return found and {type(end) for end in ends}

        self.assertEqual(self.run_with(self.far_peer(is_back).address, main, timeout=0.4),
                         {int, SnowflakeTimeoutError})

    def test_errors(self):
        async def main(client):
            with self.assertRaises(UnreachableError), self.without_retries():
                await client.next_id()
            with self.assertRaises(ValueError):
                await client.next_ids(0)

        self.run_with([self.dead(), self.dead()], main)

    def test_close_ends_calls(self):
        peer = self.peer(lambda call: call.peer.hang())

        async def main(client):
            tasks = [asyncio.create_task(client.next_id()) for _ in range(3)]
            await until(lambda: peer.calls)
            await client.close()
            return await asyncio.gather(*tasks, return_exceptions=True)

        errors = self.run_with(peer.address, main, timeout=LONG_S)
        self.assertEqual([type(error) for error in errors], [ClosedError] * 3)

    def test_a_task_that_is_cancelled(self):
        """Those that wait for its request go on with another, on another connection."""
        end = threading.Event()
        peer = self.peer(lambda call: end.wait(LONG_S) and call.ids())

        async def main(client):
            tasks = [asyncio.create_task(client.next_id()) for _ in range(3)]
            await until(lambda: peer.calls)
            tasks[0].cancel()
            end.set()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertIsInstance(ends[0], asyncio.CancelledError)
            return ends[1:] + [await client.next_id() for _ in range(3)]

        self.assert_ids(self.run_with(peer.address, main, prefetch=0), 5)
        self.assertEqual(peer.connections, 2)

    def test_a_task_that_is_cancelled_as_it_is_served(self):
        async def main(client):
            tasks = [asyncio.create_task(client.next_id()) for _ in range(2)]
            await tasks[0]
            tasks[1].cancel()
            await asyncio.gather(tasks[1], return_exceptions=True)
            return [await client.next_id() for _ in range(3)]

        self.assert_ids(self.run_with(self.peer(Call.ids).address, main, prefetch=0), 3)

    def test_a_child_of_a_call_under_way(self):
        end = threading.Event()
        hanging = self.peer(lambda call: end.wait(LONG_S) and call.ids())

        async def main(client):
            task = asyncio.create_task(client.next_id())
            await until(lambda: hanging.calls)
            child = os.fork()
            if child == 0:  # it has no running loop
                with contextlib.suppress(BaseException):
                    end.set()
                    os.write(writing, str(asyncio.run(take(client))).encode())
                os._exit(0)
            end.set()
            os.waitpid(child, 0)
            return await task, int(os.read(reading, 100))

        async def take(client):
            return await client.next_id()

        reading, writing = os.pipe()
        of_parent, of_child = self.run_with(hanging.address, main)
        os.close(reading)
        os.close(writing)
        self.assertNotEqual(of_parent, of_child)

    def test_ids_and_calls_of_one_that_was_closed_meanwhile(self):
        async def main(client):
            await client.next_ids(5)
            await client.close()
            with self.assertRaises(ClosedError):
                await client.next_id()

        self.run_with(self.peer(Call.ids).address, main)
