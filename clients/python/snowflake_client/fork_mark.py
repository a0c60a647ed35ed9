# SPDX-License-Identifier: Apache-2.0
"""Says whether this process is the one that made the mark, or a child of it, whoever called fork().

    mark = new_fork_mark()
    mark[0]  # 1 here, 0 in a child

On Linux it is a byte of a page that the kernel wipes in a child (MADV_WIPEONFORK of madvise(2), as
of Linux 4.14), which costs no system call. Elsewhere the process ID is compared, which a child has
as well if it is the first of a namespace, as its parent was.

Whoever takes what is copied on fork() looks at the mark behind that: a signal handler may have
forked in between.
"""
import mmap
import sys
from os import getpid
from typing import Optional, Union

_MADV_WIPEONFORK = 18
_MADV_NONE = -1  # is no advice: an emulator that takes it takes any, and does nothing


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
