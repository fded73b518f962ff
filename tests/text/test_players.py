"""Players that act on the texts alone solve held-out levels of every game, played through the pool."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from jaxgym.serve.pool import SessionPool, TurnResult
from tests.text import players, spotlights

HELD_OUT = 2**31
SESSIONS = 64  # played at once

PLAYERS: dict[str, Callable[[str], Any]] = {
    "MortarMayhem-v0": players.MortarMayhem,
    "MortarMayhem-Grid-v0": players.MortarMayhem,
    "MortarMayhemB-v0": players.MortarMayhem,
    "MortarMayhemB-Grid-v0": players.MortarMayhem,
    "MysteryPath-v0": players.MysteryPath,
    "MysteryPath-Grid-v0": players.MysteryPath,
    "SearingSpotlights-v0": spotlights.SearingSpotlights,
    "FrozenLake-v0": players.FrozenLake,
    "Sudoku-v0": players.Sudoku,
    "TextCraft-v0": players.TextCraft,
}
ENDLESS = {  # the player and the return at which it stops
    "Endless-MortarMayhem-v0": (players.MortarMayhem, 5.5),  # all sequences up to the length 10
    "Endless-MysteryPath-v0": (players.EndlessMysteryPath, 3.0),  # 30 tiles
    "Endless-SearingSpotlights-v0": (spotlights.SearingSpotlights, 1.25),  # 5 coins
}


def played(env_id: str, player: Callable[[str], Any], seeds: Sequence[int], goal: float) -> Iterator[TurnResult]:
    """Play one episode for each seed up to its end or to a return; yield the last results."""
    pool = SessionPool(capacity=min(SESSIONS, len(seeds)))
    for start in range(0, len(seeds), SESSIONS):
        openings = pool.open_many(env_id, seeds[start : start + SESSIONS], {"rewards": "environment"})
        texts = {opening.id: opening.text for opening in openings}
        makers = {opening.id: player(opening.system_prompt) for opening in openings}
        while texts:
            results = pool.step(list(texts), [makers[session].reply(text) for session, text in texts.items()])
            for session, result in zip(list(texts), results, strict=True):
                assert result.invalid_reply is None, result.invalid_reply
                texts[session] = result.text
                if result.terminated or result.truncated or result.total_reward > goal - 0.05:
                    del texts[session]
                    yield result
        pool.close([opening.id for opening in openings])


def held_out(count: int) -> range:
    return range(HELD_OUT, HELD_OUT + count)


def is_best(result: TurnResult) -> bool:
    """Return whether an episode is solved with all of its reward: success alone does not say that in Mortar Mayhem."""
    return result.is_solved and result.total_reward > 0.999


@pytest.mark.parametrize("env_id", ["FrozenLake-v0", "Sudoku-v0", "TextCraft-v0", "MortarMayhemB-Grid-v0"])
def test_players_solve_three_held_out_levels(env_id):
    assert all(is_best(result) for result in played(env_id, PLAYERS[env_id], held_out(3), float("inf")))


@pytest.mark.slow
@pytest.mark.parametrize("env_id", PLAYERS)
def test_players_solve_a_hundred_held_out_levels(env_id):
    results = list(played(env_id, PLAYERS[env_id], held_out(100), float("inf")))
    assert len(results) == 100
    assert all(is_best(result) for result in results)


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ENDLESS)
def test_players_reach_the_goal_of_endless_games(env_id):
    player, goal = ENDLESS[env_id]
    returns = [result.total_reward for result in played(env_id, player, held_out(100), goal)]
    assert returns == pytest.approx([goal] * 100)
