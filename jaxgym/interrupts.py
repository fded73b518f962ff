"""An interrupt from the keyboard is never lost."""

import signal
import sys
import threading

_SOON = 0.01  # seconds: after the collector's callback, in which it would be lost again


def keep() -> None:
    """Has an interrupt repeated that came while the garbage collector called somebody.

    What such a call raises is only printed, and JAX has itself called at every collection.
    """
    others = sys.unraisablehook

    def hook(unraisable: "sys.UnraisableHookArgs") -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            main = threading.main_thread().ident or 0
            threading.Timer(_SOON, signal.pthread_kill, (main, signal.SIGINT)).start()
        else:
            others(unraisable)

    sys.unraisablehook = hook
