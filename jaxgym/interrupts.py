"""What ends a command from outside: an interrupt from the keyboard is never lost, a reader who leaves is no error."""

import os
import signal
import sys
import threading
import time
from typing import NoReturn

CODE = 130
"""How a process ends that a person has stopped: as shells have it, 128 and the number of the signal."""

UNREAD = 1
"""How a process ends whose output nobody reads any more."""

_SOON = 0.05  # seconds, in which the collector's callback ends: inside of it the interrupt would be lost again


def keep() -> None:
    """Has an interrupt repeated that came while the garbage collector called somebody.

    What such a call raises is only printed, and JAX has itself called at every collection.
    """
    others = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            others(unraisable)
            return
        is_told = threading.Event()
        try:
            threading.Thread(target=_interrupt_after, args=(is_told,), daemon=True).start()
        finally:
            is_told.set()

    sys.unraisablehook = hook


def open_closed_streams() -> None:
    """Replace output streams that were closed when the process started, which Python sets to None."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 — open until the process ends


def end_unread() -> NoReturn:
    """Ends the process without a word after a `BrokenPipeError`: what is still in the buffer of stdout goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(UNREAD)


def _interrupt_after(is_told: threading.Event) -> None:
    is_told.wait()
    time.sleep(_SOON)
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)
