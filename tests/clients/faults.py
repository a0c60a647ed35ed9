# SPDX-License-Identifier: Apache-2.0
"""The faults of a proxy, by name. A function gets the connection, the call and, if the server was
asked, its reply (otherwise None), and acts instead of answering.

A client must not return IDs from a distorted reply: see Proxy.spoilt.
"""
import os
import struct

import messages
from messages import count_of, of_numbers, of_runs

HUGE_FRAME = 0x7FFFFFF0
LARGEST = (1 << 63) - 1
NO_METHOD = "get_nothing"
# more bytes than a test waits for, one by one; the C client accepts frames up to 65,536 bytes
ENDLESS = 60_000


# Instead of asking the server

def hang(link, _call, _reply, _fault):
    """Never answers."""
    link.wait_for_end()


def http(link, _call, _reply, _fault):
    """Replies like a web server."""
    link.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    link.end()


def noise(link, _call, _reply, _fault):
    """Replies with a frame of random bytes."""
    link.send_frame(b"\xff" + os.urandom(60))


def huge(link, _call, _reply, _fault):
    """Replies with the length of a frame that is too large to wait for."""
    link.send(struct.pack(">I", HUGE_FRAME))
    link.wait_for_end()


def clock(link, call, _reply, _fault):
    link.answer(messages.refusal(call, "InvalidSystemClock", "the clock is 800 ms behind"))


def unavailable(link, call, _reply, fault):
    link.answer(messages.refusal(call, "WorkerIdUnavailable", "no worker ID at present",
                                 retry_after_ms=fault.settings.get("retry_after_ms", 250)))


def bad_agent(link, call, _reply, _fault):
    link.answer(messages.refusal(call, "InvalidUserAgentError", "the useragent is not welcome"))


def lacks(link, call, _reply, fault):
    """Acts like an older server, which does not support these calls."""
    if call.method in fault.settings["calls"]:
        link.answer(messages.unknown(call))
    else:
        link.answer(link.ask(call))


# With the server's reply

def swallow(link, _call, _reply, _fault):
    link.reset()


def cut_off(link, _call, reply, _fault):
    """Replies with a frame that ends within the message."""
    link.send_frame(reply.encode()[:-6])


def late(link, _call, reply, fault):
    link.wait(fault.settings["ms"] / 1000)
    link.answer(reply)


def slow(link, call, reply, fault):
    """Delays IDs, but not beyond the deadline: they are valid."""
    late(link, call, reply, fault)


def far(link, call, reply, fault):
    """Delays the replies to all calls, including those that are not for IDs."""
    late(link, call, reply, fault)


def drip(link, call, _reply, fault):
    """Replies byte by byte without an end, so that each read succeeds."""
    reply = messages.application_exception(call, messages.INTERNAL_ERROR, "x" * ENDLESS)
    for byte in link.framed(reply.encode()):
        link.send(bytes([byte]))
        if link.wait(fault.settings["ms"] / 1000) or link.healed.is_set():
            raise EOFError


def wrong_sequence_id(link, _call, reply, _fault):
    link.answer(reply._replace(seqid=reply.seqid + 1000))


def wrong_name(link, _call, reply, _fault):
    link.answer(reply._replace(method=NO_METHOD))


def of_another_call(link, _call, _reply, _fault):
    """Replies with the previous reply of the connection."""
    link.answer(link.before)


def too_few(link, call, reply, _fault):
    numbers = _numbers(reply)
    link.answer(of_numbers(call, numbers[:-1]))


def too_many(link, call, reply, _fault):
    """Adds an ID; a call for one ID, whose reply cannot contain two, gets none."""
    numbers = _numbers(reply)
    link.answer(of_numbers(call, numbers + [numbers[-1] + 1] if call.method in messages.BATCHES
                           else []))


def zero(link, call, reply, _fault):
    link.answer(of_numbers(call, [0] + _numbers(reply)[1:]))


def negative(link, call, reply, _fault):
    link.answer(of_numbers(call, [-number for number in _numbers(reply)]))


def empty_run(link, call, reply, _fault):
    """Replies with the right number of IDs, but one run is empty."""
    link.answer(of_runs(call, [(run.start, len(run)) for run in messages.ids_of(reply)] + [(0, 0)]))


def run_beyond_the_range(link, call, _reply, _fault):
    """Replies with a run whose last ID exceeds 64 bits."""
    count = count_of(call)
    link.answer(of_runs(call, [(LARGEST - count // 2, count)] if count > 1 else
                        [(LARGEST, 2), (-1, -1)]))


def _numbers(reply):
    return [number for run in messages.ids_of(reply) for number in run]


OF_CALLS = (hang, http, noise, huge, clock, unavailable, bad_agent, lacks)
OF_REPLIES = (swallow, cut_off, late, slow, far, drip, wrong_sequence_id, wrong_name,
              of_another_call, too_few, too_many, zero, negative, empty_run, run_beyond_the_range)
# Faults that let calls pass that are not for IDs.
OF_IDS = {slow, clock, unavailable, bad_agent, too_few, too_many, zero, negative, empty_run,
          run_beyond_the_range}
BY_NAME = {fault.__name__.replace("_", "-"): fault for fault in OF_CALLS + OF_REPLIES}
