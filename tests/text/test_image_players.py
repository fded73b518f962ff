"""Players that see only the image of each observation, and the text beside it, solve held-out levels."""

import re
from typing import Any

import pytest

from jaxgym.serve.pool import SessionPool
from tests.text import babyai_player, minigrid_player
from tests.text.image_readers import READERS, minigrid, pixels_of
from tests.text.test_players import ENDLESS, PLAYERS, held_out, is_best

WITHOUT_TEXT = ("FrozenLake-v0", "Sudoku-v0", "MysteryPath-v0", "MysteryPath-Grid-v0")  # the frame shows everything
IMAGES = {"observation_mode": "image", "rewards": "environment"}
FAR = 1.0
"""Return at which an endless game stops: 10 tiles, or all sequences up to the length 4."""


def played(env_id: str, count: int) -> list[Any]:
    """Play held-out levels to their ends, or endless games to a return; return the last results."""
    pool, read, last = SessionPool(capacity=count), READERS[env_id], dict[str, Any]()
    openings = pool.open_many(env_id, held_out(count), IMAGES)
    player, goal = (ENDLESS[env_id][0], FAR) if env_id in ENDLESS else (PLAYERS.get(env_id), float("inf"))
    makers: dict[str, Any] = {
        opening.id: ViewPlayer(env_id) if player is None else player(opening.system_prompt) for opening in openings
    }
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
            if result.terminated or result.truncated or result.total_reward > goal - 0.05:
                del seen[session]
                last[session] = result
    return list(last.values())


class ViewPlayer:
    """Player of MiniGrid. In MiniGrid-Memory, the direction is not beside the image, so it keeps account of it."""

    def __init__(self, env_id: str) -> None:
        self.has_direction = env_id.startswith("BabyAI")
        self.player: Any = babyai_player.Player() if self.has_direction else minigrid_player.Player()
        self.heading = 0

    def reply(self, text: str) -> str:
        """Return the reply to the map that a reader has drawn."""
        if self.has_direction:
            return self.player.reply(text)
        drawn = text.partition("You chose: ")[2].partition("\n")[2] or text
        reply = self.player.reply(f"You face {('east', 'south', 'west', 'north')[self.heading]}.\n{drawn}")
        self.heading = (self.heading + {"turn right": 1, "turn left": 3}.get(reply[8:-9], 0)) % 4
        return reply


def is_won(env_id: str, result: Any) -> bool:
    """Return whether an episode has its best end; a game of MiniGrid pays less for more steps."""
    if env_id in ENDLESS:
        return abs(result.total_reward - FAR) < 1e-3
    return result.is_solved if READERS[env_id] is minigrid else is_best(result)


@pytest.mark.parametrize("env_id", ["FrozenLake-v0", "Sudoku-v0", "MortarMayhemB-Grid-v0"])
def test_a_player_that_reads_the_image_solves_two_held_out_levels(env_id: str) -> None:
    assert all(is_won(env_id, result) for result in played(env_id, 2))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", READERS)
def test_a_player_that_reads_the_image_solves_five_held_out_levels(env_id: str) -> None:
    results = played(env_id, 5)
    assert len(results) == 5
    assert all(is_won(env_id, result) for result in results)
