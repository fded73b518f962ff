"""Text interface of MiniGrid-Memory: it shows what the agent sees, and a player of texts alone always succeeds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym import levels, text
from jaxgym.envs.minigrid.world import EMPTY, Color, Door, GridWorld, Type, thing
from tests.text.minigrid_player import Player

NAME = "minigrid_memory_s17_random"
ENV, PARAMS, INTERFACE = text.make(NAME)


def test_a_player_of_texts_alone_always_succeeds() -> None:
    num_levels = 20
    buffer = levels.make_level_buffer(ENV, PARAMS, levels.held_out_seeds(num_levels))
    states = jax.jit(jax.vmap(ENV.initial_state, (0, None)))(buffer, PARAMS)
    step = jax.jit(jax.vmap(lambda state, action: ENV.step_env(jax.random.key(0), state, action, PARAMS)[1:5]))
    players, is_over = [Player() for _ in range(num_levels)], np.zeros(num_levels, bool)
    success = np.zeros(num_levels, int)
    for _ in range(60):
        seen = INTERFACE.open_all(jax.device_get(states.world), PARAMS)
        actions = np.zeros(num_levels, np.int32)
        for index in np.flatnonzero(~is_over):
            parsed = INTERFACE.parse(players[index].reply(seen[index]))
            assert isinstance(parsed, text.ParsedAction)
            assert parsed.is_exact
            (actions[index],) = parsed.actions
        states, _, terminated, info = step(states, jnp.asarray(actions))
        success += ~is_over & np.asarray(info["success"], bool)
        is_over |= np.asarray(terminated)
    assert success.tolist() == [1] * num_levels


def random_world(chance: np.random.Generator) -> GridWorld:
    """Return a small grid with few different things, whose border is walls."""
    kinds = [EMPTY] * 6 + [thing(Type.WALL, Color.GREY), thing(Type.KEY, Color.RED), thing(Type.BOX, Color.GREY)]
    kinds += [thing(Type.DOOR, Color.BLUE, door) for door in Door]
    cells = np.full((6, 6), thing(Type.WALL, Color.GREY), np.uint16)
    cells[1:-1, 1:-1] = chance.choice(kinds, (4, 4))
    position = chance.integers(1, 5, 2)
    cells[tuple(position)] = EMPTY
    carrying = chance.choice([EMPTY, thing(Type.BALL, Color.RED)])
    return GridWorld(cells, position.astype(np.int32), np.int32(chance.integers(4)), np.uint16(carrying))


def test_equal_symbols_have_equal_texts_and_different_ones_different() -> None:
    chance = np.random.default_rng(0)
    worlds = [random_world(chance) for _ in range(400)]
    worlds += worlds[:100]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *worlds)
    seen = jax.jit(jax.vmap(ENV.visible))(stacked)
    symbols = [
        cells.tobytes() + direction.tobytes()
        for cells, direction in zip(np.asarray(seen.cells), np.asarray(seen.direction), strict=True)
    ]
    texts = INTERFACE.open_all(stacked, PARAMS)
    pairs = set(zip(symbols, texts, strict=True))
    assert len(pairs) == len(set(symbols)) == len(set(texts))
    assert 300 < len(pairs) < len(worlds)


def test_the_text_of_a_view() -> None:
    cells = np.full((6, 5), thing(Type.WALL, Color.GREY), np.uint16)
    cells[1:-1, 1:-1] = EMPTY
    cells[3, 2] = thing(Type.DOOR, Color.GREY, Door.LOCKED, number=7)
    cells[1, 1] = thing(Type.BALL, Color.PURPLE, number=3)
    world = GridWorld(cells, np.asarray([1, 2], np.int32), np.int32(0), np.uint16(thing(Type.KEY, Color.RED, number=2)))
    assert INTERFACE.describe(world, PARAMS).splitlines() == [
        "You face east.",
        "???????",
        "???????",
        "?#####?",
        "?#...#?",
        "?#.L.#?",
        "?#...#?",
        "?#B@.#?",
        "You carry: red key",
        "Visible things: purple ball: 1 left; locked grey door: 2 ahead",
    ]


@pytest.mark.parametrize(("reply", "actions"), [("forward 3, turn left", (2, 2, 2, 0)), ("pick up, open", (3, 5))])
def test_replies(reply: str, actions: tuple[int, ...]) -> None:
    parsed = INTERFACE.parse(f"<action>{reply}</action>")
    assert isinstance(parsed, text.ParsedAction)
    assert parsed.actions == actions


def test_every_action_has_a_reply() -> None:
    for action in range(7):
        parsed: Any = INTERFACE.parse(INTERFACE.reply_of(action))
        assert parsed.actions == (action,)


def test_the_prompt_has_the_reward_and_the_limit() -> None:
    prompt = INTERFACE.system_prompt(PARAMS)
    assert "1 - 0.9 x steps / 1445 when you stand next to the matching object; 0 otherwise" in prompt
    assert f"it is {1 - 0.9 * 20 / 1445:.4f} after 20 steps" in prompt
    assert "The episode also ends after 1445 steps." in prompt
    unlimited = text.make(NAME, max_steps=0)
    assert "Reward: 1 when you stand next to" in unlimited[2].system_prompt(unlimited[1])
