"""Replies of scripted players: a reply for every action, in the format of the system prompt."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jaxgym import text
from jaxgym.spaces import MultiDiscrete

GAMES = ("mortar_mayhem", "mystery_path_grid", "textcraft", "frozen_lake")


def actions_of(env: Any, params: Any) -> Iterator[Any]:
    space = env.action_space(params)
    if not isinstance(space, MultiDiscrete):
        yield from range(space.n)
    elif np.prod(space.nvec) <= 9**3:
        yield from itertools.product(*map(range, space.nvec))
    else:
        yield from map(tuple, np.random.default_rng(0).integers(space.nvec, size=(40, len(space.nvec))).tolist())


@pytest.mark.parametrize("name", GAMES)
def test_the_reply_of_an_action_parses_to_it(name: str) -> None:
    env, params, interface = text.make(name, levels="fresh")
    for action in actions_of(env, params):
        move = interface.parse(interface.reply_of(action))
        assert isinstance(move, text.ParsedAction)
        assert move.is_exact
        # A look into the bag stands for what TextCraft has no words for, and crafting has no amount.
        does_the_same = name == "textcraft" and (
            move.text == "inventory" or np.ravel(move.actions[0])[:2].tolist() == list(action[:2])
        )
        assert move.actions == (action,) or does_the_same


@pytest.mark.parametrize("dialect", ["swift", "ragen", "textarena"])
def test_every_dialect_of_frozen_lake_has_replies(dialect: str) -> None:
    _, _, interface = text.make("frozen_lake", dialect=dialect)
    moves = [interface.parse(interface.reply_of(action)) for action in range(4)]
    exact = [move.actions for move in moves if isinstance(move, text.ParsedAction) and move.is_exact]
    assert exact == [(0,), (1,), (2,), (3,)]
