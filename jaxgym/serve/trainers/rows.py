"""Episodes of data rows, for trainers that make one environment object per trajectory."""

import collections
import contextlib
import reprlib
import weakref
from collections.abc import Mapping
from typing import Any

from jaxgym.errors import OptionError
from jaxgym.serve.episodes import Episode, options_of
from jaxgym.serve.sessions import Opening

_dropped = collections.deque[Episode]()


def episode_of(row: Mapping[str, Any], owner: object = None) -> Episode:
    """Return the episode of a data row, without starting it.

    Some trainers drop an environment without closing it when a generation fails. The session of a dropped environment
    is closed at the next call of this function.

    Args:
        row: The columns `env_config`, with the entry `name` and options, and `seed`, the level seed. Without this
            column, the seed is the entry `seed` of `env_config`, or else a random one.
        owner: The environment object, after whose last reference the session is closed; None if it is always closed.

    Raises:
        OptionError: If `env_config` has no name.
    """
    close_dropped()
    entries = row.get("env_config")
    if not isinstance(entries, Mapping) or not entries.get("name"):
        raise OptionError(
            f'env_config: expected a mapping such as {{"name": "frozen_lake"}}, got {reprlib.repr(entries)}. '
            "Name the environment in each row."
        )
    seed = entries.get("seed") if row.get("seed") is None else row["seed"]
    episode = Episode(entries["name"], seed, options_of(entries))
    if owner is not None:
        # A finalizer can run in a thread that holds the lock of the pool, so it must not close the session itself.
        weakref.finalize(owner, _dropped.append, episode).atexit = False
    return episode


def close_dropped() -> None:
    """Close the sessions of environments that no longer exist."""
    with contextlib.suppress(IndexError):
        while True:
            _dropped.popleft().close()


def start_of(opening: Opening) -> dict[str, Any]:
    """Return the info of the start of an episode: id, seed, text version, and the value of an adapted option."""
    adapted = {} if opening.difficulty is None else {"difficulty": opening.difficulty}
    return {"env_id": opening.env_id, "seed": opening.seed, "text_version": opening.text_version, **adapted}
