# SPDX-License-Identifier: Apache-2.0
"""Stops one thread of a server, while the others continue."""
import contextlib
import ctypes
import os
import pathlib

DETACH, SEIZE, INTERRUPT = 17, 0x4206, 0x4207  # sys/ptrace.h
ALL_THREADS = 0x40000000  # __WALL of sys/wait.h

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, thread_id):
    if _libc.ptrace(request, thread_id, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace: {os.strerror(ctypes.get_errno())}")


def _thread_id(process_id, name, index):
    tasks = sorted(pathlib.Path(f"/proc/{process_id}/task").iterdir(),
                   key=lambda task: int(task.name))
    named = [task for task in tasks if (task / "comm").read_text().strip() == name]
    if not named:
        raise AssertionError(f"process {process_id} has no thread {name}")
    return int(named[index].name)


@contextlib.contextmanager
def held_thread(process_id, name, index=0):
    """Stops a thread. index: among the threads of this name, the oldest first."""
    thread_id = _thread_id(process_id, name, index)
    _ptrace(SEIZE, thread_id)
    _ptrace(INTERRUPT, thread_id)
    os.waitpid(thread_id, ALL_THREADS)
    try:
        yield
    finally:
        try:
            _ptrace(DETACH, thread_id)
        except ProcessLookupError:
            os.waitpid(thread_id, ALL_THREADS)  # the thread has ended, and the process can end
