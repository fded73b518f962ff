"""The page about text interfaces has their current texts, and its example runs."""

import re

import pytest

from docs.text_page import PAGE, REGION, content
from tests.ids import without_new_ids

REGIONS = {found[2]: found[3] for found in REGION.finditer(PAGE.read_text())}
# Every transcript makes an environment: one of them stands for all where time is short.
QUICK = ("games", "transcript mystery_path")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in REGIONS]
)
def test_the_page_is_what_its_script_makes(name: str) -> None:
    assert REGIONS[name] == content(name), "run python -m docs.text_page"


def test_the_example_of_a_game_of_ones_own_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    with without_new_ids():
        for block in blocks:
            exec(compile(block, PAGE.name, "exec"), {"__name__": "example"})
    assert capsys.readouterr().out == "You opened door 2.\n"
