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


def start(*programs: str) -> None:
    """Have an interrupt end the process at once with `CODE`, until `keep` is called, if it runs one of these programs.

    While modules are imported, the exception that an interrupt raises can be turned into another one or abort the
    process, depending on the module that it meets.

    Args:
        *programs: Names of scripts, or of packages that `python -m` runs; the process is one of them if none is given.
    """
    script = os.path.basename(sys.argv[0] if sys.argv else "")
    if programs and not {script, _module().partition(".")[0]} & set(programs):
        return
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, _end)


def started() -> None:
    """End what `start` began, and call `keep`; does nothing if `start` has not begun anything."""
    if signal.getsignal(signal.SIGINT) is _end:
        keep()


def _module() -> str:
    """Return the module that `python -m` runs; empty if the process runs something else."""
    given = iter(sys.orig_argv[1:])
    for flag in given:
        if flag == "-m":
            return next(given, "")
        if flag in ("-W", "-X"):
            next(given, None)
        elif flag == "-c" or not flag.startswith("-"):
            break
    return ""


def _end(*_: object) -> None:
    os._exit(CODE)


def keep() -> None:
    """Have an interrupt repeated that came while the garbage collector called somebody.

    What such a call raises is only printed, and JAX has itself called at every collection.
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
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
    """End the process without a word after a `BrokenPipeError`: what is still in the buffer of stdout goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(UNREAD)


def _interrupt_after(is_told: threading.Event) -> None:
    is_told.wait()
    time.sleep(_SOON)
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)
