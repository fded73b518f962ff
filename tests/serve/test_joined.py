"""Writes of one round of an event loop: head, body  ─>  one write of head and body."""

import asyncio
from collections.abc import Callable

from jaxgym.serve.web.joined import JoinedWrites


class Wire:
    """A transport that remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[bytes | str] = []
        self.is_shut = False

    def write(self, content: bytes) -> None:
        self.told.append(content)

    def write_eof(self) -> None:
        self.told.append("eof")

    def close(self) -> None:
        self.told.append("close")
        self.is_shut = True

    def is_closing(self) -> bool:
        return self.is_shut

    def get_write_buffer_size(self) -> int:
        return 0


def after(*calls: Callable[[JoinedWrites], None]) -> list[bytes | str]:
    """Returns what the wire is told of calls, each made in a round of its own."""
    wire = Wire()

    async def rounds() -> None:
        joined = JoinedWrites(wire, asyncio.get_running_loop())
        for call in calls:
            call(joined)
            await asyncio.sleep(0)

    asyncio.run(rounds())
    return wire.told


def head_and_body(joined: JoinedWrites) -> None:
    joined.write(b"head ")
    joined.write(b"body")


def test_what_is_written_in_one_round_is_one_write() -> None:
    assert after(head_and_body, lambda joined: joined.writelines([b"a", b"b"])) == [b"head body", b"ab"]


def test_what_waits_is_written_before_the_end() -> None:
    def closed(joined: JoinedWrites) -> None:
        head_and_body(joined)
        joined.close()

    def ended(joined: JoinedWrites) -> None:
        head_and_body(joined)
        joined.write_eof()

    assert after(closed) == [b"head body", "close"]
    assert after(ended) == [b"head body", "eof"]


def test_nothing_is_written_to_a_transport_that_closes() -> None:
    assert after(lambda joined: joined.close(), head_and_body) == ["close"]


def test_all_else_is_the_transports_own() -> None:
    seen: list[bool] = []
    after(lambda joined: seen.append(joined.is_closing()))
    assert seen == [False]
