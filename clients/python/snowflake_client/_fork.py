# SPDX-License-Identifier: Apache-2.0
"""Detects fork(), also by C code that calls no hooks of Python's.

A mark is 1 in the process that made it and 0 in its children: on Linux a byte of a page that the
kernel wipes in a child (MADV_WIPEONFORK of madvise(2)), which costs no system call. Elsewhere it
compares the process ID.
"""
import mmap
import sys
from os import getpid
from typing import Optional, Union

_MADV_WIPEONFORK = 18
_MADV_NONE = -1  # is invalid: an emulator that accepts it accepts and ignores any advice


class _MarkOfPid:
    def __init__(self) -> None:
        self._pid = getpid()

    def __getitem__(self, index: int) -> int:
        return int(self._pid == getpid())


ForkMark = Union[mmap.mmap, _MarkOfPid]


def new_fork_mark() -> ForkMark:
    return _mark_of_page() or _MarkOfPid()


def _mark_of_page() -> Optional[mmap.mmap]:
    if sys.platform != "linux":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        page.madvise(_MADV_WIPEONFORK)
    except OSError:
        return None
    try:
        page.madvise(_MADV_NONE)
    except OSError:
        page[0] = 1
        return page
    return None
