"""The documentation site in a browser: search, color themes and the width of a phone.

Chromium --HTTP--> http.server in a thread --> the pages that `make docs` builds
"""

import contextlib
import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve import chromium

ROOT = Path(__file__).parents[1]
WIDE, PHONE = 1280, 360
THEME = "document.documentElement.dataset.theme"
WHOLE = (
    "document.documentElement.scrollWidth <= document.documentElement.clientWidth",
    "[...document.images].every(image => image.complete && image.naturalWidth > 0)",
    "performance.getEntriesByType('resource').every(entry => entry.name.startsWith(location.origin))",
)
"""Conditions that every page meets: it fits the width, shows its images, and loads nothing from another server."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium on this machine's PATH"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site") / "html"
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "docs", str(built)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return built


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        del format, args


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    handler = functools.partial(Silent, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Tab]:
    with chromium.tab(tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def tab(browser: chromium.Tab) -> chromium.Tab:
    browser.complaints.clear()
    return browser


@pytest.mark.parametrize(("width", "place"), [(WIDE, "container"), (PHONE, "mobile")])
@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("level buffer", "concepts/levels.html"),
        ("SessionPool", "reference/api/serve.html#jaxgym.serve.pool.SessionPool"),
        ("searing spotlights", "environments/searing_spotlights.html"),
    ],
)
def test_search_finds_and_opens_a_page(
    tab: chromium.Tab, address: str, width: int, place: str, words: str, page: str
) -> None:
    tab.open(f"{address}index.html", width)
    tab.click(f".navbar-persistent--{place} .search-button-field")
    tab.until("document.activeElement.name === 'q'")
    tab.type(words)
    tab.press("Enter")
    link = f"document.querySelector('#search-results li a[href=\"{page}\"]')"
    tab.until(link)
    assert not tab.complaints
    tab.get(f"{link}.click()")  # it moves while the texts of the results appear
    tab.until(f"location.href === '{address}{page}'")


def test_the_switch_changes_the_color_theme(tab: chromium.Tab, address: str) -> None:
    tab.open(f"{address}index.html", WIDE)
    colors = []
    for theme in ("light", "dark"):
        tab.click(".theme-switch-button")
        tab.until("document.querySelector('.theme-change-button').checkVisibility()")
        tab.click(f".theme-change-button[data-mode={theme}]")
        tab.until(f"{THEME} === '{theme}'")
        colors.append(tab.get("getComputedStyle(document.body).backgroundColor"))
    assert colors[0] != colors[1]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
def test_every_page_is_complete_and_fits(tab: chromium.Tab, site: Path, address: str, width: int, theme: str) -> None:
    tab.open(f"{address}index.html", width)
    tab.get("localStorage.clear()")  # the theme that a reader has chosen
    tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    paths = [path.relative_to(site) for path in site.rglob("*.html")]
    pages = [path.as_posix() for path in paths if path.parts[0] not in {"_modules", "_static"}]
    wrong = {page: failed for page in pages if (failed := failures(tab, f"{address}{page}", width, theme))}
    assert not wrong


def failures(tab: chromium.Tab, page: str, width: int, theme: str) -> list[str]:
    """Return the conditions that a page does not meet, and the messages in its console."""
    tab.complaints.clear()
    tab.open(page, width)
    return [condition for condition in (*WHOLE, f"{THEME} === '{theme}'") if not tab.get(condition)] + tab.complaints
