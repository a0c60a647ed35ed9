# SPDX-License-Identifier: Apache-2.0
"""A program on its own terminal of a given size, which a test reads and on which it types; and a
base class for programs that run during a test."""
import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import threading
import unicodedata

from harness import CTL_ENVIRONMENT, HANG_GUARD_S, wait_for

LOCAL_MODES = 3
CLEAR = "\x1b[H\x1b[J"


def width(text):
    """Returns the columns that a string takes on a terminal."""
    return sum(0 if unicodedata.combining(character) else
               2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def as_at_a_terminal():
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    for number in (signal.SIGINT, signal.SIGQUIT):  # a shell lets background jobs ignore them
        signal.signal(number, signal.SIG_DFL)


class Program:
    """A process that does not outlive its with-statement."""

    process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Terminal(Program):
    def __init__(self, command, columns=80, rows=24, environment=None):
        self.leader, follower = os.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(self.leader)
        self.output = ""
        self._text = threading.Condition()
        self.process = subprocess.Popen(
            list(map(str, command)), env={**CTL_ENVIRONMENT, **(environment or {})},
            stdin=follower, stdout=follower, stderr=follower, start_new_session=True,
            preexec_fn=as_at_a_terminal)
        self._follower = follower  # kept open, so that the last output can be read
        self._ended = False
        self._over = False  # the process has ended, and its output was read
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while not self._ended:
            over = self.process.poll() is not None
            text = ""
            if select.select([self.leader], [], [], 0.05)[0]:
                text = os.read(self.leader, 65536).decode().replace("\r\n", "\n")
            with self._text:
                self.output += text
                self._over = over and not text
                self._text.notify_all()

    def wait_output(self, condition):
        """Waits until condition(output) is true. Returns the output."""
        with self._text:
            self._text.wait_for(lambda: condition(self.output) or self._over, HANG_GUARD_S)
            if not condition(self.output):
                why = f"status {self.process.returncode}" if self._over else f"{HANG_GUARD_S} s"
                raise AssertionError(f"not before {why}:\n{self.output}")
            return self.output

    def screens(self):
        """Returns the drawn screens, each of which replaces the previous one. The last one may be
        incomplete."""
        return self.output.split(CLEAR)[1:]

    def resize(self, columns, rows):
        """Resizes the terminal, which sends SIGWINCH to the foreground process."""
        self.columns, self.rows = columns, rows
        fcntl.ioctl(self.leader, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def lines_of(self, text):
        """Returns how many lines of the screen a string takes."""
        return sum(max(1, -(-width(line) // self.columns)) for line in text.splitlines())

    def fits(self, screen):
        """Whether the screen leaves a line for the cursor, and no line is too long."""
        return self.lines_of(screen) == len(screen.splitlines()) < self.rows

    def modes(self):
        return termios.tcgetattr(self.leader)[LOCAL_MODES]

    def takes_keys(self):
        """Whether keys are read without Enter, and not echoed."""
        return not self.modes() & (termios.ICANON | termios.ECHO)

    def is_as_before(self):
        return termios.tcgetattr(self.leader) == self.before

    def type(self, text):
        os.write(self.leader, text.encode())

    def wait_end(self):
        """Waits for the end and reads all output. Returns the exit status."""
        status = self.process.wait(HANG_GUARD_S)
        wait_for(lambda: not select.select([self.leader], [], [], 0.1)[0], "the end of it")
        return status

    def foreground(self):
        """Returns the foreground process group."""
        return os.tcgetpgrp(self.leader)

    def __exit__(self, *_):
        super().__exit__()
        self._ended = True
        self._reader.join()
        os.close(self.leader)
        os.close(self._follower)


def run_on_terminal(command, columns, environment=None):
    """Returns the exit status and the output."""
    with Terminal(command, columns, environment=environment) as terminal:
        status = terminal.wait_end()
        return status, terminal.output
