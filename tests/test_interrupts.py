"""Interrupts from the keyboard."""

import subprocess
import sys

PROGRAM = """
import gc, signal, time
from jaxgym import interrupts

signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored by who runs this
interrupts.keep()
is_first = True


def collected(phase, info):
    global is_first
    if is_first:
        is_first = False
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)


gc.callbacks.append(collected)
try:
    gc.collect()
    time.sleep(20)
except KeyboardInterrupt:
    print("interrupted")
"""


def test_an_interrupt_that_meets_the_garbage_collector_still_interrupts() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "interrupted\n"
    assert ended.stderr == ""
