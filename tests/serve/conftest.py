"""Unregister the games of a file of tests when it ends, since other files read the table of all games."""

from collections.abc import Iterator

import pytest

from tests.ids import without_new_ids


@pytest.fixture(scope="module", autouse=True)
def tables() -> Iterator[None]:
    """Unregister what the file has registered."""
    with without_new_ids():
        yield
