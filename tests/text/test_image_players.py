"""Players that see only the image of each observation, and the text beside it, solve held-out levels."""

import re
from typing import Any

import pytest

from jaxgym.serve.pool import SessionPool
from tests.text.image_readers import READERS, pixels_of
from tests.text.test_players import PLAYERS, held_out, is_best

WITHOUT_TEXT = ("FrozenLake-v0", "Sudoku-v0", "MysteryPath-v0", "MysteryPath-Grid-v0")  # the frame shows everything
IMAGES = {"observation_mode": "image", "rewards": "environment"}


def played(env_id: str, count: int) -> list[Any]:
    """Play held-out levels to their ends; return the last results."""
    pool, read, last = SessionPool(capacity=count), READERS[env_id], dict[str, Any]()
    openings = pool.open_many(env_id, held_out(count), IMAGES)
    makers = {opening.id: PLAYERS[env_id](opening.system_prompt) for opening in openings}
    seen = {opening.id: (opening.image, opening.text) for opening in openings}
    assert {text for _, text in seen.values()} == {""} or env_id not in WITHOUT_TEXT
    while seen:
        texts = {session: read(pixels_of(image), text) for session, (image, text) in seen.items()}
        results = pool.step(list(seen), [makers[session].reply(text) for session, text in texts.items()])
        for session, result in zip(list(seen), results, strict=True):
            assert result.invalid_reply is None, result.invalid_reply
            seen[session] = result.image, result.text
            if env_id in WITHOUT_TEXT and not (result.terminated or result.truncated):
                assert re.fullmatch(r"You chose: [^\n]*\.", result.text)
            if result.terminated or result.truncated:
                del seen[session]
                last[session] = result
    return list(last.values())


@pytest.mark.parametrize("env_id", ["FrozenLake-v0", "Sudoku-v0", "MortarMayhemB-Grid-v0"])
def test_a_player_that_reads_the_image_solves_two_held_out_levels(env_id: str) -> None:
    assert all(is_best(result) for result in played(env_id, 2))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", READERS)
def test_a_player_that_reads_the_image_solves_five_held_out_levels(env_id: str) -> None:
    results = played(env_id, 5)
    assert len(results) == 5
    assert all(is_best(result) for result in results)
