# SPDX-License-Identifier: Apache-2.0
"""What a process sees in its mark, and its children in it and in theirs."""
import ctypes
import os
import sys
import unittest
from unittest import mock

from support import Case

from snowflake_client import _fork


def _check_children(marks, depth):
    """That a child that C code forks is the one that made none of these marks, but its own;
    and its own child likewise. Its exit status."""
    child = ctypes.PyDLL(None).fork()
    if child == 0:
        seen = [each[0] for each in marks]
        marks.append(_fork.new_fork_mark())
        is_right = not any(seen) and marks[-1][0] == 1
        if depth > 1:
            is_right = _check_children(marks, depth - 1) == 0 and is_right
        os._exit(0 if is_right else 1)
    return os.waitpid(child, 0)[1]


class Marks(Case):
    def test_children_and_their_children(self):
        for new in (_fork.new_fork_mark, _fork._MarkOfPid):
            with self.subTest(new=new), mock.patch.object(_fork, "new_fork_mark", new):
                own = new()
                self.assertEqual(_check_children([own], depth=3), 0)
                self.assertEqual(own[0], 1)

    @unittest.skipUnless(sys.platform == "linux", "only Linux clears a page")
    def test_a_page_on_linux(self):
        self.assertNotIsInstance(_fork.new_fork_mark(), _fork._MarkOfPid)

    def test_where_there_is_no_such_page(self):
        """Another system, an older kernel, and an emulator that takes any advice."""
        for name, value in (("sys.platform", "darwin"), ("_MADV_WIPEONFORK", 4095),
                            ("_MADV_NONE", 0)):
            with self.subTest(name=name), mock.patch(f"snowflake_client._fork.{name}", value):
                self.assertIsInstance(_fork.new_fork_mark(), _fork._MarkOfPid)


if __name__ == "__main__":
    unittest.main()
