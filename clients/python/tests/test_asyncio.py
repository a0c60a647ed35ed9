# SPDX-License-Identifier: Apache-2.0
import asyncio
import os
import threading
import time
from unittest import mock

from support import LONG_S, Call, Case

from snowflake_client import AsyncSnowflake, ClosedError, SnowflakeTimeoutError, UnreachableError


async def until(condition):
    end = time.monotonic() + LONG_S
    while not condition():
        assert time.monotonic() < end, "it does not come to be"
        await asyncio.sleep(0.005)


def _is_taken_in_child(client):
    client._see_to_fork()
    return client._turn.locked()


class Async(Case):
    def run_with(self, servers, main, **options):
        async def run():
            async with AsyncSnowflake(servers, agent="test",
                                      **{"timeout_ms": LONG_S * 1000, **options}) as client:
                return await main(client)

        return asyncio.run(run())

    def test_ids(self):
        async def main(client):
            ids = [await client.next_id() for _ in range(1000)]
            return ids + await client.next_ids(20000) + [await client.next_id()]

        for prefetch_ms in (50, 0):
            self.assert_ids(self.run_with(self.server(), main, prefetch_ms=prefetch_ms), 21001)

    def test_many_tasks(self):
        async def main(client):
            return await asyncio.gather(*(client.next_id() for _ in range(2000)))

        for prefetch_ms in (50, 0):
            ids = self.run_with(self.server(), main, prefetch_ms=prefetch_ms)
            self.assertEqual(len(set(ids)), 2000)

    def test_what_is_in_hand_needs_no_thread(self):
        async def main(client):
            self.fill_hand(client._client)
            with self.assertNoThreads():
                for _ in range(50):
                    await client.next_id()

        self.run_with(self.server(), main, prefetch_ms=1000, max_age_ms=LONG_S * 1000)

    def assertNoThreads(self):
        return mock.patch("threading.Thread.start", side_effect=AssertionError("a thread"))

    def test_the_loop_goes_on_while_a_server_hangs(self):
        peer = self.peer(lambda call: call.peer.hang())
        before = threading.active_count()

        async def main(client):
            tasks = [asyncio.create_task(client.next_id()) for _ in range(100)]
            tasks.append(asyncio.create_task(client.next_ids(10)))
            await until(lambda: peer.calls or tasks[0].done())
            threads = threading.active_count() - before
            return threads, await asyncio.gather(*tasks, return_exceptions=True)

        threads, errors = self.run_with(peer.address, main, timeout_ms=500)
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

        self.assertEqual(self.run_with(self.far_peer(is_back).address, main, timeout_ms=400),
                         {int, SnowflakeTimeoutError})

    def test_errors(self):
        async def main(client):
            with self.assertRaises(UnreachableError):
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

        errors = self.run_with(peer.address, main, timeout_ms=LONG_S * 1000)
        self.assertEqual([type(error) for error in errors], [ClosedError] * 3)

    def test_a_task_that_is_cancelled(self):
        end = threading.Event()
        peer = self.peer(lambda call: end.wait(LONG_S) and call.ids())

        async def main(client):
            task = asyncio.create_task(client.next_id())
            await until(lambda: peer.calls)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            end.set()
            return [await client.next_id() for _ in range(3)]

        self.assert_ids(self.run_with(peer.address, main), 3)
        self.assertEqual(peer.connections, 1)

    def test_a_task_that_is_cancelled_as_its_turn_comes(self):
        async def main(client):
            tasks = [asyncio.create_task(client.next_id()) for _ in range(2)]
            await tasks[0]
            tasks[1].cancel()
            with self.assertRaises(asyncio.CancelledError):
                await tasks[1]
            return [await client.next_id() for _ in range(3)]

        self.assert_ids(self.run_with(self.peer(Call.ids).address, main, prefetch_ms=0), 3)

    def test_a_child_of_a_call_under_way(self):
        end = threading.Event()
        hanging = self.peer(lambda call: end.wait(LONG_S) and call.ids())

        async def main(client):
            task = asyncio.create_task(client.next_id())
            await until(lambda: hanging.calls)
            child = os.fork()
            if child == 0:
                os._exit(int(client._turn.locked() and _is_taken_in_child(client)))
            end.set()
            await task
            return os.waitpid(child, 0)[1]

        self.assertEqual(self.run_with(hanging.address, main), 0)

    def test_no_thread_can_be_had(self):
        async def main(client):
            with mock.patch("threading.Thread.start", side_effect=RuntimeError("no thread")):
                with self.assertRaisesRegex(UnreachableError, "no thread"):
                    await client.next_id()
            return [await client.next_id() for _ in range(3)]

        self.assert_ids(self.run_with(self.peer(Call.ids).address, main), 3)

    def test_many_tasks_that_are_cancelled(self):
        peer = self.peer(lambda call: call.peer.hang())

        async def main(client):
            for _ in range(20):
                task = asyncio.create_task(client.next_id())
                await until(lambda: peer.calls)
                await asyncio.sleep(0)  # lint: allow sleep: so that the task begins
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
            return [thread.name for thread in threading.enumerate()].count("snowflake-ask")

        self.assertEqual(self.run_with(peer.address, main), 1)

    def test_ids_and_calls_of_one_that_was_closed_meanwhile(self):
        async def main(client):
            await client.next_ids(5)
            await client.close()
            with self.assertRaises(ClosedError):
                await client.next_id()

        self.run_with(self.peer(Call.ids).address, main)
