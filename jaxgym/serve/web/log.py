"""Log of a server on stderr; a line that can't be written is dropped, so that it never blocks or stops the server."""

import contextlib
import logging
import os
import select
import sys

_PIECE = 4096
"""Number of bytes of one write: a writable pipe accepts as many without blocking (POSIX, PIPE_BUF)."""

_DESCRIPTORS = (0, 1, 2)


def write(text: str) -> None:
    """Write text to stderr, or drop it if stderr is closed or not writable."""
    stream = sys.stderr
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            descriptor = stream.fileno()
        except OSError:  # stderr is not a file, for example in tests
            stream.write(text)
            return
        content = text.encode(errors="backslashreplace")
        for begin in range(0, len(content), _PIECE):
            if not _is_writable(descriptor):
                return
            os.write(descriptor, content[begin : begin + _PIECE])


def print_line(text: str) -> None:
    """Write a log line of the server."""
    write(f"jaxgym: {text}\n")


class StderrHandler(logging.Handler):
    """Handler that writes log records with `write`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        write(f"{self.format(record)}\n")


def log_to_stderr() -> None:
    """Send log records to stderr unless the process has configured its logging."""
    logging.basicConfig(format="%(levelname)s: %(message)s", handlers=[StderrHandler()])


def keep_standard_descriptors() -> None:
    """Open closed standard descriptors, so that no socket gets the number of stdin, stdout or stderr."""
    for descriptor in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _is_writable(descriptor: int) -> bool:
    if not hasattr(select, "poll"):  # Windows polls sockets only
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    return bool(poll.poll(0))
