# SPDX-License-Identifier: Apache-2.0
"""Whether this process is the one that made something, or a child of it, whoever called fork().

    life = begin_life()
    life[0]  # 1 here, 0 in a child

On Linux it is a byte of a page that the kernel clears in a child (MADV_WIPEONFORK of madvise(2), as
of Linux 4.14), which costs no system call. Elsewhere, the process ID is compared.
"""
import mmap
import sys
from os import getpid
from typing import Union

_MADV_WIPEONFORK = 18
_MADV_NONE = -1  # is no advice: an emulator that takes it takes any, and does nothing


class _LifeOfPid:
    def __init__(self) -> None:
        self._pid = getpid()

    def __getitem__(self, index: int) -> int:
        return int(self._pid == getpid())


Life = Union[mmap.mmap, _LifeOfPid]


def begin_life() -> Life:
    return _life_of_page() or _LifeOfPid()


def _life_of_page() -> Union[mmap.mmap, None]:
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
