"""Reference for the tests of all trainers: episodes in a session pool of their own, and malformed replies."""

import functools
from collections.abc import Sequence
from typing import Any

from jaxgym.serve.episodes import shared_pool
from jaxgym.serve.pool import SessionPool

MALFORMED = ("", "   ", "\x00", "no move here", "<action>up", "x" * 5000, '{"a": ', "é☃ <image>", "<action></action>")
"""Replies without a valid action in any game."""


@functools.cache
def _pool() -> SessionPool:
    return SessionPool(capacity=1)


def turns_of(config: dict[str, Any], seed: int, replies: Sequence[str]) -> list[tuple[str, float]]:
    """Return the texts and rewards of an episode; the first text has no reward."""
    pool, options = _pool(), {name: value for name, value in config.items() if name != "name"}
    opening = pool.open(config["name"], seed, {"levels": "fresh", **options})
    results = [pool.step_one(opening.id, reply) for reply in replies]
    pool.close([opening.id])
    return [(opening.text, 0.0), *((result.text, result.reward) for result in results)]


def open_sessions() -> int:
    """Return the number of open sessions of all adapters of this process."""
    return len(shared_pool())
