"""The page in a browser: a person plays Frozen Lake to the goal, by keyboard, on a narrow screen, and watches.

Chromium --HTTP--> uvicorn in a thread --> the pool
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from jaxgym.serve.openenv.server import OpenEnvApp
from jaxgym.serve.openenv.sessions import SPARE
from jaxgym.serve.web import http
from jaxgym.serve.web.serving import OpenEnv
from tests.serve import chromium
from tests.serve.running import running

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium on this machine's PATH"),
]

SEED, PATH = 7, ("ArrowRight", "ArrowRight", "ArrowDown")
"""A level of Frozen Lake, and its way to the goal."""

WIDE, NARROW = 1280, 360
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
SETTINGS: dict[str, Any] = {"env": "frozen_lake", "port": 0, "max_sessions": 8}


@pytest.fixture(scope="module")
def hosted() -> http.Hosted:
    return http.host(OpenEnv(**SETTINGS), {"rewards": "environment"}, spare=SPARE)


@contextlib.contextmanager
def served(hosted: http.Hosted, **settings: Any) -> Iterator[str]:
    serving = OpenEnv(**SETTINGS, **settings)
    app = OpenEnvApp(serving, hosted)
    with running(app, serving) as (port, _):
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module")
def address(hosted: http.Hosted) -> Iterator[str]:
    with served(hosted) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Tab]:
    with chromium.tab(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def tab(browser: chromium.Tab) -> Iterator[chromium.Tab]:
    browser.complaints.clear()
    yield browser
    assert not browser.complaints


def started(tab: chromium.Tab, address: str, width: int) -> None:
    """Start a session on the level: type the seed and press Enter."""
    tab.open(address, width)
    tab.until("!document.querySelector('#app').hidden")
    tab.get("document.querySelector('#seed').focus()")
    tab.type(str(SEED))
    tab.press("Enter")
    tab.until("!document.querySelector('#view').hidden && document.querySelector('#frame').naturalWidth === 84")


def turn(tab: chromium.Tab, number: int) -> None:
    tab.until(f"document.querySelector('#turn').textContent === '{number}'")


def focus(tab: chromium.Tab) -> str:
    return tab.get("document.activeElement.id || document.activeElement.getAttribute('aria-label') || ''")


def test_a_person_plays_to_the_goal_and_sees_the_reward(tab: chromium.Tab, address: str) -> None:
    started(tab, address, WIDE)
    assert focus(tab) == "board"
    for number, key in enumerate(PATH, start=1):
        tab.press(key)
        turn(tab, number)
    tab.until("document.querySelector('#end').textContent === 'Solved. Reward 1 in 3 turns.'")
    assert tab.get("document.querySelector('#reward').textContent") == "1"
    assert tab.get("document.querySelector('#log').lastChild.querySelector('b').textContent") == "+1"
    assert tab.get("document.querySelector('#composer').hidden")
    tab.until("document.querySelector('#frame').alt === 'Frame after turn 3'")
    assert focus(tab) == "again"
    tab.press("Enter")
    turn(tab, 0)
    assert focus(tab) == "board"
    tab.get("document.querySelector('#leave').click()")
    tab.until("document.querySelector('#view').hidden && !document.querySelector('#none').hidden")


def test_all_is_reached_by_keyboard_and_texts_are_typed(tab: chromium.Tab, address: str) -> None:
    tab.open(address, WIDE)
    tab.until("!document.querySelector('#app').hidden")
    tab.press("Tab", "Tab")
    assert focus(tab) == "seed"
    tab.type(str(SEED))
    tab.press("Tab", "Enter")
    tab.until("!document.querySelector('#view').hidden")
    reached = []
    while "reply" not in reached:
        reached.append(focus(tab))
        tab.press("Tab")
    moves = ["left", "down", "right", "up"]
    assert [name for name in reached if name] == ["board", *moves, "log", "reply"]
    tab.get("document.querySelector('#reply').focus()")
    tab.press("ArrowRight")
    tab.type("I go <b>right</b>: <action>right</action>")
    tab.press("Enter")
    turn(tab, 1)
    assert tab.get("document.querySelector('#log').lastChild.querySelector('.said span').textContent") == (
        "I go <b>right</b>: <action>right</action>"
    )
    assert tab.get("document.querySelector('#reply').value") == ""
    tab.type("<img src=x onerror=alert(1)>")
    tab.press("Enter")
    turn(tab, 2)
    assert tab.get("document.querySelectorAll('#log img').length") == 0
    assert tab.get("document.querySelector('#log').lastChild.querySelector('b').textContent") == "no move"
    tab.get("document.querySelector('#leave').click()")
    tab.until("document.querySelector('#view').hidden")


def test_a_narrow_screen_shows_all_and_has_buttons_to_press(tab: chromium.Tab, address: str) -> None:
    started(tab, address, NARROW)
    for number, key in enumerate(PATH, start=1):
        tab.click(f"#pad .{key.removeprefix('Arrow').lower()}")
        turn(tab, number)
    tab.until("document.querySelector('#end').textContent.startsWith('Solved.')")
    assert tab.get(FITS)
    tab.click(".back")
    tab.until("document.querySelector('#view').hidden && document.querySelector('#list .row')")
    assert tab.get(FITS)
    tab.click("#list .row")
    tab.until("!document.querySelector('#view').hidden && !document.querySelector('#after').hidden")
    tab.click("#leave")
    tab.until("document.querySelector('#view').hidden && !document.querySelector('#none').hidden")


def test_a_session_of_a_client_is_watched(tab: chromium.Tab, address: str) -> None:
    def call(method: str, **params: Any) -> Any:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(f"{address}mcp", json=asked, trust_env=False).json()["result"]

    session_id = call("openenv/session/create")["session_id"]
    tab.open(address, WIDE)
    tab.until("document.querySelector('#list .row')")
    tab.click("#list .row")
    tab.until("document.querySelector('#state').textContent === 'waiting'")
    call("tools/call", name="begin", arguments={"seed": SEED}, session_id=session_id)
    tab.until("document.querySelector('#level').textContent === '7' && document.querySelector('#frame').naturalWidth")
    for number, message in enumerate(("<action>up</action>", "Where am I?"), start=1):
        call("tools/call", name="reply", arguments={"message": message}, session_id=session_id)
        turn(tab, number)
        tab.until(f"document.querySelector('#log').lastChild.textContent.includes('{message}')")
    assert tab.get("document.querySelector('#composer').hidden && document.querySelector('#pad').hidden")
    assert tab.get("document.querySelector('#leave').hidden")
    call("openenv/session/close", session_id=session_id)
    tab.until("document.querySelector('#empty-text').textContent.startsWith('That session is closed.')")


def test_a_token_is_typed_once(tab: chromium.Tab, hosted: http.Hosted, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("secret")
    with served(hosted, token_file=path) as address:
        tab.open(address, WIDE)
        assert focus(tab) == "token"
        tab.type("secret")
        tab.press("Enter")
        tab.until("!document.querySelector('#app').hidden")
        tab.ask("Page.reload")
        tab.until("document.readyState === 'complete' && !document.querySelector('#app').hidden")
        assert tab.get("document.querySelector('#gate').hidden")
        tab.ask("Page.navigate", url="about:blank")  # its calls would find no server
