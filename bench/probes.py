# SPDX-License-Identifier: Apache-2.0
"""The resources of a process, as the kernel counts them, and the time until a server answers."""
import contextlib
import pathlib
import random
import re
import socket
import struct
import threading
import time
import typing

SAMPLE_S = 0.1
RETRY_S = 0.0001

REPLY_BYTES = 34


def cpu_ns(pid):
    """Returns the CPU time of the current threads of a process, from the kernel's scheduler,
    in ns."""
    total = 0
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # a thread that just ended
            total += int(path.read_text().split()[0])
    return total


def children(pid):
    """Returns the running children of the process."""
    found = []
    for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, path.read_text().split())
    return found


def memory_bytes(pid):
    """Returns the resident, proportional and anonymous memory; {} if the process has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return {}
    found = dict(re.findall(r"^(Rss|Pss|Anonymous): +(\d+) kB$", text, re.MULTILINE))
    return {name.lower(): int(kib) * 1024 for name, kib in found.items()}


def kernel_and_all_ticks(pid):
    """Returns the CPU time of a process since its start: in the kernel, and in all."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0, 0
    fields = text[text.rindex(")") + 2:].split()
    user, system = int(fields[11]), int(fields[12])
    return system, user + system


class Sample(typing.NamedTuple):
    time_s: float
    cpu_s: float
    kernel_ticks: int
    all_ticks: int


class Sampler(threading.Thread):
    """Samples the CPU time of a process, and optionally its memory, until it is stopped."""

    def __init__(self, pid, with_memory=False):
        super().__init__(daemon=True)
        self.pid = pid
        self.with_memory = with_memory
        self.samples = []
        self.memory = {}  # the largest values
        self.enough = threading.Event()

    def run(self):
        while not self.enough.wait(SAMPLE_S):
            self.samples.append(Sample(time.monotonic(), cpu_ns(self.pid) / 1e9,
                                       *kernel_and_all_ticks(self.pid)))
            if self.with_memory:
                for name, value in memory_bytes(self.pid).items():
                    self.memory[name] = max(value, self.memory.get(name, 0))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.enough.set()
        self.join()

    def cpu(self, since, until):
        """Returns the CPU seconds per second between two times, and the kernel's part; nothing if
        there are too few samples."""
        inside = [sample for sample in self.samples if since <= sample.time_s <= until]
        if len(inside) < 2:
            return {}
        first, last = inside[0], inside[-1]
        ticks = last.all_ticks - first.all_ticks
        return {
            "cpu_share": (last.cpu_s - first.cpu_s) / (last.time_s - first.time_s),
            "kernel_share": (last.kernel_ticks - first.kernel_ticks) / ticks if ticks else None,
        }


def _receive(connection, wanted):
    data = b""
    while len(data) < wanted:
        part = connection.recv(wanted - len(data))
        if not part:
            raise ConnectionError("closed before the whole reply was there")
        data += part
    return data


def _get_id(seqid):
    """Returns the framed call, and the beginning of its reply after the frame's length."""
    method = struct.pack(">i6si", 6, b"get_id", seqid)
    call = b"\x80\x01\x00\x01" + method + b"\x0b\x00\x01\x00\x00\x00\x05bench\x00"
    return struct.pack(">i", len(call)) + call, b"\x80\x01\x00\x02" + method


def first_id(address, limit_s):
    """Connects as soon as the server listens, and returns the first ID."""
    deadline = time.monotonic() + limit_s
    call, reply_head = _get_id(random.randrange(1 << 31))
    while True:
        try:
            with socket.create_connection(address, timeout=limit_s) as connection:
                connection.sendall(call)
                reply = _receive(connection, REPLY_BYTES)
                break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)
    if not reply.startswith(reply_head, 4):
        raise ConnectionError(f"not the reply to get_id: {reply!r}")
    return struct.unpack(">q", reply[25:33])[0]
