# SPDX-License-Identifier: Apache-2.0
"""Exceptions that end a thread, or an asyncio task that is never awaited. Python only prints them.
Here they are reported, because checks in threads must also fail the test."""
import logging
import threading


def watch(tell):
    """Calls tell(thread, error) for each exception from now on, in any thread. `thread`: the ended
    thread, or the one in which the task was found; `error`: as in sys.exc_info()."""
    def thread_ended(how):
        tell(how.thread, (how.exc_type, how.exc_value, how.exc_traceback))

    class TaskErrors(logging.Handler):
        def emit(self, record):
            if record.exc_info:
                tell(threading.current_thread(), record.exc_info)

    threading.excepthook = thread_ended
    logging.getLogger("asyncio").addHandler(TaskErrors(logging.ERROR))
