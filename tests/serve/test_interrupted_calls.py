"""Ctrl-C in a waiting thread raises there, and the other threads continue."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from jaxgym.serve.pool.calls import Calls, Interrupts, PoolCall

SECONDS = 20


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Allow interrupts, which the process of the tests may ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_main() -> None:
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


class Maker:
    """Object that makes calls, each batch when the test allows it."""

    def __init__(self) -> None:
        self.may, self.is_making = threading.Semaphore(0), threading.Event()
        self.made: list[str] = []

    def __call__(self, calls: Sequence[PoolCall]) -> None:
        self.is_making.set()
        assert self.may.acquire(timeout=SECONDS)
        for call in calls:
            self.made.append(call.session_id)
            call.result = f"made {call.session_id}"


def in_thread(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    received: list[Any] = []
    thread = threading.Thread(target=lambda: received.append(function()), daemon=True)
    thread.start()
    return thread, received


def test_the_threads_behind_one_that_was_interrupted_are_released() -> None:
    make = Maker()
    calls = Calls(make)
    leader, first = in_thread(lambda: calls.wait("leader", "x", None))
    assert make.is_making.wait(SECONDS)

    def later() -> Any:
        while len(calls._queue) < 1:  # the main thread is the first that waits
            time.sleep(0.01)
        return calls.wait("later", "x", None)

    waiting, last = in_thread(later)

    def interrupt() -> None:
        while len(calls._queue) < 2:
            time.sleep(0.01)
        # The main thread is asked to lead as the interrupt comes.
        interrupt_main()
        make.may.release(2)

    interrupting, _ = in_thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        calls.wait("main", "x", None)
    for thread in (leader, waiting, interrupting):
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert (first, last) == (["made leader"], ["made later"])
    make.may.release()
    assert calls.wait("main", "x", None) == "made main"


def test_a_step_that_is_being_made_is_made_to_its_end() -> None:
    make = Maker()
    calls = Calls(make)

    def interrupt() -> None:
        assert make.is_making.wait(SECONDS)
        interrupt_main()
        time.sleep(0.2)
        make.may.release()

    interrupting, _ = in_thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        calls.wait("main", "x", None)
    assert make.made == ["main"]
    interrupting.join(SECONDS)
    with calls:  # it is free
        pass


def test_a_handler_of_the_process_that_returns_ends_no_call() -> None:
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    make = Maker()
    calls = Calls(make)
    leader, _ = in_thread(lambda: calls.wait("leader", "x", None))
    assert make.is_making.wait(SECONDS)

    def interrupt() -> None:
        while not calls._queue:
            time.sleep(0.01)
        interrupt_main()
        time.sleep(0.2)
        make.may.release(2)

    in_thread(interrupt)
    assert calls.wait("main", "x", None) == "made main"
    assert came == [signal.SIGINT]
    leader.join(SECONDS)


def test_the_handler_of_the_process_is_in_place_again() -> None:
    calls = Calls(lambda made: [setattr(call, "result", 1) for call in made] and None)
    assert calls.wait("main", "x", None) == 1
    with calls:
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts():
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


PROGRAM = """
import faulthandler, random, signal, threading, time
from jaxgym.serve.pool import SessionPool
from tests.serve import corridor

faulthandler.dump_traceback_later(100, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
corridor.register()
pool = SessionPool(8)
ids = [pool.open("corridor", seed, {"max_turns": 0}).id for seed in range(5)]
told, main, is_over = [0] * 5, threading.main_thread().ident, False


def play(number):
    for _ in range(400):
        pool.step_one(ids[number], "<stay>")
        told[number] += 1


def disturb():
    for _ in range(150):
        time.sleep(random.uniform(0.0005, 0.004))
        signal.pthread_kill(main, signal.SIGINT)


threads = [threading.Thread(target=play, args=(number,)) for number in range(4)]
threads.append(threading.Thread(target=disturb))
for thread in threads:
    thread.start()
came = 0
while any(thread.is_alive() for thread in threads):
    try:
        while any(thread.is_alive() for thread in threads):
            pool.step_one(ids[4], "<stay>")
            pool.step([ids[4]], ["<stay>"])
            pool.close_idle()
    except KeyboardInterrupt:
        came += 1
print(told[:4], came > 0, [pool.look(name).number for name in ids[:4]], len(pool._calls._queue))
"""


@pytest.mark.slow
def test_threads_play_on_whenever_the_main_thread_is_interrupted() -> None:
    command = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=150, check=False)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == f"{[400] * 4} True {[400] * 4} 0\n"


def test_event_loops_of_other_threads_can_begin_their_calls_at_the_same_time() -> None:
    calls = Calls(lambda made: [setattr(call, "result", 1) for call in made] and None)

    class Loop(asyncio.SelectorEventLoop):
        """Loop whose thread makes its calls just when another loop asks whether it is closed."""

        def is_closed(self) -> bool:
            calls._flushing.discard(self)
            return super().is_closed()

    others = [Loop(), Loop()]
    calls._flushing |= {*others}

    async def turn() -> Any:
        return await calls.future("main", "x", None)

    assert asyncio.run(turn()) == 1
    for loop in others:
        loop.close()
