"""Rules of Frozen Lake.

S . # .    start (0, 0), holes (0, 2) and (2, 1), goal (3, 3)
. . . .
. # . .
. . . G
"""

import dataclasses
from collections import Counter, deque
from functools import partial
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels
from jaxgym.envs.frozen_lake import game as frozen_lake
from jaxgym.envs.frozen_lake import maps as frozen_lake_maps
from jaxgym.envs.frozen_lake import scene as seen
from jaxgym.envs.frozen_lake.game import Action, Level
from jaxgym.errors import LevelError, OptionError
from jaxgym.testing import check_env

LEFT, DOWN, RIGHT, UP = Action
LAKE = ("S.#.", "....", ".#..", "...G")
STEPS = {LEFT: (0, -1), DOWN: (1, 0), RIGHT: (0, 1), UP: (-1, 0)}
MANY = 2_000


def level_of(rows: tuple[str, ...] = LAKE, slip_seed: int = 0) -> Level:
    cells = np.asarray([list(row) for row in rows])
    start, goal = (np.argwhere(cells == letter)[0].astype(np.int32) for letter in "SG")
    return Level(cells == "#", start, goal, np.uint32(slip_seed))


@pytest.fixture(scope="module")
def made() -> tuple[Any, Any]:
    return jaxgym.make("FrozenLake-v0")


@partial(jax.jit, static_argnames=("env",))
def walk(env: Any, level: Level, cell: Any, action: Any, params: Any) -> tuple[Any, ...]:
    state = dataclasses.replace(env.initial_state(level, params), player_cell=jnp.asarray(cell, jnp.int32))
    _, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
    return state.player_cell, reward, terminated, info["moved"], info["success"]


def ways(is_hole: np.ndarray, start: Any) -> np.ndarray:
    """Return the cells that a breadth-first search on the host reaches, bool (N, N)."""
    reached = np.zeros_like(is_hole)
    queue = deque([tuple(int(number) for number in start)])
    reached[queue[0]] = True
    while queue:
        row, column = queue.popleft()
        for down, right in STEPS.values():
            cell = (row + down, column + right)
            if all(0 <= number < len(is_hole) for number in cell) and not is_hole[cell] and not reached[cell]:
                reached[cell] = True
                queue.append(cell)
    return reached


# The rules.


def test_actions_are_left_down_right_up() -> None:
    assert [action.name for action in Action] == ["LEFT", "DOWN", "RIGHT", "UP"]
    assert [int(action) for action in Action] == [0, 1, 2, 3]


@pytest.mark.parametrize("action", Action)
def test_a_move_leads_to_the_next_cell(made: tuple[Any, Any], action: Action) -> None:
    env, params = made
    cell, reward, terminated, moved, _ = walk(env, level_of(), (1, 2) if action != UP else (2, 2), action, params)
    start = np.asarray((1, 2) if action != UP else (2, 2))
    assert cell.tolist() == (start + STEPS[action]).tolist()
    assert (float(reward), bool(terminated), int(moved)) == (0.0, False, 1)


@pytest.mark.parametrize(("cell", "action"), [((0, 0), LEFT), ((0, 0), UP), ((3, 0), DOWN), ((1, 3), RIGHT)])
def test_against_the_border_the_player_stays(made: tuple[Any, Any], cell: tuple[int, int], action: Action) -> None:
    env, params = made
    after, reward, terminated, moved, _ = walk(env, level_of(), cell, action, params)
    assert after.tolist() == list(cell)
    assert (float(reward), bool(terminated), int(moved)) == (0.0, False, 0)


@pytest.mark.parametrize("action", [-1, 4, 2**31 - 1, -(2**31)])
def test_an_action_outside_of_the_space_does_nothing(made: tuple[Any, Any], action: int) -> None:
    env, params = made
    for is_slippery in (False, True):
        params = dataclasses.replace(params, is_slippery=np.bool_(is_slippery))
        cell, _, terminated, moved, _ = walk(env, level_of(), (1, 1), jnp.int32(action), params)
        assert (cell.tolist(), bool(terminated), int(moved)) == ([1, 1], False, 0)


def test_a_hole_ends_the_episode_with_nothing(made: tuple[Any, Any]) -> None:
    env, params = made
    cell, reward, terminated, _, success = walk(env, level_of(), (1, 2), UP, params)
    assert (cell.tolist(), float(reward), bool(terminated), int(success)) == ([0, 2], 0.0, True, 0)


def test_the_goal_ends_the_episode_with_one(made: tuple[Any, Any]) -> None:
    env, params = made
    cell, reward, terminated, _, success = walk(env, level_of(), (3, 2), RIGHT, params)
    assert (cell.tolist(), float(reward), bool(terminated), int(success)) == ([3, 3], 1.0, True, 1)


@pytest.mark.parametrize("cell", [(0, 2), (3, 3)])
def test_what_has_ended_stays_as_it_is_and_is_not_rewarded_again(made: tuple[Any, Any], cell: tuple[int, int]) -> None:
    env, params = made
    for action in Action:
        after, reward, terminated, *_ = walk(env, level_of(), cell, action, params)
        assert (after.tolist(), float(reward), bool(terminated)) == (list(cell), 0.0, True)


# Gymnasium's table.


@pytest.mark.parametrize("map_name", ["4x4", "8x8"])
def test_every_state_and_action_has_the_probabilities_of_gymnasium(map_name: str) -> None:
    env, params = jaxgym.make("FrozenLake-v0", map_name=map_name)
    level = levels.level_from_seed(env, 0, params)
    size = env.size

    @jax.jit
    def table(level: Level) -> Any:
        state = env.initial_state(level, params)

        def made(number: jax.Array, action: jax.Array, slip: jax.Array) -> Any:
            cell = jnp.stack([number // size, number % size])
            stepped = env.slide(dataclasses.replace(state, player_cell=cell), action, slip)
            after = stepped.state.player_cell
            return after[0] * size + after[1], stepped.reward, stepped.terminated

        each_slip = jax.vmap(made, (None, None, 0))
        each_action = jax.vmap(each_slip, (None, 0, None))
        numbers = (jnp.arange(count, dtype=jnp.int32) for count in (size * size, 4))
        return jax.vmap(each_action, (0, None, None))(*numbers, jnp.arange(-1, 2, dtype=jnp.int32))

    following, reward, terminated = (np.asarray(part) for part in table(level))
    for is_slippery in (False, True):
        expected = gymnasium.make("FrozenLake-v1", map_name=map_name, is_slippery=is_slippery).unwrapped.P  # pyright: ignore[reportAttributeAccessIssue]
        for state, action in np.ndindex(size * size, 4):
            theirs, ours = Counter(), Counter()
            for chance, *outcome in expected[state][action]:
                theirs[tuple(outcome)] += chance
            for slip, chance in enumerate([1 / 3] * 3 if is_slippery else [0, 1, 0]):
                outcome = following[state, action, slip], reward[state, action, slip], terminated[state, action, slip]
                ours[tuple(value.item() for value in outcome)] += chance
            assert {**+ours} == pytest.approx({**theirs})


def test_a_slip_goes_each_way_one_time_in_three_and_follows_from_seed_and_step() -> None:
    seeds, times = jnp.arange(64, dtype=jnp.uint32), jnp.arange(1, 101, dtype=jnp.int32)
    slips = np.asarray(jax.vmap(jax.vmap(frozen_lake.slip_at, (None, 0)), (0, None))(seeds, times))
    assert set(np.unique(slips)) == {-1, 0, 1}
    # Four standard deviations of 6400 draws.
    assert all(abs((slips == slip).mean() - 1 / 3) < 0.024 for slip in (-1, 0, 1))
    assert len({tuple(row) for row in slips}) == len(seeds)
    following = Counter(zip(slips[:, :-1].ravel().tolist(), slips[:, 1:].ravel().tolist(), strict=True))
    assert all(abs(count / 6336 - 1 / 9) < 0.016 for count in following.values())


def test_a_step_slips_only_on_slippery_ice_and_the_same_way_each_time(made: tuple[Any, Any]) -> None:
    env, params = made
    slippery = dataclasses.replace(params, is_slippery=np.bool_(True))
    lake = ("....", "....", "....", "S..G")
    buffer = jax.tree.map(lambda *leaves: np.stack(leaves), *(level_of(lake, seed) for seed in range(64)))
    each = jax.vmap(partial(walk, env), (0, None, None, None))
    slid = [np.asarray(each(buffer, (1, 1), RIGHT, slippery)[0]).tolist() for _ in range(2)]
    assert slid[0] == slid[1]
    assert {tuple(cell) for cell in slid[0]} == {(1, 2), (0, 1), (2, 1)}
    straight = np.asarray(each(buffer, (1, 1), RIGHT, params)[0])
    assert (straight == (1, 2)).all()


# Levels.


@pytest.fixture(scope="module", params=[(4, 0.8), (7, 0.5), (4, 0.0)], ids=str)
def buffer(request: pytest.FixtureRequest) -> tuple[Any, Any, Any]:
    """Return levels of a size and a share of ice; in the last ones, paths are rarest."""
    size, p = request.param
    env, params = jaxgym.make("FrozenLake-v0", size=size, p=p)
    sampled = levels.make_level_buffer(env, params, levels.train_seeds(MANY))
    return env, params, jax.tree.map(np.asarray, sampled)


def test_every_level_has_a_way_between_two_different_ends_on_ice(buffer: tuple[Any, Any, Any]) -> None:
    env, _, sampled = buffer
    assert (sampled.start_cell != sampled.goal_cell).any(axis=1).all()
    for cells in (sampled.start_cell, sampled.goal_cell):
        assert ((cells >= 0) & (cells < env.size)).all()
        assert not sampled.is_hole[np.arange(MANY), *cells.T].any()
    for level in range(0, MANY, 10):
        assert ways(sampled.is_hole[level], sampled.start_cell[level])[tuple(sampled.goal_cell[level])]


def test_levels_of_the_options_fit_and_others_do_not(buffer: tuple[Any, Any, Any]) -> None:
    env, params, sampled = buffer
    assert all(is_valid.all() for is_valid in frozen_lake_maps.valid_levels(env, sampled, params).values())
    last = env.size - 1
    walled = np.ones((env.size, env.size), bool)
    walled[0, 0] = walled[last, last] = False
    zero, corner = np.zeros(2, np.int32), np.full(2, last, np.int32)
    for field, level in {
        "is_hole": Level(walled, zero, corner, np.uint32(0)),
        "start_cell": Level(walled, zero + 1, corner, np.uint32(0)),
        "goal_cell": Level(~walled & False, zero, zero, np.uint32(0)),
    }.items():
        with pytest.raises(LevelError, match=f"got {field}="):
            jaxgym.make("FrozenLake-v0", size=env.size, levels=jax.tree.map(lambda leaf: np.asarray(leaf)[None], level))


@pytest.fixture(scope="module")
def proposed() -> tuple[np.ndarray, ...]:
    """Return holes, starts and goals of 24000 proposals at 4 x 4 with p = 0.6, and the verdict on a path of each."""

    @jax.jit
    def propose(keys: jax.Array) -> Any:
        maps = jax.vmap(lambda key: frozen_lake_maps.propose(key, jnp.float32(0.6), 4))(keys)
        return *maps, jax.vmap(frozen_lake_maps.is_solvable)(*maps)

    return jax.device_get(propose(jax.random.split(jax.random.key(5), 24_000)))


def test_whether_there_is_a_way_is_what_a_search_on_the_host_says(proposed: tuple[np.ndarray, ...]) -> None:
    for is_hole, start, goal, is_found in zip(*(part[:400] for part in proposed), strict=True):
        assert is_found == ways(is_hole, start)[tuple(goal)]
    assert 0.2 < proposed[3][:400].mean() < 0.9


def test_proposals_have_ice_of_probability_p_and_ends_anywhere(proposed: tuple[np.ndarray, ...]) -> None:
    holes, starts, goals, _ = proposed
    # Of sixteen cells two are ends; four standard deviations of 336000 draws.
    assert abs(holes.sum() / (14 * len(holes)) - 0.4) < 0.0034
    pairs = Counter(map(tuple, np.concatenate([starts, goals], axis=1).tolist()))
    assert len(pairs) == 16 * 15
    assert max(abs(count - 100) for count in pairs.values()) < 50


def test_where_no_proposal_has_a_way_one_with_a_corner_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frozen_lake_maps, "MOST_PROPOSALS", 1)
    keys = jax.random.split(jax.random.key(7), 200)
    holes, starts, goals = jax.vmap(lambda key: frozen_lake_maps.sample(key, jnp.float32(0.0), 5))(keys)
    for is_hole, start, goal in zip(*map(np.asarray, (holes, starts, goals)), strict=True):
        assert ways(is_hole, start)[tuple(goal)]
        assert (~is_hole).sum() == np.abs(start - goal).sum() + 1


def test_the_named_maps_are_those_of_gymnasium_with_ends_in_the_corners() -> None:
    for map_name, size in (("4x4", 4), ("8x8", 8)):
        env, params = jaxgym.make("FrozenLake-v0", map_name=map_name)
        level = levels.level_from_seed(env, 3, params)
        cells = gymnasium.make("FrozenLake-v1", map_name=map_name).unwrapped.desc  # pyright: ignore[reportAttributeAccessIssue]
        assert (np.asarray(level.is_hole) == (cells == b"H")).all()
        assert cells[tuple(level.start_cell)] == b"S"
        assert cells[tuple(level.goal_cell)] == b"G"
        assert env.size == size


def test_a_level_buffer_of_another_map_is_rejected() -> None:
    env, params = jaxgym.make("FrozenLake-v0")
    sampled = levels.make_level_buffer(env, params, levels.train_seeds(MANY))
    with pytest.raises(LevelError, match="expected a level buffer of these options"):
        jaxgym.make("FrozenLake-v0", map_name="4x4", levels=sampled)


# Options.


def test_a_level_buffer_decides_the_size_where_the_options_do_not() -> None:
    sampled = jax.tree.map(lambda leaf: np.asarray(leaf)[None], level_of(("S..", "...", "..G")))
    assert jaxgym.make("FrozenLake-v0", levels=sampled)[0].size == 3


def test_a_size_that_is_not_that_of_the_map_is_rejected() -> None:
    assert jaxgym.make("FrozenLake-v0", map_name="8x8", size=8)[0].size == 8
    with pytest.raises(OptionError, match=r"^FrozenLake-v0: size: expected 8 for map_name='8x8', got 5\. Leave "):
        jaxgym.make("FrozenLake-v0", map_name="8x8", size=5)
    with pytest.raises(OptionError, match="expected '4x4' or '8x8', or None for a sampled map per level, got "):
        jaxgym.make("FrozenLake-v0", map_name="5x5")


def test_an_episode_is_cut_after_a_hundred_steps_unless_told_otherwise(made: tuple[Any, Any]) -> None:
    assert made[1].max_steps_in_episode == 100
    assert jaxgym.make("FrozenLake-v0", max_steps=0)[1].max_steps_in_episode == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"size": 16}, {"map_name": "8x8", "is_slippery": True}, {"levels": 5}], ids=str)
def test_variants_keep_the_contract(options: dict[str, Any]) -> None:
    check_env(*jaxgym.make("FrozenLake-v0", **options))


# What is seen.


def appearances(size: int, count: int = 300) -> tuple[np.ndarray, np.ndarray, seen.Scene]:
    """Return frames and symbols of random scenes, some of them equal, and the scenes."""
    generator = np.random.default_rng(8)
    lakes = generator.integers(0, seen.NUM_KINDS, (6, size, size), np.uint8)
    cells = lakes[generator.integers(0, len(lakes), count)]
    players = generator.integers(0, size, (count, 2), np.int32)
    kinds = cells[np.arange(count), *players.T]
    scenes = seen.Scene(cells, players, kinds == seen.Cell.HOLE, kinds == seen.Cell.GOAL)
    frames, symbols = jax.jit(jax.vmap(lambda scene: (seen.draw(scene), seen.symbols(scene))))(scenes)
    return np.asarray(frames), np.asarray(symbols), scenes


@pytest.mark.parametrize("size", [2, 5, 16])
def test_equal_frames_and_equal_symbols_and_equal_scenes_go_together(size: int) -> None:
    frames, symbols, scenes = appearances(size)
    assert frames.shape[1:] == (84, 84, 3)
    assert frames.dtype == np.uint8
    contents = zip(frames, symbols, scenes.cells, scenes.player_cell, strict=True)
    looked = [
        (frame.tobytes(), symbol.tobytes(), cells.tobytes() + cell.tobytes()) for frame, symbol, cells, cell in contents
    ]
    assert len(set(looked)) < len(looked) or size == 16
    assert [len(set(column)) for column in zip(*looked, strict=True)] == [len(set(looked))] * 3


@pytest.mark.parametrize("size", range(frozen_lake_maps.SMALLEST, frozen_lake_maps.LARGEST + 1))
def test_every_look_of_a_cell_differs_and_a_board_fits_on_the_screen(size: int) -> None:
    side, before = seen.layout_px(size)
    images = seen._images(side)
    assert len({image.tobytes() for image in images}) == 8
    assert before >= 0
    assert before <= 84 - before - side * size <= before + 1


def test_cells_are_where_they_are_and_the_player_is_in_the_middle_of_its_cell() -> None:
    frames, _, scenes = appearances(5)
    for frame, cells, (row, column) in zip(frames, scenes.cells, scenes.player_cell, strict=True):
        corners = frame[2:82:16, 2:82:16]
        water = seen._images(16)[seen.Cell.HOLE][8, 8]
        middle = frame[10:82:16, 10:82:16]
        assert (corners[cells == seen.Cell.GOAL] == seen._GOAL).all()
        assert (corners[cells == seen.Cell.START] == seen._START).all()
        is_red = (middle == seen._BODY).all(axis=-1)
        assert is_red[row, column]
        assert is_red.sum() == 1
        assert ((middle == water).all(axis=-1) == ((cells == seen.Cell.HOLE) & ~is_red)).all()


def test_the_position_of_the_player_is_the_middle_of_its_cell_as_x_and_y() -> None:
    scene = seen.Scene(jnp.zeros((5, 5), jnp.uint8), jnp.asarray([1, 3], jnp.int32), jnp.bool_(False), jnp.bool_(False))
    assert scene.agent_px.tolist() == [2 + 3 * 16 + 8, 2 + 16 + 8]


# The expert.


@partial(jax.jit, static_argnames=("env",))
def played(env: Any, params: Any, buffer: Any) -> Any:
    """Return whether the expert solves each level, and the length of the episode."""

    def one(level: Level) -> Any:
        def step(state: Any, _: None) -> Any:
            action = frozen_lake.expert_action(env, state, params)
            made = env.transition(dataclasses.replace(state, time=state.time + 1), action, params)
            return made.state, made.terminated

        state, terminated = jax.lax.scan(step, env.initial_state(level, params), length=60)
        return jnp.all(state.player_cell == level.goal_cell), jnp.argmax(terminated) + 1

    return jax.vmap(one)(buffer)


def test_the_expert_goes_the_shortest_way_and_mostly_arrives_on_slippery_ice(made: tuple[Any, Any]) -> None:
    env, params = made
    buffer = levels.make_level_buffer(env, params, levels.held_out_seeds(MANY))
    buffer = jax.tree.map(lambda leaf: np.asarray(leaf)[:200], buffer)
    is_won, steps = jax.device_get(played(env, params, buffer))
    assert is_won.all()
    for row in range(0, 200, 8):
        assert steps[row] == distance(jax.tree.map(lambda leaf, row=row: leaf[row], buffer))
    slippery = dataclasses.replace(params, is_slippery=np.bool_(True))
    assert jax.device_get(played(env, slippery, buffer))[0].mean() > 0.6


def distance(level: Level) -> int:
    """Return the length of the shortest path, by growing the reachable cells."""
    reached, steps = {tuple(np.asarray(level.start_cell).tolist())}, 0
    while tuple(np.asarray(level.goal_cell).tolist()) not in reached:
        steps += 1
        around = {(row + down, column + right) for row, column in reached for down, right in STEPS.values()}
        inside = {cell for cell in around if all(0 <= number < len(level.is_hole) for number in cell)}
        reached |= {cell for cell in inside if not level.is_hole[cell]}
    return steps
