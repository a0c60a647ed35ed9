# SPDX-License-Identifier: Apache-2.0
"""What a process sees of its life, and its children of theirs."""
import ctypes
import os
import sys
import unittest
from unittest import mock

from support import Case

from snowflake_client import life


def _check_children(lives, depth):
    """That a child that C code forks sees itself in none of these lives, but in one that it begins;
    and its own child likewise. Its exit status."""
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        seen = [each[0] for each in lives]
        lives.append(life.begin_life())
        is_right = not any(seen) and lives[-1][0] == 1
        if depth > 1:
            is_right = _check_children(lives, depth - 1) == 0 and is_right
        os._exit(0 if is_right else 1)
    return os.waitpid(child, 0)[1]


class Lives(Case):
    def test_children_and_their_children(self):
        for begin in (life.begin_life, life._LifeOfPid):
            with self.subTest(begin=begin), mock.patch.object(life, "begin_life", begin):
                own = begin()
                self.assertEqual(_check_children([own], depth=3), 0)
                self.assertEqual(own[0], 1)

    @unittest.skipUnless(sys.platform == "linux", "only Linux clears a page")
    def test_a_page_on_linux(self):
        self.assertNotIsInstance(life.begin_life(), life._LifeOfPid)

    def test_where_there_is_no_such_page(self):
        """Another system, an older kernel, and an emulator that takes any advice."""
        for name, value in (("sys.platform", "darwin"), ("_MADV_WIPEONFORK", 4095),
                            ("_MADV_NONE", 0)):
            with self.subTest(name=name), mock.patch(f"snowflake_client.life.{name}", value):
                self.assertIsInstance(life.begin_life(), life._LifeOfPid)


if __name__ == "__main__":
    unittest.main()
