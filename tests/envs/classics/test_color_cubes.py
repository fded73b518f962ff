"""Rules of Color-Cubes on a grid of 4 x 4 cells: the agent starts in the top left corner.

@ 0 . .     cells: 0 the agent, 1 cube 0 (red), 10 cube 1 (green)
. . . .
. . 1 .
. . . .
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.color_cubes.game import ColorCubes, CubeMove, Params, Shown
from jaxgym.envs.color_cubes.scene import UNKNOWN

UP, DOWN, LEFT, RIGHT = CubeMove
OPTIONS = {"size": 4, "num_cubes": 2, "num_phases": 2, "observation": "symbolic"}


def play(actions: list[CubeMove], draws: tuple[float, float] = (0.9, 0.0), **options: Any) -> tuple[Any, ...]:
    """Return the environment, and rewards, states, ends and observations; both targets are cube 0.

    `draws` are the number that decides whether a cube teleports, and the number that chooses the cell.
    """
    env, params = jaxgym.make("ColorCubes-v0", **{**OPTIONS, "teleport_probability": 0.5, **options})
    level = levels.level_from_seed(env, 0, params)
    level = dataclasses.replace(
        level,
        start=jnp.int32(0),
        cells=jnp.asarray([1, 10], jnp.int32),
        targets=jnp.zeros(2, jnp.int32),
        chances=jnp.full_like(level.chances, draws[0]),
        destinations=jnp.full_like(level.destinations, draws[1]),
    )
    first, state = env.reset_to_level(jax.random.key(0), level, params)

    @jax.jit
    def run(state: Any, actions: jax.Array) -> Any:
        def step(state: Any, action: jax.Array) -> Any:
            seen, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
            return state, (reward, state, terminated, seen, info["targets_reached"])

        return jax.lax.scan(step, state, actions)[1]

    rewards, states, ends, seen, reached = jax.device_get(run(state, np.asarray(actions, np.int32)))
    return env, rewards.tolist(), states, ends.tolist(), np.concatenate([np.asarray(first)[None], seen]), reached


def test_a_target_that_is_reached_teleports_and_the_next_phase_shows_everything() -> None:
    # With the number 0, a cube teleports to the first free cell: 0, then 1, which the agent has left.
    _, rewards, states, ends, seen, reached = play([RIGHT, LEFT])
    assert rewards == [1, 1]
    assert states.cells.tolist() == [[0, 10], [1, 10]]
    assert (ends, reached.tolist()) == ([False, True], [1, 2])
    assert seen[0, :3].tolist() == [0, 0, 1]
    assert seen[1, :3].tolist() == [0, 1, 1]
    assert seen[1, 3:].nonzero()[0].tolist() == [0, 10]
    assert not seen[2, 2:].any()  # after the last phase, nothing is shown


def test_nothing_is_shown_while_nothing_changes() -> None:
    _, rewards, _, _, seen, _ = play([DOWN, DOWN, RIGHT])
    assert not any(rewards)
    assert not seen[1:, 2:].any()
    assert seen[:, :2].tolist() == [[0, 0], [1, 0], [2, 0], [2, 1]]


@pytest.mark.parametrize(("hide_colors", "numbers"), [(False, [1, 2]), (True, [UNKNOWN, UNKNOWN])])
def test_another_cube_teleports_and_all_places_are_shown(hide_colors: bool, numbers: list[int]) -> None:
    _, _, states, _, seen, _ = play([DOWN], (0.1, 0.99), hide_colors=hide_colors)
    assert states.cells.tolist() == [[1, 15]]
    assert seen[1, [3 + 1, 3 + 15]].tolist() == numbers
    assert seen[1, 2] == 0


def test_another_cube_is_passed_and_the_edge_stops_the_agent() -> None:
    _, rewards, states, _, _, _ = play([LEFT, DOWN, DOWN, RIGHT, RIGHT, RIGHT, RIGHT])
    assert not any(rewards)
    assert states.position.tolist() == [[0, 0], [1, 0], [2, 0], [2, 1], [2, 2], [2, 3], [2, 3]]


@pytest.mark.slow
def test_a_single_cube_teleports_only_when_it_is_reached() -> None:
    env, params = jaxgym.make("ColorCubes-v0", preset="trivial", teleport_probability=1.0)
    assert isinstance(env, ColorCubes)
    assert isinstance(params, Params)
    state = env.initial_state(levels.level_from_seed(env, 0, params), params)
    made = jax.jit(env.transition)(dataclasses.replace(state, time=jnp.int32(1)), jnp.int32(-1), params)
    assert made.state.cells.tolist() == state.cells.tolist()
    assert made.state.shown == int(Shown.NOTHING)


class Rememberer:
    """Player that keeps the places of the cubes, and finds out which cube has moved when colors are hidden."""

    def __init__(self) -> None:
        """Know nothing."""
        self.places, self.target = dict[str, tuple[int, int]](), ""

    def act(self, said: str) -> str:
        """Return an action after an observation."""
        first, *rest = said.splitlines()
        row, column = (int("".join(filter(str.isdigit, part))) for part in first.split(","))
        if rest[0].startswith("Target: "):
            self.target = rest.pop(0).removeprefix("Target: ")[0].upper()
        if rest[0] != "The cubes are not shown.":
            shown = {(y, x): each for y, line in enumerate(rest) for x, each in enumerate(line) if each != "."}
            if "?" in shown.values():
                (mover,) = (letter for letter, place in self.places.items() if place not in shown)
                (self.places[mover],) = shown.keys() - set(self.places.values())
            else:
                self.places = {letter: place for place, letter in shown.items()}
        y, x = self.places[self.target]
        if y != row:
            return "up" if y < row else "down"
        return "left" if x < column else "right"


@pytest.mark.parametrize("preset", ["extreme", pytest.param("medium", marks=pytest.mark.slow)])
def test_a_player_that_reads_only_the_texts_reaches_all_targets(preset: str) -> None:
    env, params, interface = text.make("color_cubes", preset=preset, observation="symbolic", teleport_probability=0.4)
    step, scene = jax.jit(env.step_env), jax.jit(env.scene)
    for seed in range(4):
        _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, seed, params), params)
        player, is_over, info = Rememberer(), False, {}
        while not is_over:
            action = player.act(interface.describe(jax.device_get(scene(state, params)), params))
            reply = interface.parse(f"<action>{action}</action>")
            assert isinstance(reply, text.ParsedAction)
            _, state, _, is_over, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
        assert info["success"] == 1
        assert state.time < 5 * 9


@pytest.mark.slow
def test_teleports_to_come_are_replaced() -> None:
    env, params = jaxgym.make("ColorCubes-v0", num_draws=4000)
    state = env.initial_state(levels.level_from_seed(env, 0, params), params)
    reseeded = env.reseed(state, jax.random.key(1))
    assert reseeded.level.targets.tolist() == state.level.targets.tolist()
    for name in ("chances", "movers", "destinations"):
        fresh = np.asarray(getattr(reseeded.level, name))
        assert not np.array_equal(fresh, getattr(state.level, name))
        assert abs(fresh.mean() - 0.5) < 0.03  # the deviation of the mean is 0.005
