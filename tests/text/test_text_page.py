"""The pages have the current texts of the text interfaces, and the example of one runs."""

import re

import pytest

from docs.text_page import DOCS, PAGES, REGION, content
from tests.ids import without_new_ids

REGIONS = {found[2]: found[3] for page in PAGES for found in REGION.finditer(page.read_text())}
EXAMPLE = DOCS / "how_to/own_text_interface.md"
# Every transcript makes an environment: one of them stands for all where time is short.
QUICK = ("games", "transcript textcraft")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in REGIONS]
)
def test_the_pages_are_what_their_script_makes(name: str) -> None:
    assert REGIONS[name] == content(name), "run python -m docs.text_page"


def test_the_example_of_a_game_of_ones_own_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```$", EXAMPLE.read_text(), re.DOTALL | re.MULTILINE)
    with without_new_ids():
        for block in blocks:
            exec(compile(block, EXAMPLE.name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "You opened door 2.\n"
