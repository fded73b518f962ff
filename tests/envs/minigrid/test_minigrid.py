"""Rules, view and frames of MiniGrid.

Worlds are drawn row by row: `#` wall, `.` floor, `k` `b` `x` green key, ball and box, `D` `L` closed and locked green
doors, `O` an open green door, and one of `> v < ^` for the agent.
"""

import functools
import hashlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxgym.envs.minigrid import render, view
from jaxgym.envs.minigrid.world import (
    EMPTY,
    WALL,
    Color,
    Direction,
    Door,
    GridWorld,
    MiniGridAction,
    Type,
    act,
    appearance_of,
    thing,
)
from tests.envs.minigrid import recorded

GREEN = Color.GREEN
THINGS = {
    "#": WALL,
    "k": thing(Type.KEY, GREEN, number=1),
    "b": thing(Type.BALL, GREEN, number=2),
    "x": thing(Type.BOX, GREEN, number=3),
    "D": thing(Type.DOOR, GREEN, Door.CLOSED, number=4),
    "L": thing(Type.DOOR, GREEN, Door.LOCKED, number=4),
    "O": thing(Type.DOOR, GREEN, Door.OPEN, number=4),
}
NAMES = {value: name for name, value in THINGS.items()} | {EMPTY: "."}
AGENT = ">v<^"
FORWARD, PICKUP, DROP, TOGGLE = (
    MiniGridAction.FORWARD,
    MiniGridAction.PICKUP,
    MiniGridAction.DROP,
    MiniGridAction.TOGGLE,
)
RED_KEY = thing(Type.KEY, Color.RED, number=5)
SIDE = 22
"""Side of the grids that worlds are padded to with walls, so that each program compiles once."""


def world_of(drawing: str, carrying: int = EMPTY) -> GridWorld:
    rows = drawing.split()
    cells = np.full((SIDE, SIDE), WALL, np.uint16)
    for y, row in enumerate(rows):
        for x, name in enumerate(row):
            cells[x, y] = THINGS.get(name, EMPTY)
            if name in AGENT:
                position, direction = (x, y), AGENT.index(name)
    return GridWorld(jnp.asarray(cells), jnp.asarray(position, jnp.int32), jnp.int32(direction), jnp.uint16(carrying))


def drawing_of(world: GridWorld, drawing: str) -> str:
    """Return a world as a drawing of the size of another one."""
    cells = np.asarray(world.cells)
    rows = [[NAMES[int(cells[x, y])] for x in range(len(row))] for y, row in enumerate(drawing.split())]
    x, y = np.asarray(world.position)
    rows[y][x] = AGENT[int(world.direction)]
    return " ".join("".join(row) for row in rows)


CONTENTS = np.asarray([EMPTY, EMPTY, EMPTY, THINGS["b"]], np.uint16)
play_one = jax.jit(act)


def played(drawing: str, *actions: int, carrying: int = EMPTY, contents: Any = None) -> tuple[str, int]:
    """Return the drawing after some actions, and what the agent then carries."""
    world = world_of(drawing, carrying)
    for action in actions:
        world = play_one(world, jnp.int32(action), np.full(4, EMPTY, np.uint16) if contents is None else contents)
    return drawing_of(world, drawing), int(world.carrying)


@pytest.mark.parametrize(
    ("before", "actions", "after"),
    [
        ("#### #>.# ####", [MiniGridAction.LEFT], "#### #^.# ####"),
        ("#### #>.# ####", [MiniGridAction.RIGHT], "#### #v.# ####"),
        ("#### #>.# ####", [MiniGridAction.LEFT] * 4, "#### #>.# ####"),
        ("#### #>.# ####", [FORWARD], "#### #.># ####"),
        ("#### #.># ####", [FORWARD], "#### #.># ####"),
        ("#### #>b# ####", [FORWARD], "#### #>b# ####"),
        ("#### #>D# ####", [FORWARD], "#### #>D# ####"),
        ("##### #>O.# #####", [FORWARD, FORWARD], "##### #.O># #####"),
        ("#### #>D# ####", [TOGGLE], "#### #>O# ####"),
        ("#### #>O# ####", [TOGGLE], "#### #>D# ####"),
        ("#### #>L# ####", [TOGGLE], "#### #>L# ####"),
        ("#### #>x# ####", [TOGGLE], "#### #>.# ####"),
        ("#### #>k# ####", [TOGGLE], "#### #>k# ####"),
        ("#### #>k# ####", [MiniGridAction.DONE], "#### #>k# ####"),
        ("#### #>k# ####", [-1, 7, 99], "#### #>k# ####"),
    ],
)
def test_moves_and_toggles(before: str, actions: list[int], after: str) -> None:
    assert played(before, *actions) == (after, EMPTY)


@pytest.mark.parametrize("name", "kbx")
def test_a_thing_is_picked_up_and_dropped_with_its_number(name: str) -> None:
    taken, carrying = played(f"##### #>{name}.# #####", PICKUP)
    assert (taken, carrying) == ("##### #>..# #####", THINGS[name])
    assert played("##### #>..# #####", DROP, carrying=carrying) == (f"##### #>{name}.# #####", EMPTY)


@pytest.mark.parametrize("name", "#DO.")
def test_doors_walls_and_floor_are_not_picked_up(name: str) -> None:
    drawing = f"##### #>{name}.# #####"
    assert played(drawing, PICKUP) == (drawing, EMPTY)


def test_a_full_hand_picks_up_nothing() -> None:
    drawing = "#### #>b# ####"
    assert played(drawing, PICKUP, carrying=RED_KEY) == (drawing, RED_KEY)


@pytest.mark.parametrize("name", "#bDO")
def test_a_thing_is_dropped_on_free_floor_only(name: str) -> None:
    drawing = f"##### #>{name}.# #####"
    assert played(drawing, DROP, carrying=RED_KEY) == (drawing, RED_KEY)


def test_a_key_of_its_color_unlocks_a_door_and_stays_in_the_hand() -> None:
    key = THINGS["k"]
    assert played("#### #>L# ####", TOGGLE, carrying=key) == ("#### #>O# ####", key)
    assert played("#### #>L# ####", TOGGLE, TOGGLE, carrying=key) == ("#### #>D# ####", key)
    for other in (RED_KEY, THINGS["b"]):
        assert played("#### #>L# ####", TOGGLE, carrying=other) == ("#### #>L# ####", other)


def test_an_opened_box_leaves_its_content() -> None:
    assert played("#### #>x# ####", TOGGLE, contents=CONTENTS) == ("#### #>b# ####", EMPTY)


def test_a_box_keeps_its_content_while_it_is_carried() -> None:
    box = played("##### #>x.# #####", PICKUP, contents=CONTENTS)[1]
    assert played("##### #>..# #####", DROP, TOGGLE, carrying=box, contents=CONTENTS)[0] == "##### #>b.# #####"


# The view.


def lit_by_minigrids_passes(is_transparent: np.ndarray) -> np.ndarray:
    """Return the lit cells by minigrid's two passes over each row, which change the mask while they read it."""
    lit = np.zeros((7, 7), bool)
    lit[3, 6] = True
    for row in range(6, -1, -1):
        for columns, beside in ((range(6), 1), (range(6, 0, -1), -1)):
            for column in columns:
                if lit[column, row] and is_transparent[column, row]:
                    lit[column + beside, row] = True
                    if row:
                        lit[column + beside, row - 1] = lit[column, row - 1] = True
    return lit


def test_light_is_that_of_minigrids_passes() -> None:
    chance = np.random.default_rng(0)
    windows = chance.random((5000, 7, 7)) < chance.random((5000, 1, 1))
    windows[:, 3, 6] = True
    found = np.asarray(jax.jit(jax.vmap(view.lit_cells))(windows))
    expected = np.stack([lit_by_minigrids_passes(window) for window in windows])
    np.testing.assert_array_equal(found, expected)
    assert 0.1 < expected.mean() < 0.9


@pytest.mark.parametrize("direction", Direction)
def test_the_view_turns_with_the_agent(direction: Direction) -> None:
    cells = np.full((SIDE, SIDE), EMPTY, np.uint16)
    cells[[0, -1]] = cells[:, [0, -1]] = WALL
    ahead, right = np.asarray([(1, 0), (0, 1), (-1, 0), (0, -1)])[[direction, (direction + 1) % 4]]
    cells[tuple(np.asarray([10, 10]) + 5 * ahead + 2 * right)] = THINGS["k"]
    world = GridWorld(jnp.asarray(cells), jnp.asarray([10, 10], jnp.int32), jnp.int32(direction), jnp.uint16(RED_KEY))
    seen = np.asarray(see(world).cells)
    expected = np.full((7, 7), EMPTY)
    expected[5, 1], expected[view.OWN] = appearance_of(THINGS["k"]), appearance_of(RED_KEY)
    np.testing.assert_array_equal(seen, expected)


see = jax.jit(view.visible_in)


def test_an_open_door_under_the_agent_is_not_visible() -> None:
    world = world_of("##### #>O.# #####")
    world = play_one(world, jnp.int32(FORWARD), CONTENTS)
    assert int(see(world).cells[view.OWN]) == EMPTY


# Frames.


@pytest.mark.parametrize(
    ("tile_px", "digest"),
    [
        (8, "bf3cfeef9d98d114c652135b35cc29f9c0777a17bc165aa4ff44bd752ff27f3e"),
        (32, "03e9da202c19481b156a9b8defb3983f5d09b7c361ae83a59e78ffdc64d19e87"),
    ],
)
def test_all_tiles_are_minigrids(tile_px: int, digest: str) -> None:
    appearances = [(Type.EMPTY, 0, 0)]
    appearances += [(kind, color, 0) for kind in (Type.WALL,) for color in Color]
    appearances += [(Type.DOOR, color, state) for color in Color for state in Door]
    appearances += [(kind, color, 0) for kind in (Type.KEY, Type.BALL, Type.BOX) for color in Color]
    tiles = hashlib.sha256()  # of minigrid's tiles in this order
    for each in appearances:
        for agent in (None, *Direction):
            for is_lit in (False, True):
                tiles.update(render.tile(*each, agent, tile_px, is_lit=is_lit).tobytes())
    assert tiles.hexdigest() == digest


# Recordings.


def things_of(encoded: np.ndarray) -> np.ndarray:
    """Return minigrid's encoding, (..., 3), as things without numbers."""
    kind, color, state = np.moveaxis(encoded.astype(np.uint16), -1, 0)
    return kind | color << 4 | state << 7


@functools.partial(jax.jit, static_argnames=("num_frames",))
def replay(world: GridWorld, contents: jax.Array, actions: jax.Array, times: jax.Array, num_frames: int) -> Any:
    """Return images, worlds, and frames of view and grid at some times."""

    def step(world: GridWorld, action: jax.Array) -> tuple[GridWorld, GridWorld]:
        after = act(world, action, contents)
        return after, after

    after = jax.lax.scan(step, world, actions)[1]
    worlds = jax.tree.map(lambda first, rest: jnp.concatenate([first[None], rest]), world, after)
    images = jax.vmap(lambda world: view.image_of(view.visible_in(world).cells))(worlds)
    shown = jax.tree.map(lambda leaf: leaf[times[:num_frames]], worlds)
    frames = [jax.vmap(lambda world: draw(world, 8))(shown) for draw in (render.draw_view, render.draw_grid)]  # noqa: B023
    return images, worlds, frames


@pytest.mark.parametrize("name", recorded.names(""))
def test_recorded_moves_views_and_frames(name: str) -> None:
    arrays, meta = recorded.load(name)
    num_steps, first = len(arrays["actions"]), int("Carrying" in name)  # the first view of these is of an earlier state
    grid = things_of(arrays["grid"][0])
    cells = np.full((SIDE, SIDE), WALL, np.uint16)
    cells[: grid.shape[0], : grid.shape[1]] = grid
    contents = np.full(4, EMPTY, np.uint16)
    for number, (x, y, kind, color) in enumerate(arrays["contains"], start=1):
        cells[x, y] += thing(0, number=number)
        contents[number] = thing(kind, color)
    carried = thing(*arrays["carrying"][0]) or EMPTY
    start = GridWorld(
        cells, arrays["agent_pos"][0].astype(np.int32), np.int32(arrays["agent_dir"][0]), np.uint16(carried)
    )
    actions = np.full(300, MiniGridAction.DONE, np.int32)
    actions[:num_steps] = arrays["actions"]
    if "Memory" in meta["id"]:
        actions[actions == PICKUP] = TOGGLE
    times = np.resize(np.concatenate([arrays["pov_t"], arrays["full_t"]]), 24).astype(np.int32)
    images, worlds, (views, grids) = jax.device_get(replay(start, contents, actions, times, 24))
    span = slice(first, num_steps + 1)
    np.testing.assert_array_equal(images[span], arrays["image"][span])
    whole = appearance_of(worlds.cells[: num_steps + 1, : grid.shape[0], : grid.shape[1]])
    np.testing.assert_array_equal(whole, things_of(arrays["grid"]))
    np.testing.assert_array_equal(worlds.position[: num_steps + 1], arrays["agent_pos"])
    np.testing.assert_array_equal(worlds.direction[: num_steps + 1], arrays["agent_dir"])
    held = things_of(np.concatenate([arrays["carrying"], 0 * arrays["carrying"][:, :1]], axis=1))
    np.testing.assert_array_equal(appearance_of(worlds.carrying[: num_steps + 1]), np.where(held == 0, EMPTY, held))
    split = len(arrays["pov_t"])
    np.testing.assert_array_equal(views[first:split], arrays["pov8"][first:])
    height, width = arrays["full8"].shape[1:3]
    shown = grids[split : split + len(arrays["full_t"]), :height, :width]
    np.testing.assert_array_equal(shown[first:], arrays["full8"][first:])
