"""Handling of Ctrl-C and of closed output pipes in commands."""

import os
import signal
import sys
import threading
import time
from typing import NoReturn

CODE = 130
"""Exit code after Ctrl-C: 128 plus the number of the signal, as in shells."""

UNREAD = 1
"""Exit code after the reader of stdout has closed the pipe."""

_SOON = 0.05  # s, for the garbage collector's callback to return; an interrupt inside of it would be lost again


def start(*programs: str) -> None:
    """Make Ctrl-C end the process at once with `CODE` until `keep` is called, if the process runs one of the programs.

    During imports, a `KeyboardInterrupt` can be turned into another exception or abort the process, depending on the
    module that is imported.

    Args:
        *programs: Names of scripts, or of packages run by `python -m`. Without names, any program matches.
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
    """Undo `start` and call `keep`; do nothing if `start` has had no effect."""
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
    """Repeat an interrupt that arrives in a callback of the garbage collector.

    Python only prints exceptions of such callbacks, and JAX registers one that runs at every collection.
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
    """Exit silently after a `BrokenPipeError`; discard the buffer of stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(UNREAD)


def _interrupt_after(is_told: threading.Event) -> None:
    is_told.wait()
    time.sleep(_SOON)
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)
