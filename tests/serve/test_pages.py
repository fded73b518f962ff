"""Code on the pages about servers runs against a server of this process."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxgym.serve.openenv.server import OpenEnvApp, make_app
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.web import http
from jaxgym.serve.web.serving import OpenEnv
from tests.serve.running import running

DOCS = Path(__file__).parents[2] / "docs"
URL = "http://localhost:8001"


def block_of(page: str, words: str) -> str:
    """Return the code block of a page that contains some words."""
    blocks = re.findall(r"^```py\n(.*?)^```$", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if words in block]
    return block


@contextlib.contextmanager
def served(game: str) -> Iterator[str]:
    serving = OpenEnv(env=game, port=0, max_sessions=4)
    app = OpenEnvApp(serving, http.host(serving, {}, spare=SPARE))
    with running(app, serving) as (port, _):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.slow
@pytest.mark.parametrize(("page", "game"), [("tutorials/serve.md", "frozen_lake"), ("how_to/openenv.md", "sudoku")])
def test_the_client_on_a_page_plays_a_turn(page: str, game: str) -> None:
    code, names = block_of(page, "OpenEnvWrapper("), dict[str, Any]()
    assert code.count(URL) == 1
    with served(game) as address:
        exec(compile(code.replace(URL, address), page, "exec"), names)
    assert names["observation"]["info"]["turn"] == 1


def test_the_app_on_a_page_serves_its_game() -> None:
    names = dict[str, Any]()
    exec(compile(block_of("how_to/openenv.md", "SERVING = settings("), "openenv.md", "exec"), names)
    assert callable(make_app(names["SERVING"]))
