"""An interrupt from the keyboard is never lost."""

import signal
import sys
import threading
import time

CODE = 130
"""How a process ends that a person has stopped: as shells have it, 128 and the number of the signal."""

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


def _interrupt_after(is_told: threading.Event) -> None:
    is_told.wait()
    time.sleep(_SOON)
    main = threading.main_thread().ident
    if main is not None:
        signal.pthread_kill(main, signal.SIGINT)
