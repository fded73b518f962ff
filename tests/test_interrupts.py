"""Interrupts from the keyboard."""

import os
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


def test_what_nobody_reads_any_more_goes_nowhere_and_ends_with_exit_code_1() -> None:
    program = "print('table'); from jaxgym import interrupts; interrupts.end_unread()"
    command, buffered = [sys.executable, "-c", program], os.environ | {"PYTHONUNBUFFERED": ""}
    ended = subprocess.run(command, capture_output=True, text=True, env=buffered, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")
