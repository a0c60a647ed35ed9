# SPDX-License-Identifier: Apache-2.0
"""Exceptions that end a thread, or a task of asyncio that nobody waits for. Python prints them and
goes on; here somebody is told, because a check that is made in a thread counts like any other."""
import logging
import threading


def watch(tell):
    """From now on tell(thread, error) is called for each, in whatever thread: `thread` is the one
    that was ended, or in which the task was found; `error` as in sys.exc_info()."""
    def thread_ended(how):
        tell(how.thread, (how.exc_type, how.exc_value, how.exc_traceback))

    class TaskErrors(logging.Handler):
        def emit(self, record):
            if record.exc_info:
                tell(threading.current_thread(), record.exc_info)

    threading.excepthook = thread_ended
    logging.getLogger("asyncio").addHandler(TaskErrors(logging.ERROR))
