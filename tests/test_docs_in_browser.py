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
PAGES = ("index", "quickstart", "environments/mortar_mayhem", "reference/api/environments", "benchmarks")
WIDE, PHONE = 1280, 360

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium.PROGRAM is None, reason="there is no Chromium on this machine's PATH"),
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("site")
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


def test_search_finds_a_page(tab: chromium.Tab, address: str) -> None:
    tab.open(f"{address}index.html", WIDE)
    tab.click(".search-button-field")
    tab.until("document.activeElement.name === 'q'")
    tab.type("level buffer")
    tab.press("Enter")
    tab.until("document.querySelector('#search-results li a[href*=\"concepts/levels.html\"]')")


def test_the_switch_changes_the_color_theme(tab: chromium.Tab, address: str) -> None:
    tab.open(f"{address}index.html", WIDE)
    colors = []
    for theme in ("light", "dark"):
        tab.click(".theme-switch-button")
        tab.until("document.querySelector('.theme-change-button').checkVisibility()")
        tab.click(f".theme-change-button[data-mode={theme}]")
        tab.until(f"document.documentElement.dataset.theme === '{theme}'")
        colors.append(tab.get("getComputedStyle(document.body).backgroundColor"))
    assert colors[0] != colors[1]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_fits_the_width_of_a_phone(tab: chromium.Tab, address: str, page: str) -> None:
    tab.open(f"{address}{page}.html", PHONE)
    assert tab.get("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.get("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert not tab.complaints
