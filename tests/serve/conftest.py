"""Games that a file of tests registers are gone when it ends: other files look at the tables of all games."""

from collections.abc import Iterator
from typing import Any

import gymnasium
import gymnax.registration
import pytest

from jaxgym import specs
from jaxgym.text import catalogue

DICTIONARIES: tuple[dict[Any, Any], ...] = (
    specs._specs,
    catalogue._specs,
    gymnax.registration._registry,
    gymnasium.envs.registration.registry,
)


@pytest.fixture(scope="module", autouse=True)
def tables() -> Iterator[None]:
    """Puts the tables back."""
    before = [dict(table) for table in DICTIONARIES]
    ids = list(gymnax.registration.registered_envs)
    yield
    for table, known in zip(DICTIONARIES, before, strict=True):
        for name in table.keys() - known.keys():
            del table[name]
    gymnax.registration.registered_envs[:] = ids
