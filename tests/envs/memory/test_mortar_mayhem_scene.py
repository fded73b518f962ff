"""Scene of Mortar Mayhem, drawn here a second time from the facts.

A tile is 14 px with a border of 1 px; the arena of n tiles is the square from 42 - 7n to 42 + 7n of a black screen of
84 px; the agent is a body with two hands, above the tiles; a glyph is white and above all.
"""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxgym
from jaxgym.envs.mortar_mayhem import scene as seen
from jaxgym.envs.mortar_mayhem.game import Level
from jaxgym.envs.mortar_mayhem.visible import symbols, visible_in

TILE, TILE_BORDER = (21, 43, 77), (29, 60, 107)
RED, RED_BORDER = (81, 18, 26), (112, 24, 36)
BODY, HAND, HAND_OUTLINE, WHITE = (250, 204, 153), (250, 250, 250), (50, 50, 50), (255, 255, 255)
NO_COMMAND = 9
ARENA_SIZES = (2, 3, 4, 5, 6)

# The agent of scale 0.25 at its eight headings; pixel (0, 0) lies at its center - 8. B: body, o: hand.
AGENT = """
0 deg             45 deg            90 deg            135 deg
................  ......oo........  ................  ................
................  .....oooo.......  ................  ................
...oo.BBBB.oo...  .....ooooB......  ...oo.BBBB......  ......BBBB......
..ooooBBBBoooo..  .....BooBBB.....  ..ooooBBBBB.....  .....BBBBBB.....
..ooooBBBBoooo..  ....BBBBBBBB....  ..ooooBBBBBB....  ....BBBBBBBB....
...ooBBBBBBoo...  ...BBBBBBBBBB...  ...ooBBBBBBBB...  ...BBBBBBBBBB...
..BBBBBBBBBBBB..  .ooBBBBBBBBBBB..  ..BBBBBBBBBBBB..  .ooBBBBBBBBBBB..
..BBBBBBBBBBBB..  ooooBBBBBBBBBB..  ..BBBBBBBBBBBB..  ooooBBBBBBBBBB..
..BBBBBBBBBBBB..  ooooBBBBBBBBBB..  ..BBBBBBBBBBBB..  ooooBBBBBBBBBB..
..BBBBBBBBBBBB..  .ooBBBBBBBBBBB..  ..BBBBBBBBBBBB..  .ooBBBBBBBBBBB..
...BBBBBBBBBB...  ...BBBBBBBBBB...  ...ooBBBBBBBB...  ...BBBBBBBBBB...
....BBBBBBBB....  ....BBBBBBBB....  ..ooooBBBBBB....  ....BBBooBBB....
.....BBBBBB.....  .....BBBBBB.....  ..ooooBBBBB.....  .....BooooB.....
......BBBB......  ......BBBB......  ...oo.BBBB......  ......oooo......
................  ................  ................  .......oo.......
................  ................  ................  ................

180 deg           225 deg           270 deg           315 deg
................  ................  ................  .......oo.......
................  ................  ................  ......oooo......
......BBBB......  ......BBBB......  ......BBBB.oo...  ......oooo......
.....BBBBBB.....  .....BBBBBB.....  .....BBBBBoooo..  .....BBooBB.....
....BBBBBBBB....  ....BBBBBBBB....  ....BBBBBBoooo..  ....BBBBBBBB....
...BBBBBBBBBB...  ...BBBBBBBBBB...  ...BBBBBBBBoo...  ...BBBBBBBBBB...
..BBBBBBBBBBBB..  ..BBBBBBBBBBoo..  ..BBBBBBBBBBBB..  ..BBBBBBBBBBoo..
..BBBBBBBBBBBB..  ..BBBBBBBBBoooo.  ..BBBBBBBBBBBB..  ..BBBBBBBBBoooo.
..BBBBBBBBBBBB..  ..BBBBBBBBBoooo.  ..BBBBBBBBBBBB..  ..BBBBBBBBBoooo.
..BBBBBBBBBBBB..  ..BBBBBBBBBBoo..  ..BBBBBBBBBBBB..  ..BBBBBBBBBBoo..
...ooBBBBBBoo...  ...BBBBBBBBBB...  ...BBBBBBBBoo...  ...BBBBBBBBBB...
..ooooBBBBoooo..  ....BBBooBBB....  ....BBBBBBoooo..  ....BBBBBBBB....
..ooooBBBBoooo..  .....BooooB.....  .....BBBBBoooo..  .....BBBBBB.....
...oo.BBBB.oo...  ......oooo......  ......BBBB.oo...  ......BBBB......
................  .......oo.......  ................  ................
................  ................  ................  ................
"""
COLORS = {"B": BODY, "o": HAND_OUTLINE}


def read_agents() -> list[list[str]]:
    """Read eight drawings, each a list of 16 rows."""
    blocks = [
        [line.split() for line in block.splitlines() if "deg" not in line] for block in AGENT.strip().split("\n\n")
    ]
    return [[row[column] for row in block] for block in blocks for column in range(4)]


AGENTS = read_agents()


def make_scene(
    *,
    arena_size: int = 5,
    at: tuple[int, int] = (42, 42),
    heading: int = 0,
    command: int = NO_COMMAND,
    safe: tuple[int, int] = (-1, -1),
) -> seen.Scene:
    return seen.Scene(
        arena_size=np.int32(arena_size),
        agent_position_px=np.asarray(at, np.int32),
        agent_heading=np.int32(heading),
        command=np.int32(command),
        safe_tile=np.asarray(safe, np.int32),
        commands=None,
    )


draw_scene = jax.jit(seen.draw, static_argnums=1)


def draw(scale: float = 0.25, **parts: Any) -> np.ndarray:
    return np.asarray(draw_scene(make_scene(**parts), scale))


def expected_arena(arena_size: int, safe: tuple[int, int] | None = None) -> np.ndarray:
    frame = np.zeros((84, 84, 3), np.uint8)
    corner = 42 - 7 * arena_size
    for y in range(corner, 42 + 7 * arena_size):
        for x in range(corner, 42 + 7 * arena_size):
            is_border = {(x - corner) % 14, (y - corner) % 14} & {0, 13}
            tile = ((x - corner) // 14, (y - corner) // 14)
            is_red = safe is not None and tile != safe
            frame[y, x] = (RED_BORDER if is_red else TILE_BORDER) if is_border else (RED if is_red else TILE)
    return frame


def add_agent(frame: np.ndarray, at: tuple[int, int], heading: int) -> np.ndarray:
    frame = frame.copy()
    for row, line in enumerate(AGENTS[heading]):
        for column, pixel in enumerate(line):
            x, y = at[0] - 8 + column, at[1] - 8 + row
            if pixel in COLORS and 0 <= x < 84 and 0 <= y < 84:
                frame[y, x] = COLORS[pixel]
    return frame


@pytest.mark.parametrize("arena_size", ARENA_SIZES)
def test_the_arena_is_a_square_of_tiles_in_the_middle_of_a_black_screen(arena_size: int) -> None:
    corner = 42 - 7 * arena_size
    assert np.array_equal(
        draw(arena_size=arena_size, at=(corner + 7, corner + 7)),
        add_agent(expected_arena(arena_size), (corner + 7, corner + 7), 0),
    )


@pytest.mark.parametrize("arena_size", ARENA_SIZES)
def test_all_tiles_but_the_safe_one_are_red(arena_size: int) -> None:
    for safe in {(0, 0), (1, 0), (0, 1), (arena_size - 1, arena_size - 2), (arena_size - 1, arena_size - 1)}:
        assert np.array_equal(
            draw(arena_size=arena_size, safe=safe), add_agent(expected_arena(arena_size, safe), (42, 42), 0)
        )


@pytest.mark.parametrize("heading", range(8))
def test_the_agent_looks_as_drawn_at_each_heading(heading: int) -> None:
    assert np.array_equal(draw(heading=heading), add_agent(expected_arena(5), (42, 42), heading))


def test_frames_are_row_first() -> None:
    # The agent stands at the right, half way down; nothing of it shows at the bottom.
    frame = draw(at=(70, 42))
    assert frame[42, 70].tolist() == list(BODY)
    assert frame[70, 42].tolist() != list(BODY)


@given(arena_size=st.sampled_from(ARENA_SIZES), x=st.integers(0, 999), y=st.integers(0, 999), heading=st.integers(0, 7))
@settings(max_examples=40, deadline=None)
def test_the_agent_is_drawn_above_the_tiles_wherever_it_is(arena_size: int, x: int, y: int, heading: int) -> None:
    low, high = 42 - 7 * arena_size + 6, 42 + 7 * arena_size - 6
    at = (low + x % (high - low + 1), low + y % (high - low + 1))
    expected = add_agent(expected_arena(arena_size), at, heading)
    assert np.array_equal(draw(arena_size=arena_size, at=at, heading=heading), expected)


# Command: white pixels, and the leftmost, topmost, rightmost and bottommost of them.
GLYPHS = {
    "right": (81, (31, 31, 52, 51)),
    "down": (81, (32, 31, 52, 52)),
    "left": (81, (31, 32, 52, 52)),
    "up": (81, (31, 31, 51, 52)),
    "stay": (148, (31, 31, 50, 50)),
    "right-down": (87, (38, 38, 54, 53)),
    "right-up": (87, (38, 38, 53, 54)),
    "left-down": (89, (39, 38, 54, 54)),
    "left-up": (89, (38, 39, 54, 54)),
}
NAMES = list(GLYPHS)


@pytest.mark.parametrize("arena_size", ARENA_SIZES)
@pytest.mark.parametrize("command", range(9))
def test_a_glyph_is_white_and_above_the_agent(command: int, arena_size: int) -> None:
    pixels, box = GLYPHS[NAMES[command]]
    plain, frame = draw(arena_size=arena_size), draw(arena_size=arena_size, command=command)
    is_white = (frame == WHITE).all(axis=-1)
    assert is_white.sum() == pixels
    rows, columns = np.nonzero(is_white)
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == box
    assert np.array_equal(frame[~is_white], plain[~is_white])


# Other sizes. Half widths of discs, as in the tests of the sprites.
WIDTHS = {
    1: [1],
    2: [2, 1],
    5: [5, 5, 4, 3, 2],
    10: [10, 10, 10, 9, 9, 8, 7, 6, 5, 3],
    12: [12, 12, 12, 11, 11, 10, 10, 9, 8, 7, 5, 3],
    25: [25, 25, 25, 25, 24, 24, 24, 24, 23, 23, 22, 22, 21, 21, 20, 19, 18, 17, 16, 15, 14, 12, 10, 8, 4],
}


def disc_at(x: int, y: int, radius: int) -> np.ndarray:
    mask = np.zeros((84, 84), bool)
    for k, width in enumerate(WIDTHS[radius]):
        mask[[y + k, y - 1 - k], x - width : x + width] = True
    return mask


@pytest.mark.parametrize("heading", [0, 2, 4, 6])
@pytest.mark.parametrize(
    ("scale", "radius", "hand", "hand_x", "hand_y", "has_light_hands"),
    # The hands of an agent that heads up, from its center: 18 · scale to both sides; 12 · scale + 7 below the top of
    # the surface, whose half side is 9, 21 and 37.
    [(0.1, 2, 1, 1, 9 - 8, False), (0.5, 12, 5, 9, 21 - 13, True), (1.0, 25, 10, 18, 37 - 19, True)],
)
def test_an_agent_of_another_scale_has_a_body_and_hands_of_its_size(
    scale: float, radius: int, hand: int, hand_x: int, hand_y: int, has_light_hands: bool, heading: int
) -> None:
    frame = draw(scale, arena_size=6, heading=heading)
    hands = {
        0: [(-hand_x, -hand_y), (hand_x, -hand_y)],
        2: [(-hand_y, hand_x), (-hand_y, -hand_x)],
        4: [(hand_x, hand_y), (-hand_x, hand_y)],
        6: [(hand_y, -hand_x), (hand_y, hand_x)],
    }[heading]
    is_hand = np.any([disc_at(42 + x, 42 + y, hand) for x, y in hands], axis=0)
    is_body = disc_at(42, 42, radius) & ~is_hand
    assert (frame[is_body] == BODY).all()
    is_light = (frame == HAND).all(axis=-1)
    assert (frame[is_hand & ~is_light] == HAND_OUTLINE).all()
    assert not (is_light & ~is_hand).any()
    assert all(is_light[42 + y, 42 + x] == has_light_hands for x, y in hands)
    nothing = ~(is_body | is_hand)
    assert np.array_equal(frame[nothing], expected_arena(6)[nothing])


# Images and numbers tell the same.

NUM_ENVS, STEPS = 120, 14
MOVES = np.asarray([(1, 0), (0, 1), (-1, 0), (0, -1), (0, 0)])
STAY = 4


def make_levels(arena_sizes: np.ndarray, show: int) -> Level:
    """Sample levels of two commands, mostly to stay, so that checks are passed and tiles turn deadly."""
    generator = np.random.default_rng(0)
    starts, sequences = [], []
    for arena_size in arena_sizes:
        starts.append(generator.integers(0, arena_size, 2))
        tile, sequence = starts[-1], []
        for _ in range(2):
            inside = [c for c, move in enumerate(MOVES) if ((tile + move >= 0) & (tile + move < arena_size)).all()]
            sequence.append(STAY if generator.random() < 0.6 else generator.choice(inside))
            tile = tile + MOVES[sequence[-1]]
        sequences.append(sequence + [-1] * 8)
    every = functools.partial(np.full, NUM_ENVS, dtype=np.int32)
    return Level(
        start_tile=np.asarray(starts, np.int32),
        start_offset_px=np.zeros((NUM_ENVS, 2), np.int32),
        command_count=every(2),
        commands=np.asarray(sequences, np.int32),
        command_show_duration=every(show),
        command_show_delay=every(show),
        explosion_duration=every(2),
        explosion_delay=every(3),
    )


@functools.partial(jax.jit, static_argnames=("env",))
def roll(env: Any, level: Level, params: Any, actions: jax.Array) -> tuple[seen.Scene, jax.Array]:
    """Return the scenes of an episode, and for each whether the episode had not ended before it."""
    state = env.initial_state(level, params)

    def step(carry: Any, action: jax.Array) -> Any:
        state, is_on = carry
        _, stepped, _, terminated, _ = env.step_env(jax.random.key(0), state, action, params)
        return (stepped, is_on & ~terminated), (env.scene(stepped, params), is_on)

    _, (scenes, is_on) = jax.lax.scan(step, (state, jnp.bool_(True)), actions)
    first = env.scene(state, params)
    return jax.tree.map(lambda one, rest: jnp.concatenate([one[None], rest]), first, scenes), jnp.pad(
        is_on, (1, 0), constant_values=True
    )


def scenes_of_random_episodes(env_id: str, scale: float) -> seen.Scene:
    """Return a stack of all scenes of episodes in arenas of all sizes."""
    env, params = jaxgym.make(env_id, agent_scale=scale)
    sizes = np.resize(np.asarray(ARENA_SIZES, np.int32), NUM_ENVS)
    many = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (NUM_ENVS, *np.shape(leaf))), params)
    many = dataclasses.replace(many, arena_size=sizes)
    generator = np.random.default_rng(1)
    space = env.action_space(params)
    shape = (NUM_ENVS, STEPS, *space.shape)
    actions = generator.integers(0, space.n if space.shape == () else space.nvec, shape, dtype=np.int32)
    is_still = generator.random((NUM_ENVS, STEPS)) < 0.6
    actions[is_still] = 0
    levels = make_levels(sizes, show=0 if "MayhemB" in env_id else 1)
    scenes, is_on = jax.device_get(jax.vmap(roll, in_axes=(None, 0, 0, 0))(env, levels, many, actions))
    assert scenes.safe_tile[is_on].max() > 0, "no tile turns red"
    return jax.tree.map(lambda leaf: leaf[is_on], scenes)


def look(scenes: seen.Scene, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the frames and symbols of a stack of scenes."""
    # Padded to one length, so that the scenes of the games with clues compile once, and those of the others.
    count, most = len(scenes.command), NUM_ENVS * (STEPS + 1)
    padded = jax.tree.map(lambda leaf: np.resize(leaf, (most, *leaf.shape[1:])), scenes)
    images, numbers = jax.device_get(look_at_all(padded, scale))
    return images[:count], numbers[:count]


@functools.partial(jax.jit, static_argnums=1)
def look_at_all(scenes: seen.Scene, scale: float) -> tuple[jax.Array, jax.Array]:
    return jax.vmap(lambda scene: (seen.draw(scene, scale), symbols(visible_in(scene, scale))))(scenes)


@pytest.mark.parametrize(
    ("env_id", "scale"),
    [
        ("MortarMayhem-v0", 0.04),
        ("MortarMayhem-v0", 0.1),
        ("MortarMayhem-v0", 0.25),
        ("MortarMayhem-v0", 0.5),
        ("MortarMayhem-v0", 0.7),
        ("MortarMayhem-v0", 1.0),
        ("MortarMayhemB-v0", 0.25),
        ("MortarMayhem-Grid-v0", 0.25),
        ("MortarMayhemB-Grid-v0", 0.25),
    ],
)
def test_two_moments_look_alike_if_and_only_if_their_numbers_are_equal(env_id: str, scale: float) -> None:
    scenes = scenes_of_random_episodes(env_id, scale)
    images, numbers = look(scenes, scale)
    codes = np.zeros((len(numbers), 0)) if scenes.commands is None else scenes.commands
    appearances = [image.tobytes() + code.tobytes() for image, code in zip(images, codes, strict=True)]
    pairs = list(zip(appearances, (vector.tobytes() for vector in numbers), strict=True))
    # There is something to tell apart, and something that is seen again.
    assert 100 < len(set(pairs)) < len(pairs)
    assert len({look for look, _ in pairs}) == len(set(pairs)), "moments that look alike have different numbers"
    assert len({vector for _, vector in pairs}) == len(set(pairs)), "moments with equal numbers look different"
