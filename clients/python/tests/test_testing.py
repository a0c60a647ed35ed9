# SPDX-License-Identifier: Apache-2.0
import asyncio
import inspect

from support import Case, running_server

from snowflake_client import (AsyncSnowflake, ClosedError, Snowflake, UnavailableError, decode,
                              testing)
from snowflake_client.testing import AsyncFakeSnowflake, FakeSnowflake


class Fakes(Case):
    def test_ids_are_the_same_each_time(self):
        for _ in range(2):
            fake = FakeSnowflake()
            self.assertEqual([fake.next_id(), *fake.next_ids(3), fake.next_id()],
                             [testing.FIRST_ID + number for number in range(5)])
        self.assertEqual(decode(testing.FIRST_ID)[1:], (1, 2, 0))
        self.assertEqual(decode(testing.FIRST_ID).time.isoformat(), "2023-11-14T22:13:20+00:00")
        self.assertEqual(FakeSnowflake(10, step=5).next_ids(3), [10, 15, 20])

    def test_errors(self):
        with FakeSnowflake(first=1) as fake:
            fake.fail_next(UnavailableError("not today", retry_after_ms=5))
            self.assertRaises(UnavailableError, fake.next_id)
            self.assertEqual(fake.next_id(), 1)
            self.assertRaises(ValueError, fake.next_ids, 0)
        self.assertRaises(ClosedError, fake.next_id)
        self.assertRaises(ValueError, FakeSnowflake, 0)

    def test_of_asyncio(self):
        async def main():
            async with AsyncFakeSnowflake(first=7) as fake:
                fake.fail_next(UnavailableError("not today"))
                with self.assertRaises(UnavailableError):
                    await fake.next_id()
                return [await fake.next_id(), *await fake.next_ids(2)]

        self.assertEqual(asyncio.run(main()), [7, 8, 9])

    def test_they_have_the_calls_of_clients(self):
        for real, fake in ((Snowflake, FakeSnowflake), (AsyncSnowflake, AsyncFakeSnowflake)):
            for name in ("next_id", "next_ids", "close"):
                self.assertEqual(inspect.signature(getattr(real, name)),
                                 inspect.signature(getattr(fake, name)))


class RunningServer(Case):
    def test_it_serves_and_ends(self):
        with running_server("--datacenter-id", "3", listen=self.dead()) as address:
            client = self.client(address, prefetch=0)
            self.assertEqual(decode(client.next_id())[1:3], (3, 0))
        self.failure_at_once(client.next_id)

    def test_one_that_does_not_start(self):
        with self.assertRaises(RuntimeError) as caught, running_server("--no-such-option"):
            pass
        self.assertIn("no-such-option", str(caught.exception))
