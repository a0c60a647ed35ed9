# SPDX-License-Identifier: Apache-2.0
"""What a proxy does to calls and replies, by name. A function gets the connection, the call and,
if the server was asked, its reply (else None), and does what is to be done instead of answering.

What a reply that was meddled with had in it no client may hand out: see Proxy.spoilt.
"""
import os
import struct

import messages
from messages import count_of, of_numbers, of_runs

HUGE_FRAME = 0x7FFFFFF0
LARGEST = (1 << 63) - 1
NO_METHOD = "get_nothing"
ENDLESS = 60_000  # bytes that no test waits for, one by one; a frame of C has 65,536 at most


# Instead of asking the server

def hang(link, _call, _reply, _fault):
    """Never answers."""
    link.wait_for_end()


def http(link, _call, _reply, _fault):
    """As a web server would."""
    link.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    link.end()


def noise(link, _call, _reply, _fault):
    """A frame of bytes that are nothing."""
    link.send_frame(b"\xff" + os.urandom(60))


def huge(link, _call, _reply, _fault):
    """The length of a frame that nobody should wait for."""
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
    """An older server: these calls it does not know."""
    if call.method in fault.settings["calls"]:
        link.answer(messages.unknown(call))
    else:
        link.answer(link.ask(call))


# With the server's reply

def swallow(link, _call, _reply, _fault):
    link.reset()


def cut_off(link, _call, reply, _fault):
    """A frame that ends within the message."""
    link.send_frame(reply.encode()[:-6])


def late(link, _call, reply, fault):
    link.wait(fault.settings["ms"] / 1000)
    link.answer(reply)


def slow(link, call, reply, fault):
    """IDs come late, but in time: they are good."""
    late(link, call, reply, fault)


def far(link, call, reply, fault):
    """Likewise, for all calls and not only for those for IDs."""
    late(link, call, reply, fault)


def drip(link, call, _reply, fault):
    """Answers byte by byte, so that each read ends, without an end."""
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
    """The reply before this one on the connection."""
    link.answer(link.before)


def too_few(link, call, reply, _fault):
    numbers = _numbers(reply)
    link.answer(of_numbers(call, numbers[:-1]))


def too_many(link, call, reply, _fault):
    """Of a call for one ID, which has no place for two: none."""
    numbers = _numbers(reply)
    link.answer(of_numbers(call, numbers + [numbers[-1] + 1] if call.method in messages.BATCHES
                           else []))


def zero(link, call, reply, _fault):
    link.answer(of_numbers(call, [0] + _numbers(reply)[1:]))


def negative(link, call, reply, _fault):
    link.answer(of_numbers(call, [-number for number in _numbers(reply)]))


def empty_run(link, call, reply, _fault):
    """As many IDs in all, but a run among them has none."""
    link.answer(of_runs(call, [(run.start, len(run)) for run in messages.ids_of(reply)] + [(0, 0)]))


def run_beyond_the_range(link, call, _reply, _fault):
    """Its last ID is beyond what 64 bits hold."""
    count = count_of(call)
    link.answer(of_runs(call, [(LARGEST - count // 2, count)] if count > 1 else
                        [(LARGEST, 2), (-1, -1)]))


def _numbers(reply):
    return [number for run in messages.ids_of(reply) for number in run]


OF_CALLS = (hang, http, noise, huge, clock, unavailable, bad_agent, lacks)
OF_REPLIES = (swallow, cut_off, late, slow, far, drip, wrong_sequence_id, wrong_name,
              of_another_call, too_few, too_many, zero, negative, empty_run, run_beyond_the_range)
# Calls for other things than IDs pass.
OF_IDS = {slow, clock, unavailable, bad_agent, too_few, too_many, zero, negative, empty_run,
          run_beyond_the_range}
BY_NAME = {fault.__name__.replace("_", "-"): fault for fault in OF_CALLS + OF_REPLIES}
