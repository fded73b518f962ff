"""Rules of Mortar Mayhem, in the order of the rule book.

Tiles are (column, row). A level is written as its start S and its commands; here `up, up, stay`, whose targets are 1,
then 2, then 2 again:

        0   1   2   3   4
    0   .   .   2   .   .
    1   .   .   1   .   .
    2   .   .   S   .   .
    3   .   .   .   .   .
    4   .   .   .   .   .

Most levels go up only: a grid agent starts heading up, and a free agent of speed 14 moves by whole tiles, so in all
four games one action is one tile. Step t is the t-th action, and t = 0 the reset. C is the number of clue frames (1 in
the act-only games), D the explosion delay, E the explosion duration.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym.envs.mortar_mayhem.game import Level, MortarMayhem, Params, State
from jaxgym.errors import OptionError
from jaxgym.levels import make_level_buffer, train_seeds

GAMES = {
    "mm": "MortarMayhem-v0",
    "mmg": "MortarMayhem-Grid-v0",
    "mmb": "MortarMayhemB-v0",
    "mmbg": "MortarMayhemB-Grid-v0",
}
WITH_CLUES = ("mm", "mmg")
ACT_ONLY = ("mmb", "mmbg")
FREE = ("mm", "mmb")
GRID = ("mmg", "mmbg")

COMMANDS = RIGHT, DOWN, LEFT, UP, STAY, RIGHT_DOWN, RIGHT_UP, LEFT_DOWN, LEFT_UP = range(9)
MOVES = ((1, 0), (0, 1), (-1, 0), (0, -1), (0, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))
BLANK = 9

NOTHING, TURN_LEFT, TURN_RIGHT, FORWARD = range(4)
GO_UP = {"mm": (0, 1), "mmb": (0, 1), "mmg": FORWARD, "mmbg": FORWARD}
ROLLOUT_STEPS = 300  # Longer than any episode here; one length, so that a game compiles once.

all_games = pytest.mark.parametrize("game", GAMES)
games_with_clues = pytest.mark.parametrize("game", WITH_CLUES)


def make(game: str, **options: Any) -> tuple[MortarMayhem, Params]:
    speed = {"agent_speed": 14.0} if game in FREE else {}
    return jaxgym.make(GAMES[game], observation="symbolic", **{**speed, **options})


def make_level(
    commands: list[int],
    *,
    start: tuple[int, int] = (2, 2),
    offset: tuple[int, int] = (0, 0),
    clue: tuple[int, int] = (0, 0),
    delay: int = 6,
    duration: int = 2,
) -> Level:
    """Return the level of these commands; `clue` is the number of frames of a command, then of a blank."""
    return Level(
        start_tile=np.asarray(start, np.int32),
        start_offset_px=np.asarray(offset, np.int32),
        command_count=np.int32(len(commands)),
        commands=np.asarray(commands + [-1] * (10 - len(commands)), np.int32),
        command_show_duration=np.int32(clue[0]),
        command_show_delay=np.int32(clue[1]),
        explosion_duration=np.int32(duration),
        explosion_delay=np.int32(delay),
    )


def make_state(level: Level, **fields: Any) -> State:
    """Return the state of an agent at the center of tile (2, 2) of a 5 × 5 arena, after the clue phase."""
    values = {
        "time": 100,
        "episode_return": np.float32(0.0),
        "terminated": False,
        "position_px": (42, 42),
        "heading": 0,
        "target_tile": (2, 2),
        "num_checks": 0,
        "command_steps": 0,
        "verify_step": 0,
        "tiles_on": False,
        "success": False,
        **fields,
    }
    dtypes = {bool: np.bool_, int: np.int32, tuple: np.int32, np.float32: np.float32}
    return State(level=level, **{name: np.asarray(value, dtypes[type(value)]) for name, value in values.items()})


@dataclasses.dataclass(frozen=True)
class Episode:
    """An episode without auto-reset; entry t of `states` and `scenes` is the result of step t, entry 0 of the reset."""

    states: State
    scenes: Any
    rewards: np.ndarray
    terminated: np.ndarray
    info: dict[str, np.ndarray]

    @property
    def end(self) -> int:
        assert self.terminated.any(), "the episode never ends"
        return int(self.terminated.argmax())

    @property
    def rewarded(self) -> dict[int, float]:
        """Return the rewards up to the end that are not zero, by step."""
        steps = np.flatnonzero(self.rewards[: self.end + 1])
        return {int(t): pytest.approx(self.rewards[t]) for t in steps}

    @property
    def red(self) -> list[int]:
        """Return the steps up to the end whose frames show deadly tiles."""
        return np.flatnonzero(self.scenes.safe_tile[: self.end + 1, 0] >= 0).tolist()


@functools.partial(jax.jit, static_argnames=("env",))
def roll(env: MortarMayhem, level: Level, actions: jax.Array, params: Params) -> Any:
    state = env.initial_state(level, params)

    def step(state: State, action: jax.Array) -> Any:
        _, state, reward, terminated, info = env.step_env(jax.random.key(0), state, action, params)
        return state, (state, env.scene(state, params), reward, terminated, info)

    return (state, env.scene(state, params)), jax.lax.scan(step, state, actions)[1]


def play(
    game: str, level: Level, actions: dict[int, Any] | None = None, filling: Any = None, **options: Any
) -> Episode:
    """Play the given actions in the given steps, and the filling (nothing) in all others."""
    env, params = make(game, **options)
    given = np.zeros((ROLLOUT_STEPS, *env.action_space(params).shape), np.int32)
    given[:] = 0 if filling is None else filling
    for t, action in (actions or {}).items():
        given[t - 1] = action
    first, rest = jax.device_get(roll(env, level, given, params))
    (states, scenes) = jax.tree.map(lambda one, many: np.concatenate([one[None], many]), first, rest[:2])
    reward, terminated, info = jax.tree.map(lambda many: np.concatenate([np.zeros_like(many[:1]), many]), rest[2:])
    return Episode(states, scenes, reward, terminated, info)


@functools.partial(jax.jit, static_argnames=("env",))
def step_once(env: MortarMayhem, state: State, action: jax.Array, params: Params) -> Any:
    return env.step_env(jax.random.key(0), state, action, params)[1:]


def step(game: str, state: State, action: Any, **options: Any) -> tuple[State, float, bool]:
    env, params = make(game, **options)
    stepped, reward, terminated, _ = jax.device_get(step_once(env, state, np.asarray(action, np.int32), params))
    return stepped, float(reward), bool(terminated)


def nothing(game: str) -> Any:
    return (0, 0) if game in FREE else NOTHING


def sample(game: str, **options: Any) -> Level:
    """Return a stack of 400 sampled levels."""
    return jax.device_get(make_level_buffer(*make(game, **options), train_seeds(400)))


def sample_one(game: str, **options: Any) -> Level:
    return jax.tree.map(lambda many: many[5], sample(game, **options))


# The level: what is sampled, and where an episode starts.


@pytest.mark.parametrize("arena_size", [2, 3, 4, 5, 6])
@all_games
def test_every_tile_of_the_arena_may_be_the_start_and_no_other(game: str, arena_size: int) -> None:
    starts = {tuple(tile) for tile in sample(game, arena_size=arena_size).start_tile.tolist()}
    assert starts == {(column, row) for column in range(arena_size) for row in range(arena_size)}


@all_games
def test_only_the_free_act_only_game_offsets_the_start_by_minus_2_to_1_px_along_each_axis(game: str) -> None:
    offsets = {tuple(offset) for offset in sample(game).start_offset_px.tolist()}
    whole = {(x, y) for x in (-2, -1, 0, 1) for y in (-2, -1, 0, 1)}
    assert offsets == (whole if game == "mmb" else {(0, 0)})


@pytest.mark.parametrize(
    "field", ["command_count", "command_show_duration", "command_show_delay", "explosion_duration", "explosion_delay"]
)
@all_games
def test_each_number_with_a_list_is_one_of_the_list(game: str, field: str) -> None:
    if field not in jaxgym.spec_of(GAMES[game]).options:
        assert set(getattr(sample(game), field)) == {0}
        return
    values, counts = np.unique(getattr(sample(game, **{field: [1, 4, 7]}), field), return_counts=True)
    assert values.tolist() == [1, 4, 7]
    # 400 / 3 each, with a standard deviation of 9.4.
    assert np.abs(counts - 400 / 3).max() < 5 * 9.4


@pytest.mark.parametrize("allowed", [4, 5, 7, 9])
@pytest.mark.parametrize("arena_size", [2, 3, 6])
@all_games
def test_commands_are_the_first_allowed_ones_that_keep_the_commanded_tile_inside(
    game: str, arena_size: int, allowed: int
) -> None:
    levels = sample(game, arena_size=arena_size, allowed_commands=allowed)
    assert set(levels.commands.ravel()) == set(range(allowed))
    tiles = levels.start_tile[:, None] + np.cumsum(np.asarray(MOVES)[levels.commands], axis=1)
    assert tiles.min() == 0
    assert tiles.max() == arena_size - 1


@all_games
def test_slots_after_the_last_command_hold_none(game: str) -> None:
    levels = sample(game, command_count=[2, 5])
    beyond = np.arange(10) >= levels.command_count[:, None]
    assert np.array_equal(levels.commands == -1, beyond)


@pytest.mark.parametrize("arena_size", [2, 3, 4, 5, 6])
@all_games
def test_the_agent_starts_at_the_centre_of_its_tile_heading_up(game: str, arena_size: int) -> None:
    episode = play(game, make_level([STAY], start=(1, 0)), arena_size=arena_size)
    corner = {2: 28, 3: 21, 4: 14, 5: 7, 6: 0}[arena_size]
    assert episode.states.position_px[0].tolist() == [corner + 14 + 7, corner + 7]
    assert episode.states.heading[0] == 0


def test_the_offset_is_added_to_the_start() -> None:
    episode = play("mmb", make_level([STAY], offset=(-2, 1)))
    assert episode.states.position_px[0].tolist() == [42 - 2, 42 + 1]


@pytest.mark.parametrize("command", COMMANDS)
@all_games
def test_the_first_command_leads_from_the_start_to_the_first_target(game: str, command: int) -> None:
    episode = play(game, make_level([command]))
    assert episode.states.target_tile[0].tolist() == [2 + MOVES[command][0], 2 + MOVES[command][1]]


@all_games
def test_all_counters_start_at_zero(game: str) -> None:
    first = jax.tree.map(lambda many: many[0], play(game, make_level([UP])).states)
    counters = first.time, first.num_checks, first.command_steps, first.verify_step, first.episode_return
    assert not any((*counters, first.tiles_on, first.success, first.terminated))


# The clue phase: C = count · (shown + blank) frames.


@pytest.mark.parametrize(
    ("clue", "glyphs"),
    [
        ((3, 1), [RIGHT, RIGHT, RIGHT, BLANK, LEFT_UP, LEFT_UP, LEFT_UP, BLANK]),
        ((1, 2), [RIGHT, BLANK, BLANK, LEFT_UP, BLANK, BLANK]),
        ((2, 0), [RIGHT, RIGHT, LEFT_UP, LEFT_UP]),
        ((0, 2), [BLANK, BLANK, BLANK, BLANK]),
        ((1, 0), [RIGHT, LEFT_UP]),
    ],
)
@games_with_clues
def test_each_command_is_shown_then_blanks_and_after_c_frames_none(
    game: str, clue: tuple[int, int], glyphs: list[int]
) -> None:
    episode = play(game, make_level([RIGHT, LEFT_UP], clue=clue))
    assert episode.scenes.command[: len(glyphs) + 3].tolist() == [*glyphs, BLANK, BLANK, BLANK]


@games_with_clues
def test_before_step_c_the_action_is_ignored_and_no_counter_advances(game: str) -> None:
    # C = 2 · (3 + 1) = 8.
    episode = play(game, make_level([UP, UP], clue=(3, 1)), filling=GO_UP[game])
    frozen = jax.tree.map(lambda many: many[0], dataclasses.replace(episode.states, time=np.zeros(1)))
    for t in range(1, 8):
        after = jax.tree.map(lambda many, t=t: many[t], dataclasses.replace(episode.states, time=np.zeros(300)))
        chex.assert_trees_all_equal(frozen, after)
    assert not episode.rewards[:8].any()


@pytest.mark.parametrize("clue", [(3, 1), (1, 2), (2, 0), (0, 2), (1, 0)])
@games_with_clues
def test_the_first_action_that_counts_is_that_of_step_c(game: str, clue: tuple[int, int]) -> None:
    episode = play(game, make_level([UP, UP], clue=clue), filling=GO_UP[game])
    c = 2 * sum(clue)
    assert episode.states.position_px[c - 1].tolist() == [42, 42]
    assert episode.states.position_px[c].tolist() == [42, 42 - 14]


@pytest.mark.parametrize("action", [1, 2])
def test_a_grid_agent_does_not_turn_in_the_clue_phase(action: int) -> None:
    episode = play("mmg", make_level([UP], clue=(3, 1)), filling=action)
    assert not episode.states.heading[:4].any()
    assert episode.states.heading[4] != 0


@games_with_clues
def test_with_one_clue_frame_the_very_first_action_counts(game: str) -> None:
    episode = play(game, make_level([STAY], clue=(1, 0)), filling=GO_UP[game])
    assert episode.scenes.command[:2].tolist() == [STAY, BLANK]
    assert episode.states.position_px[1].tolist() == [42, 42 - 14]


@games_with_clues
def test_a_clue_phase_of_no_frames_is_skipped(game: str) -> None:
    episode = play(game, make_level([UP, UP], clue=(0, 0)), filling=GO_UP[game])
    assert (episode.scenes.command == BLANK).all()
    assert episode.states.position_px[1].tolist() == [42, 42 - 14]


@pytest.mark.parametrize("game", ACT_ONLY)
def test_the_act_only_games_have_no_clue_phase(game: str) -> None:
    assert not {"command_show_duration", "command_show_delay"} & set(jaxgym.spec_of(GAMES[game]).options)
    level = sample_one(game)
    episode = play(game, level, filling=GO_UP[game] if level.start_tile[1] else (0, 2))
    assert (episode.scenes.command == BLANK).all()
    assert episode.states.command_steps[1] == 1


# Step of the act phase, part 1: the agent moves, and its tile is found again.


@pytest.mark.parametrize("arena_size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("game", FREE)
def test_a_free_agent_of_radius_6_stays_6_px_inside_the_arena(game: str, arena_size: int) -> None:
    low, high = 42 - 7 * arena_size + 6, 42 + 7 * arena_size - 6
    state = make_state(make_level([STAY]))
    for action, corner in (((1, 1), [low, low]), ((2, 2), [high, high]), ((1, 2), [low, high])):
        stepped, *_ = step(game, state, action, arena_size=arena_size, agent_speed=84.0)
        assert stepped.position_px.tolist() == corner


def test_a_free_agent_that_starts_too_near_the_edge_is_moved_inside_by_a_null_action() -> None:
    episode = play("mmb", make_level([STAY], start=(0, 0), offset=(-2, -2)))
    assert episode.states.position_px[:3].tolist() == [[12, 12], [13, 13], [13, 13]]


@pytest.mark.parametrize(("scale", "radius"), [(0.1, 2), (0.5, 12)])
def test_the_radius_of_a_free_agent_is_25_times_its_scale(scale: float, radius: int) -> None:
    stepped, *_ = step("mm", make_state(make_level([STAY])), (2, 1), agent_scale=scale, agent_speed=84.0)
    assert stepped.position_px.tolist() == [77 - radius, 7 + radius]


@pytest.mark.parametrize("game", FREE)
def test_a_blocked_free_agent_turns_all_the_same(game: str) -> None:
    state = make_state(make_level([STAY]), position_px=(13, 13), heading=4)
    stepped, *_ = step(game, state, (1, 1))
    assert stepped.position_px.tolist() == [13, 13]
    assert stepped.heading == 1


@pytest.mark.parametrize("game", FREE)
def test_a_free_agent_keeps_its_heading_on_a_null_action(game: str) -> None:
    stepped, *_ = step(game, make_state(make_level([STAY]), heading=5), (0, 0))
    assert stepped.heading == 5
    assert stepped.position_px.tolist() == [42, 42]


@pytest.mark.parametrize(("speed", "straight", "diagonal"), [(2.5, 2, 1), (3.0, 3, 2), (4.0, 4, 2), (5.0, 5, 3)])
@pytest.mark.parametrize("game", FREE)
def test_a_free_agent_moves_by_its_speed_cut_to_whole_px(game: str, speed: float, straight: int, diagonal: int) -> None:
    state = make_state(make_level([STAY]))
    assert step(game, state, (2, 0), agent_speed=speed)[0].position_px.tolist() == [42 + straight, 42]
    assert step(game, state, (1, 2), agent_speed=speed)[0].position_px.tolist() == [42 - diagonal, 42 + diagonal]


def test_a_flat_action_is_3_times_horizontal_plus_vertical() -> None:
    state = make_state(make_level([STAY]))
    for flat in range(9):
        pair = divmod(flat, 3)
        assert step("mm", state, flat, flat_actions=True)[0].position_px.tolist() == (
            step("mm", state, pair)[0].position_px.tolist()
        )


@pytest.mark.parametrize(("heading", "tile"), [(0, (2, 1)), (2, (1, 2)), (4, (2, 3)), (6, (3, 2))])
@pytest.mark.parametrize("game", GRID)
def test_a_grid_agent_goes_one_tile_along_its_heading(game: str, heading: int, tile: tuple[int, int]) -> None:
    stepped, *_ = step(game, make_state(make_level([STAY]), heading=heading), FORWARD)
    assert stepped.position_px.tolist() == [7 + 14 * tile[0] + 7, 7 + 14 * tile[1] + 7]
    assert stepped.heading == heading


@pytest.mark.parametrize("arena_size", [2, 6])
@pytest.mark.parametrize("heading", [0, 2, 4, 6])
def test_a_grid_agent_at_the_edge_does_not_go_out(heading: int, arena_size: int) -> None:
    low, high = 42 - 7 * arena_size + 7, 42 + 7 * arena_size - 7
    position = (low, low) if heading in (0, 2) else (high, high)
    state = make_state(make_level([STAY]), position_px=position, heading=heading)
    assert step("mmg", state, FORWARD, arena_size=arena_size)[0].position_px.tolist() == list(position)


@pytest.mark.parametrize(("action", "headings"), [(1, [2, 4, 6, 0]), (2, [6, 4, 2, 0]), (0, [0, 0, 0, 0])])
@pytest.mark.parametrize("game", GRID)
def test_a_grid_agent_turns_left_counter_clockwise_and_right_clockwise(
    game: str, action: int, headings: list[int]
) -> None:
    episode = play(game, make_level([STAY]), filling=action)
    assert episode.states.heading[1:5].tolist() == headings
    assert (episode.states.position_px == 42).all()


@pytest.mark.parametrize(
    ("game", "action"),
    [("mmg", 4), ("mmg", -1), ("mm", (3, 3)), ("mm", (-1, 5))],
)
def test_an_action_outside_of_the_space_does_nothing(game: str, action: Any) -> None:
    stepped, *_ = step(game, make_state(make_level([STAY]), heading=2), action)
    assert stepped.position_px.tolist() == [42, 42]
    assert stepped.heading == 2


@pytest.mark.parametrize("action", [9, -1, -9, 100])
def test_a_flat_action_outside_of_the_space_does_nothing(action: int) -> None:
    stepped, *_ = step("mm", make_state(make_level([STAY]), heading=2), action, flat_actions=True)
    assert stepped.position_px.tolist() == [42, 42]
    assert stepped.heading == 2


# Part 2: the check.

TIMINGS = [(6, 2), (18, 6), (1, 1), (1, 4), (5, 1), (2, 2)]


@pytest.mark.parametrize("clue", [(0, 0), (1, 0), (2, 1)])
@pytest.mark.parametrize(("delay", "duration"), TIMINGS)
@all_games
def test_check_k_is_made_in_step_c_plus_d_plus_k_times_d_plus_e(
    game: str, delay: int, duration: int, clue: tuple[int, int]
) -> None:
    episode = play(game, make_level([STAY] * 3, clue=clue, delay=delay, duration=duration))
    c = max(1, 3 * sum(clue))
    checks = [c + delay + k * (delay + duration) for k in range(3)]
    assert np.flatnonzero(np.diff(episode.states.num_checks[: episode.end + 1])).tolist() == [t - 1 for t in checks]
    assert list(episode.rewarded) == checks
    assert episode.end == checks[-1]


@all_games
def test_no_check_is_due_in_the_first_step_of_a_command(game: str) -> None:
    state = make_state(make_level([UP, UP], delay=1), target_tile=(2, 1), command_steps=0)
    stepped, reward, terminated = step(game, state, nothing(game))
    assert (stepped.num_checks, stepped.command_steps, reward, terminated) == (0, 1, 0.0, False)


@all_games
def test_a_check_on_the_target_pays_the_success_reward_and_goes_on(game: str) -> None:
    state = make_state(make_level([STAY, STAY]), command_steps=6)
    stepped, reward, terminated = step(game, state, nothing(game), reward_command_success=0.7)
    assert (reward, terminated) == (pytest.approx(0.7), False)
    assert (stepped.num_checks, stepped.command_steps, stepped.verify_step, stepped.tiles_on) == (1, 1, 1, True)


@all_games
def test_a_check_off_the_target_pays_the_failure_reward_and_terminates(game: str) -> None:
    state = make_state(make_level([UP, UP]), target_tile=(2, 1), command_steps=6)
    stepped, reward, terminated = step(game, state, nothing(game), reward_command_failure=-0.4)
    assert (reward, terminated, stepped.success) == (pytest.approx(-0.4), True, False)


@pytest.mark.parametrize("tile", [(1, 2), (3, 2), (2, 1), (2, 3), (1, 1), (3, 3)])
@all_games
def test_a_check_next_to_the_target_fails_on_every_side(game: str, tile: tuple[int, int]) -> None:
    state = make_state(make_level([STAY, STAY]), target_tile=tile, command_steps=6)
    assert step(game, state, nothing(game))[2]


@all_games
def test_the_move_of_the_check_step_counts(game: str) -> None:
    # The first action that counts is step 1, and the check step 1 + 6: seven moves, the last of which is enough.
    level = make_level([UP, STAY])
    assert play(game, level, {7: GO_UP[game]}).rewarded == {7: 0.1, 15: 0.1}
    assert play(game, level, {8: GO_UP[game]}).end == 7


@all_games
def test_each_later_command_too_leaves_d_plus_1_moves(game: str) -> None:
    # Check 7, tiles off in step 9, next check 15: the moves 9 … 15 count, the first and the last included.
    level = make_level([STAY, UP])
    for t in (9, 15):
        assert play(game, level, {t: GO_UP[game]}).rewarded == {7: 0.1, 15: 0.1}
    assert play(game, level, {16: GO_UP[game]}).rewarded == {7: 0.1}


@all_games
def test_the_check_of_the_last_command_terminates_with_success_and_adds_the_episode_reward(game: str) -> None:
    episode = play(game, make_level([STAY] * 2), reward_command_success=0.25, reward_episode_success=2.0)
    assert episode.rewarded == {7: 0.25, 15: 2.25}
    assert episode.info["success"][[14, 15]].tolist() == [0, 1]
    assert episode.info["commands_completed"][15] == 1.0


@all_games
def test_failing_the_check_of_the_last_command_counts_as_success(game: str) -> None:
    episode = play(game, make_level([STAY, UP]), reward_command_failure=-0.5)
    assert episode.rewarded == {7: 0.1, 15: -0.5}
    assert episode.end == 15
    assert episode.info["success"][15] == 1
    assert episode.info["commands_completed"][15] == 1.0


@all_games
def test_with_one_command_every_episode_is_a_success(game: str) -> None:
    episode = play(game, make_level([UP]))
    assert (episode.end, episode.info["success"][7], episode.info["commands_completed"][7]) == (7, 1, 1.0)
    assert not episode.rewarded


@all_games
def test_failing_the_last_check_replaces_the_episode_reward_by_the_failure_reward(game: str) -> None:
    options = {"reward_command_failure": -0.5, "reward_episode_success": 3.0}
    assert play(game, make_level([STAY, UP]), **options).rewarded == {7: 0.1, 15: -0.5}


# Part 3: the explosion.


@pytest.mark.parametrize(("delay", "duration"), TIMINGS)
@all_games
def test_tiles_are_red_in_e_frames_from_the_check_on(game: str, delay: int, duration: int) -> None:
    episode = play(game, make_level([STAY] * 3, delay=delay, duration=duration))
    checks = [1 + delay + k * (delay + duration) for k in range(3)]
    # The episode ends with the last check, in a frame whose tiles are red.
    assert episode.red == [*range(checks[0], checks[0] + duration), *range(checks[1], checks[1] + duration), checks[2]]


@pytest.mark.parametrize(("delay", "duration"), [(6, 2), (3, 1), (2, 5), (18, 6)])
@all_games
def test_leaving_the_target_terminates_in_each_of_the_e_steps_from_the_check_on(
    game: str, delay: int, duration: int
) -> None:
    level = make_level([STAY] * 3, delay=delay, duration=duration)
    check = 1 + delay
    for t in range(check, check + duration):
        assert play(game, level, {t: GO_UP[game]}).end == t
    # One step later the tiles are off: it is only the next check that the agent fails.
    assert play(game, level, {check + duration: GO_UP[game]}).end == check + delay + duration


@all_games
def test_leaving_the_target_pays_the_failure_reward(game: str) -> None:
    episode = play(game, make_level([STAY] * 3), {8: GO_UP[game]}, reward_command_failure=-0.5)
    assert episode.rewarded == {7: 0.1, 8: -0.5}


@all_games
def test_leaving_the_target_counts_its_command_as_not_completed_although_it_was_rewarded(game: str) -> None:
    episode = play(game, make_level([STAY] * 4), {16: GO_UP[game]})
    assert episode.rewarded == {7: 0.1, 15: 0.1}
    assert episode.info["commands_completed"][15] == pytest.approx(2 / 4)
    assert (episode.end, episode.info["commands_completed"][16]) == (16, pytest.approx(1 / 4))
    assert episode.info["success"][16] == 0


@all_games
def test_when_the_tiles_go_off_the_next_command_leads_on_from_the_target(game: str) -> None:
    # Check 7, tiles off in step 9. The agent is to go from (2, 2) to (2, 1), then to (3, 2).
    episode = play(game, make_level([UP, RIGHT_DOWN, STAY]), {1: GO_UP[game]})
    assert episode.states.target_tile[[8, 9]].tolist() == [[2, 1], [3, 2]]
    assert episode.states.tiles_on[[6, 7, 8, 9]].tolist() == [False, True, True, False]
    assert episode.states.verify_step[[6, 7, 8, 9]].tolist() == [0, 1, 2, 0]
    assert episode.states.command_steps[[5, 6, 7, 8, 9, 10]].tolist() == [5, 6, 1, 1, 1, 2]


@all_games
def test_no_check_is_made_in_the_step_in_which_the_tiles_go_off(game: str) -> None:
    state = make_state(
        make_level([STAY, UP], delay=1, duration=1), num_checks=1, command_steps=1, verify_step=1, tiles_on=True
    )
    stepped, reward, terminated = step(game, state, nothing(game))
    assert (stepped.num_checks, stepped.tiles_on, reward, terminated) == (1, False, 0.0, False)


@all_games
def test_without_a_further_command_the_target_stays(game: str) -> None:
    state = make_state(make_level([UP]), num_checks=1, verify_step=2, tiles_on=True)
    assert step(game, state, nothing(game))[0].target_tile.tolist() == [2, 2]


# Lengths of default episodes.


@pytest.mark.parametrize(("game", "length"), [("mm", 274), ("mmg", 118), ("mmb", 235), ("mmbg", 79)])
def test_a_successful_episode_of_ten_commands_has_this_length(game: str, length: int) -> None:
    level = sample_one(game)
    level = dataclasses.replace(level, commands=np.full(10, STAY, np.int32))
    episode = play(game, level)
    assert episode.end == length
    assert episode.info["episode_length"][length] == length
    assert episode.info["episode_return"][length] == pytest.approx(1.0)
    assert episode.info["success"][length] == 1


@pytest.mark.parametrize(("game", "length"), [("mm", 58), ("mmg", 46), ("mmb", 19), ("mmbg", 7)])
def test_an_episode_whose_first_check_fails_has_this_length(game: str, length: int) -> None:
    level = sample_one(game)
    commands = np.full(10, STAY, np.int32)
    commands[0] = UP if level.start_tile[1] else DOWN
    episode = play(game, dataclasses.replace(level, commands=commands))
    assert (episode.end, episode.info["commands_completed"][length], episode.info["success"][length]) == (length, 0, 0)


# Info.


@all_games
def test_info_tells_reward_and_length_so_far_and_the_share_of_checks_passed(game: str) -> None:
    episode = play(game, make_level([STAY] * 4))
    assert episode.info["episode_length"][:32].tolist() == list(range(32))
    assert episode.info["episode_return"][[6, 7, 14, 15, 23, 31]] == pytest.approx([0, 0.1, 0.1, 0.2, 0.3, 0.4])
    assert episode.info["commands_completed"][[6, 7, 15, 23, 31]] == pytest.approx([0, 0.25, 0.5, 0.75, 1.0])
    assert episode.info["success"][:32].tolist() == [0] * 31 + [1]


@pytest.mark.parametrize("game", ["mm", "mmbg"])
def test_info_has_the_same_entries_on_every_step(game: str) -> None:
    env, params = make(game)
    entries = {"episode_return", "episode_length", "success", "commands_completed"}
    entries |= {"terminated", "truncated", "level_index", "final_observation"}
    clue = (1, 1) if game in WITH_CLUES else (0, 0)
    _, state = env.reset_to_level(jax.random.key(0), make_level([UP], clue=clue, delay=1), params)
    for t in range(1, 4):
        action = np.zeros(env.action_space(params).shape, np.int32)
        _, state, _, terminated, _, info = env.step(jax.random.key(t), state, action, params)
        assert info.keys() == entries
        assert {name: (np.shape(value), value.dtype) for name, value in info.items() if name in entries} == {
            "episode_return": ((), jnp.float32),
            "episode_length": ((), jnp.int32),
            "success": ((), jnp.int32),
            "commands_completed": ((), jnp.float32),
            "terminated": ((), jnp.bool_),
            "truncated": ((), jnp.bool_),
            "level_index": ((), jnp.int32),
            "final_observation": (env.observation_space(params).shape, jnp.float32),
        }
        if terminated:
            break
    assert terminated


# The time limit.


def steps_to_the_end(game: str, level: Level, max_steps: int) -> tuple[int, bool, bool, dict[str, Any], State]:
    """Play nothing to the end of the episode; return length, both flags, the last info and the state after it."""
    env, params = make(game, max_steps=max_steps)
    _, state = env.reset_to_level(jax.random.key(0), level, params)
    action = np.zeros(env.action_space(params).shape, np.int32)
    for t in range(1, 30):
        _, state, _, terminated, truncated, info = env.step(jax.random.key(t), state, action, params)
        if terminated or truncated:
            return t, bool(terminated), bool(truncated), info, state
    return t, False, False, info, state


@pytest.mark.parametrize("game", ["mm", "mmbg"])
def test_a_time_limit_truncates_and_does_not_terminate(game: str) -> None:
    *ending, info, state = steps_to_the_end(game, make_level([STAY] * 3), max_steps=9)
    assert ending == [9, False, True]
    assert (info["terminated"], info["truncated"], info["episode_length"], info["success"]) == (False, True, 9, 0)
    # Cut off after a check that was passed, that check counts.
    assert info["commands_completed"] == pytest.approx(1 / 3)
    assert state.time == 0
    assert not state.terminated


@pytest.mark.parametrize("game", ["mm", "mmbg"])
def test_a_time_limit_truncates_in_the_clue_phase_too(game: str) -> None:
    assert steps_to_the_end(game, make_level([STAY] * 3, clue=(3, 1)), max_steps=2)[:3] == (2, False, True)


@pytest.mark.parametrize("game", ["mm", "mmbg"])
def test_an_episode_that_ends_in_its_last_allowed_step_is_both_terminated_and_truncated(game: str) -> None:
    *ending, info, _ = steps_to_the_end(game, make_level([UP]), max_steps=7)
    assert ending == [7, True, True]
    assert (info["terminated"], info["truncated"]) == (True, True)


@pytest.mark.parametrize("max_steps", [8, 0])
@pytest.mark.parametrize("game", ["mm", "mmbg"])
def test_an_episode_that_ends_before_the_limit_or_without_one_is_terminated_only(game: str, max_steps: int) -> None:
    assert steps_to_the_end(game, make_level([UP]), max_steps=max_steps)[:3] == (7, True, False)


@all_games
def test_there_is_no_time_limit_by_default(game: str) -> None:
    assert make(game)[1].max_steps_in_episode == 0


# Options.

EFFECTS = {
    "agent_speed": 5.0,
    "arena_size": 4,
    "allowed_commands": 4,
    "command_count": [9],
    "command_show_duration": [2],
    "command_show_delay": [2],
    "explosion_duration": [3],
    "explosion_delay": [7],
    "visual_feedback": False,
    "reward_command_failure": -0.1,
    "reward_command_success": 0.2,
    "reward_episode_success": 1.0,
}
FIXING_SHAPES_OR_PROGRAMS = {"agent_scale", "max_commands", "observation", "flat_actions"}


def record(game: str, **options: Any) -> list[np.ndarray]:
    """Return all outputs of three episodes: of stays only, of a failure, of random moves."""
    env, params = make(game, **options)
    level = sample_one(game, **options)
    space = env.action_space(params)
    still = np.zeros((ROLLOUT_STEPS, *space.shape), np.int32)
    wander = np.asarray(jax.vmap(space.sample)(jax.random.split(jax.random.key(1), ROLLOUT_STEPS)))
    stay, up = (np.where(level.commands < 0, -1, np.int32(command)) for command in (STAY, UP))
    episodes = [(stay, still), (up, still), (level.commands, wander)]
    leaves = [level.commands]
    for commands, actions in episodes:
        (_, scene), rest = jax.device_get(roll(env, dataclasses.replace(level, commands=commands), actions, params))
        leaves += jax.tree.leaves((scene, rest[1:]))
    return leaves


@pytest.mark.parametrize("option", EFFECTS)
@all_games
def test_every_option_has_an_effect(game: str, option: str) -> None:
    if option not in jaxgym.spec_of(GAMES[game]).options:
        with pytest.raises(OptionError, match=f"expected an option, got '{option}'"):
            jaxgym.make(GAMES[game], **{option: EFFECTS[option]})
        return
    assert not all(map(np.array_equal, record(game), record(game, **{option: EFFECTS[option]})))


@all_games
def test_no_option_is_without_such_a_test(game: str) -> None:
    assert set(jaxgym.spec_of(GAMES[game]).options) <= set(EFFECTS) | FIXING_SHAPES_OR_PROGRAMS


@all_games
def test_without_visual_feedback_deadly_tiles_are_not_red_but_deadly(game: str) -> None:
    episode = play(game, make_level([STAY] * 2), {8: GO_UP[game]}, visual_feedback=False)
    assert episode.red == []
    assert episode.end == 8


@pytest.mark.parametrize("game", GRID)
def test_agent_scale_has_no_effect_in_the_grid_games(game: str) -> None:
    small, usual = (jaxgym.make(GAMES[game], agent_scale=scale)[0] for scale in (0.1, 0.25))
    assert small == usual


@pytest.mark.parametrize("game", FREE)
def test_agent_scale_makes_another_free_game(game: str) -> None:
    small, usual = (jaxgym.make(GAMES[game], agent_scale=scale)[0] for scale in (0.1, 0.25))
    assert small != usual


@all_games
def test_max_commands_is_at_least_ten_and_at_least_the_longest_count_unless_given(game: str) -> None:
    def slots(**options: Any) -> int:
        env, params = jaxgym.make(GAMES[game], **options)
        return jax.eval_shape(env.sample_level, jax.random.key(0), params).commands.shape[0]

    assert slots(command_count=[3]) == 10
    assert slots(command_count=[12, 15]) == 15
    assert slots(command_count=[3], max_commands=3) == 3
    with pytest.raises(
        OptionError, match=r"command_count: expected counts up to max_commands=4, got \[3, 5\]\. Set max_commands=5"
    ):
        jaxgym.make(GAMES[game], command_count=[3, 5], max_commands=4)


@pytest.mark.parametrize("game", ACT_ONLY)
def test_the_act_only_games_take_at_most_20_commands(game: str) -> None:
    jaxgym.make(GAMES[game], command_count=[20])
    with pytest.raises(
        OptionError, match=r"command_count: expected a list of 1 to 8 integers from 1 to 20, .*got \[21\]"
    ):
        jaxgym.make(GAMES[game], command_count=[21])


@pytest.mark.parametrize("option", ["explosion_duration", "explosion_delay"])
@all_games
def test_the_explosion_takes_no_zero(game: str, option: str) -> None:
    with pytest.raises(
        OptionError, match=rf"{option}: expected a list of 1 to 8 integers from 1 to 1000000, .*got \[0\]"
    ):
        jaxgym.make(GAMES[game], **{option: [0]})


@pytest.mark.parametrize("option", ["command_show_duration", "command_show_delay"])
@games_with_clues
def test_clues_and_blanks_may_last_zero_frames(game: str, option: str) -> None:
    assert getattr(sample_one(game, **{option: [0]}), option) == 0


# Spaces.


def test_a_free_action_is_two_numbers_and_a_grid_action_one() -> None:
    spaces = {game: make(game)[0].action_space() for game in GAMES}
    assert spaces["mm"].nvec == spaces["mmb"].nvec == (3, 3)
    assert spaces["mmg"].n == spaces["mmbg"].n == 4
    assert jaxgym.make(GAMES["mm"], flat_actions=True)[0].action_space().n == 9


@pytest.mark.parametrize("game", WITH_CLUES)
def test_the_games_with_clues_show_a_picture(game: str) -> None:
    space = jaxgym.make(GAMES[game])[0].observation_space()
    assert (space.shape, space.dtype) == ((84, 84, 3), jnp.uint8)


@pytest.mark.parametrize("game", ACT_ONLY)
def test_the_act_only_games_show_a_picture_and_a_vector(game: str) -> None:
    spaces = jaxgym.make(GAMES[game])[0].observation_space().spaces
    assert {name: (space.shape, space.dtype) for name, space in spaces.items()} == {
        "visual_observation": ((84, 84, 3), jnp.uint8),
        "vector_observation": ((180,), jnp.float32),
    }
