"""The log of a server on stderr: a line that can't be written is dropped, and never holds up or ends the server."""

import contextlib
import logging
import os
import select
import sys

_PIECE = 4096
"""Bytes written at a time: a pipe that takes any takes these without blocking (POSIX, PIPE_BUF)."""

_DESCRIPTORS = (0, 1, 2)


def write(text: str) -> None:
    """Write text to stderr, or drop it: stderr may be closed, full, or a pipe that its reader does not empty."""
    stream = sys.stderr
    if stream is None:
        return
    with contextlib.suppress(OSError, ValueError):
        try:
            descriptor = stream.fileno()
        except OSError:  # not a file, such as one that a test puts in place
            stream.write(text)
            return
        content = text.encode(errors="backslashreplace")
        for begin in range(0, len(content), _PIECE):
            if not _is_writable(descriptor):
                return
            os.write(descriptor, content[begin : begin + _PIECE])


def say(text: str) -> None:
    """Write a line of the server itself."""
    write(f"jaxgym: {text}\n")


class StderrHandler(logging.Handler):
    """Writes log records with `write`."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        write(f"{self.format(record)}\n")


def log_to_stderr() -> None:
    """Send log records to stderr unless the process has configured its logging."""
    root = logging.getLogger()
    if not root.handlers:
        handler = StderrHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s: %(message)s"))
        root.addHandler(handler)


def keep_standard_descriptors() -> None:
    """Open what is closed of stdin, stdout and stderr, so that no socket becomes one of them."""
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
