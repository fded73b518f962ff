"""Text interfaces of the Memory Gym games: texts show what a frame shows, and no more."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from jaxgym import levels, spec_of, text
from jaxgym.envs.memory_gym.arena import GridAction
from jaxgym.envs.mortar_mayhem import scene as mortar
from jaxgym.envs.mortar_mayhem.commands import COMMAND_MOVES, COMMANDS, NO_COMMAND
from jaxgym.envs.mystery_path import endless_scene as endless_path
from jaxgym.envs.mystery_path import scene as path
from jaxgym.envs.searing_spotlights import scene as spotlights
from jaxgym.errors import OptionError
from jaxgym.text.turns import InvalidReply, ParsedAction, Turn, Turns

NICKS = {
    "mortar_mayhem": {},
    "mortar_mayhem_grid": {},
    "mortar_mayhem_b": {},
    "mortar_mayhem_b_grid": {},
    "endless_mortar_mayhem": {},
    "mystery_path": {"levels": "fresh"},
    "mystery_path_grid": {"levels": "fresh"},
    "endless_mystery_path": {},
    "searing_spotlights": {},
    "endless_searing_spotlights": {},
}
# Options with which random play sees the most of each game, in few steps.
SEEN = {
    "mortar_mayhem_grid": {"command_count": [2], "explosion_delay": [2], "arena_size": 2, "command_show_delay": [0, 2]},
    "mortar_mayhem": {"command_count": [1], "explosion_delay": [1], "agent_scale": 0.8, "arena_size": 2},
    "mortar_mayhem_b_grid": {"command_count": [1, 2], "explosion_delay": [2], "arena_size": 2},
    "endless_mortar_mayhem": {"explosion_delay": [1], "explosion_duration": [1], "agent_speed": 20.0},
    "mystery_path": {"show_origin": True, "show_goal": True, "agent_speed": 9.0, "levels": 3},
    "mystery_path_grid": {"show_goal": True, "levels": 3},
    "endless_mystery_path": {"show_background": True, "show_stamina": True, "levels": 3, "agent_speed": 6.0},
}
EPISODES, STEPS = 24, 24
NUM_SCENES = 512


class Seen(NamedTuple):
    """Frames of random play, uint8 (N, …), their scenes with leading axis N, and their texts."""

    frames: list[bytes]
    scenes: Any
    interface: text.TextInterface[Any]
    params: Any
    texts: list[str]


def played(nick: str, options: dict[str, Any]) -> Seen:
    env, params, interface = text.make(nick, **options)

    space = env.action_space(params)
    start = jax.jit(jax.vmap(lambda key: env.reset_env(key, params)[1]))

    @jax.jit
    @jax.vmap
    def step(key_action: jax.Array, key_step: jax.Array, state: Any) -> tuple[Any, Any, Any]:
        frame, state, *_ = env.step(key_step, state, space.sample(key_action), params)
        return state, frame, env.scene(state, params)

    key, key_start = jax.random.split(jax.random.key(5))
    state, steps = start(jax.random.split(key_start, EPISODES)), list[Any]()
    for keys in jax.random.split(key, (STEPS, 2, EPISODES)):
        state, *moment = step(*keys, state)
        steps.append(jax.tree.map(np.asarray, moment))
    shown, scenes = jax.tree.map(lambda *leaves: np.concatenate(leaves), *steps)
    leaves = jax.tree.leaves(shown)
    frames = [b"".join(leaf[row].tobytes() for leaf in leaves) for row in range(EPISODES * STEPS)]
    return Seen(frames, scenes, interface, params, interface.open_all(scenes, params))


def check_that_frames_and_words_go_together(frames: list[bytes], texts: list[str]) -> None:
    pairs = set(zip(frames, texts, strict=True))
    assert len(pairs) == len(set(frames)) == len(set(texts))
    assert 5 < len(pairs) < len(frames)


@pytest.mark.slow
@pytest.mark.parametrize(("nick", "options"), SEEN.items())
def test_frames_of_random_play_and_words_go_together(nick: str, options: dict[str, Any]) -> None:
    seen = played(nick, options)
    check_that_frames_and_words_go_together(seen.frames, seen.texts)


def mortar_scenes(env: Any, chance: np.random.Generator) -> mortar.Scene:
    """Return scenes of Mortar Mayhem with few positions and tiles, so that some are equal."""
    is_endless, is_grid = not hasattr(env, "grid"), getattr(env, "grid", False)
    size = np.full(NUM_SCENES, 6) if is_endless else chance.choice([4, 5], NUM_SCENES)
    corner = 42 - 7 * size[:, None]
    if is_grid:
        places = corner + 7 + 14 * chance.integers(0, size[:, None], (NUM_SCENES, 2))
    else:
        places = np.where(is_endless, chance.choice([-3, -2, 40, 85], (NUM_SCENES, 2)), 42 + chance.integers(-3, 3))
    is_red = chance.random(NUM_SCENES) < 0.5
    is_blank, commands = is_red & (not is_endless), None
    if getattr(env, "act_only", False):
        is_blank[:] = True
        commands = np.full((NUM_SCENES, 20), -1, np.int32)
        commands[:, 0] = chance.integers(0, 9, NUM_SCENES)
    return mortar.Scene(
        arena_size=size.astype(np.int32),
        agent_position_px=places.astype(np.int32),
        agent_heading=chance.choice([0, 2, 4] if is_grid else range(8), NUM_SCENES).astype(np.int32),
        command=np.where(is_blank, NO_COMMAND, chance.choice([0, 4, 9], NUM_SCENES)).astype(np.int32),
        safe_tile=np.where(is_red[:, None], chance.integers(0, 2, (NUM_SCENES, 2)), -1).astype(np.int32),
        commands=commands,
    )


def path_scenes(env: Any, chance: np.random.Generator) -> path.Scene:
    """Return scenes of Mystery Path."""
    # The start is on one side, the goal on the other.
    columns = np.broadcast_to(np.reshape([0, 6], (2, 1)), (2, NUM_SCENES))
    ends = np.stack([columns, chance.integers(0, 2, (2, NUM_SCENES))], axis=-1)
    ends = np.where(chance.random((2, NUM_SCENES, 1)) < 0.5, -1, ends)
    places = chance.choice([6, 18] if env.grid else [6, 7, 41, 78], (NUM_SCENES, 2))
    return path.Scene(
        agent_position_px=places.astype(np.int32),
        agent_heading=chance.choice([0, 2] if env.grid else range(8), NUM_SCENES).astype(np.int32),
        has_cross=chance.random(NUM_SCENES) < 0.3,
        origin_tile=ends[0].astype(np.int32),
        goal_tile=ends[1].astype(np.int32),
    )


def endless_path_scenes(env: Any, chance: np.random.Generator) -> endless_path.EndlessMysteryPathScene:
    """Return scenes of Endless Mystery Path with the default camera."""
    del env
    moved = chance.choice([0, 3, 6, 9], NUM_SCENES)
    y = chance.choice([6, 42, 90], NUM_SCENES)
    columns = np.zeros((NUM_SCENES, 9), np.int32)
    for column in (4, 5):
        columns[:, column] = chance.choice([0, 1, 6], NUM_SCENES)
    return endless_path.EndlessMysteryPathScene(
        agent_px=np.stack([np.full(NUM_SCENES, 66), y], axis=1).astype(np.int32),
        agent_heading=chance.choice([0, 4, 6], NUM_SCENES).astype(np.int32),
        cross_x_px=np.full(NUM_SCENES, 66, np.int32),
        has_cross=(chance.random(NUM_SCENES) < 0.3) & (y != 6),  # 6 is the row of a path tile
        path_columns=columns,
        path_left_px=(12 * np.arange(9)[None] - moved[:, None]).astype(np.int32),
        background_px=np.where(chance.random(NUM_SCENES) < 0.5, moved, -1).astype(np.int32),
        lost_stamina_px=chance.choice([-1, 0, 20], NUM_SCENES).astype(np.int32),
    )


@pytest.mark.parametrize(
    ("nick", "options", "make_scenes"),
    [
        ("mortar_mayhem", {"agent_scale": 0.6}, mortar_scenes),
        ("mortar_mayhem_b_grid", {}, mortar_scenes),
        ("endless_mortar_mayhem", {}, mortar_scenes),
        ("mystery_path", {"levels": "fresh"}, path_scenes),
        ("mystery_path_grid", {"levels": "fresh"}, path_scenes),
        pytest.param("endless_mystery_path", {}, endless_path_scenes, marks=pytest.mark.slow),
    ],
)
def test_equal_frames_have_equal_words_and_different_ones_different(
    nick: str, options: dict[str, Any], make_scenes: Callable[[Any, np.random.Generator], Any]
) -> None:
    env, params, interface = text.make(nick, **options)
    scenes = make_scenes(env, np.random.default_rng(3))
    shown = jax.tree.leaves(jax.jit(jax.vmap(env.observe_scene))(scenes))
    leaves = [np.asarray(leaf) for leaf in shown]
    frames = [b"".join(leaf[row].tobytes() for leaf in leaves) for row in range(NUM_SCENES)]
    check_that_frames_and_words_go_together(frames, interface.open_all(scenes, params))


class Game(NamedTuple):
    """An environment, its text interface, and an initial scene."""

    env: Any
    params: Any
    interface: text.TextInterface[Any]
    scene: Any


@pytest.fixture(scope="module")
def get_game() -> Callable[[str], Game]:
    games = dict[str, Game]()

    def get(nick: str) -> Game:
        if nick not in games:
            env, params, interface = text.make(nick, **NICKS[nick])

            def start(key: jax.Array) -> Any:
                return env.scene(env.initial_state(env.sample_level(key, params), params), params)

            scene = jax.eval_shape(start, jax.random.key(0))
            scene = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), scene)
            games[nick] = Game(env, params, interface, scene)
        return games[nick]

    return get


@pytest.mark.parametrize("nick", NICKS)
def test_every_id_has_words_whose_instructions_show_the_form_of_a_reply(
    nick: str, get_game: Callable[[str], Game]
) -> None:
    _, params, interface, _ = get_game(nick)
    assert text.text_envs()[nick] == interface.env_id
    said = interface.system_prompt(params)
    examples = re.findall(r"<action>.*?</action>", said)
    assert examples
    for example in examples:
        move = interface.parse(example)
        assert isinstance(move, ParsedAction)
        assert move.is_exact
    assert str(int(params.max_steps_in_episode)) in said or int(params.max_steps_in_episode) <= 0
    assert interface.parse(f"<action>{interface.fallback().text}</action>") == interface.fallback()


@pytest.mark.parametrize(
    ("nick", "options", "sentence"),
    [
        (
            "mortar_mayhem_b_grid",
            {"reward_command_failure": -0.5, "reward_episode_success": 2.0},
            "Reward: 0.1 for each target tile reached in time; -0.5 for a failed command; 2 more for the last command.",
        ),
        (
            "mystery_path_grid",
            {"levels": "fresh", "reward_fall_off": -0.25, "reward_step": -0.125},
            "Reward: 1 for reaching the goal; -0.25 for each fall; -0.125 for each step.",
        ),
        ("endless_mystery_path", {"reward_path_progress": 0.0}, "Reward: 0 for every step."),
        (
            "searing_spotlights",
            {"use_exit": False, "reward_death": -1.0, "reward_inside_spotlight": -0.01},
            "Reward: 0.25 for each coin; -0.01 for each step in which a spotlight touches you; "
            "-1 for losing all health.",
        ),
    ],
)
def test_the_prompt_states_every_reward_that_is_not_0(nick: str, options: dict[str, Any], sentence: str) -> None:
    _, params, interface = text.make(nick, **options)
    assert sentence in interface.system_prompt(params).splitlines()


def test_the_number_of_moves_in_a_turn_is_an_option() -> None:
    interface = text.make("mortar_mayhem_grid", actions_per_turn=3)[2]
    assert isinstance(interface.parse("<action>forward 3</action>"), ParsedAction)
    assert isinstance(interface.parse("<action>forward 4</action>"), InvalidReply)
    with pytest.raises(OptionError, match="actions_per_turn"):
        text.make("mortar_mayhem_grid", actions_per_turn=0)


def test_mortar_mayhem_says_one_command_at_a_time(get_game: Callable[[str], Game]) -> None:
    _, params, interface, scene = get_game("mortar_mayhem_grid")
    scene = dataclasses.replace(
        scene, arena_size=np.int32(5), agent_position_px=np.int32([28, 42]), safe_tile=np.int32([-1, -1])
    )
    for index, name in enumerate(COMMANDS):
        said = interface.describe(dataclasses.replace(scene, command=np.int32(index)), params)
        assert said == f"Command shown: {name}\nYou: row 3, column 2, facing up\nArena: 5 x 5 tiles. Red tiles: none"
    scene = dataclasses.replace(scene, command=np.int32(NO_COMMAND), safe_tile=np.int32([4, 0]))
    assert interface.describe(scene, params).splitlines() == [
        "Command shown: none",
        "You: row 3, column 2, facing up",
        "Arena: 5 x 5 tiles. Red tiles: all except row 1, column 5",
    ]


@pytest.mark.parametrize("duration", [1, 3])
def test_the_numbers_of_actions_in_the_prompt_of_mortar_mayhem_are_exact(duration: int) -> None:
    options = {"command_count": [2], "explosion_delay": [3], "explosion_duration": [duration]}
    env, params, interface = text.make("mortar_mayhem_grid", observation="symbolic", **options)
    prompt = interface.system_prompt(params)
    idle = int(re.search(r"So the first (\d+) actions have no effect", prompt)[1])
    allowed = int(re.search(r"You have (\d+) actions to reach each target", prompt)[1])
    stay = re.search(r"for (\d+) more actions\.", prompt)
    expert, step = jax.jit(spec_of(env.env_id).expert, static_argnums=0), jax.jit(env.step_env)

    def act(state: Any, action: Any) -> tuple[Any, float, bool]:
        _, state, reward, terminated, _ = step(jax.random.key(0), state, np.int32(action), params)
        return state, float(reward), bool(terminated)

    def plan(state: Any, target: Any) -> list[int]:
        state, actions = dataclasses.replace(state, target_tile=target), list[int]()
        while action := int(expert(env, state, params)):
            actions.append(action)
            state = env.move(state, np.int32(action), params)
        return actions

    rewards, ends = list[float](), list[bool]()
    state = env.initial_state(levels.level_from_seed(env, 3, params), params)
    begin = state.position_px.tolist()
    for _ in range(idle):
        state, *_ = act(state, GridAction.FORWARD)
    assert state.position_px.tolist() == begin
    first = state.target_tile
    second = first + np.asarray(COMMAND_MOVES)[int(state.level.commands[1])]
    # Reach the first target with the last action, and leave it with the first one.
    for is_late, target in ((True, first), (False, second)):
        way = plan(state, target)
        waits = [int(GridAction.NOTHING)] * (allowed - len(way))
        for action in [*waits, *way] if is_late else [*way, *waits]:
            state, reward, has_ended = act(state, action)
            rewards.append(reward)
            ends.append(has_ended)
        if is_late:
            for _ in range(int(stay[1]) if stay else 0):
                state, reward, _ = act(state, GridAction.NOTHING)
                assert reward == 0
    assert [index for index, reward in enumerate(rewards, 1) if reward] == [allowed, 2 * allowed]
    assert [index for index, has_ended in enumerate(ends, 1) if has_ended] == [2 * allowed]


def test_the_prompt_of_mortar_mayhem_limits_the_actions_of_a_reply_that_would_hide_a_command() -> None:
    _, params, interface = text.make("mortar_mayhem")
    assert "In phase 1, give at most 3 actions in a reply." in interface.system_prompt(params)
    _, params, interface = text.make("mortar_mayhem_grid")
    assert "In phase 1, give at most" not in interface.system_prompt(params)


def test_what_a_large_agent_hides_is_not_said(get_game: Callable[[str], Game]) -> None:
    _, params, interface = text.make("mortar_mayhem", agent_scale=1.0)
    scene = dataclasses.replace(
        get_game("mortar_mayhem_grid").scene,
        arena_size=np.int32(5),
        agent_position_px=np.int32([42, 42]),
        safe_tile=np.int32([2, 2]),
        command=np.int32(NO_COMMAND),
    )
    assert "all visible tiles" in interface.describe(scene, params)


@pytest.mark.parametrize("nick", ["searing_spotlights", "endless_searing_spotlights"])
def test_what_lies_in_the_dark_is_not_said(nick: str, get_game: Callable[[str], Game]) -> None:
    env, params, interface, scene = get_game(nick)
    scene = dataclasses.replace(
        scene,
        agent_position_px=np.int32([20, 20]),
        coins_px=np.full_like(scene.coins_px, 60),
        has_coin=np.ones_like(scene.has_coin),
        exit_px=np.int32([20, 60]),
        exit_kind=np.int32(spotlights.EXIT_CLOSED if nick == "searing_spotlights" else spotlights.NO_EXIT),
        shown_action=np.int32([0, 2]),
        shown_reward=np.int32(1),
        lost_health_px=np.int32(2),
    )
    has_exit = scene.exit_kind != spotlights.NO_EXIT
    said = interface.describe(scene, params)
    assert "You: x 20, y 20, facing up" in said
    assert "Coin: x 60, y 60" in said
    assert ("Exit: x 20, y 60 (closed)" in said) == has_exit
    assert "Health bar: 40 of 42 px are green; previous action down; previous reward positive" in said

    dark = dataclasses.replace(scene, alpha=np.int32(255))
    elsewhere = dataclasses.replace(dark, coins_px=dark.coins_px - 25, exit_px=np.int32([70, 30]))
    draw = jax.jit(env.observe_scene)
    assert (np.asarray(draw(dark)) == np.asarray(draw(elsewhere))).all()
    said = interface.describe(dark, params)
    assert said == interface.describe(elsewhere, params)
    assert not any(name in said for name in ("Coin", "Exit", "You: x", "Blue"))
    assert "\n0 0 0 0 0 0 0" * 7 in said

    def lit(radius: int) -> str:
        spot = {"spots_px": np.full_like(dark.spots_px, 60), "is_lit": np.arange(len(dark.is_lit)) == 0}
        radii = np.full_like(dark.spots_radius_px, radius)
        return interface.describe(dataclasses.replace(dark, spots_radius_px=radii, **spot), params)

    assert "Coin" not in lit(2)
    assert "\n0 0 0 0 0 0 0" * 7 not in lit(9)
    assert "Coin: x 60, y 60" in lit(9)


@pytest.mark.slow
def test_spotlights_words_follow_from_the_frame() -> None:
    options = {"light_dim_off_duration": 2, "levels": 2, "agent_health": 2.0, "num_coins": [2], "spot_damage": 0.2}
    seen = played("searing_spotlights", options)
    pairs = set(zip(seen.frames, seen.texts, strict=True))
    assert len(pairs) == len(set(seen.frames))
    assert len(set(seen.texts)) > len(pairs) / 2


def test_a_response_says_what_was_understood_and_how_it_ended(get_game: Callable[[str], Game]) -> None:
    _, params, interface, scene = get_game("mystery_path_grid")
    scene = dataclasses.replace(scene, agent_position_px=np.int32([18, 42]))
    seen = interface.describe(scene, params)
    move = interface.parse("<action>turn left</action>")
    turns = [
        Turn(1, move, scene, 0.0, False, False),
        Turn(2, interface.parse("jump"), scene, 0.0, False, False),
        Turn(3, move, scene, 1.0, True, True),
        Turn(4, move, scene, 0.0, False, True),
    ]
    texts = [interface.respond(turn, params) for turn in turns]
    assert texts[0] == f"You chose: turn left.\n{seen}"
    assert texts[1].startswith("Invalid reply: expected one of")
    assert texts[1].endswith(f"\n{seen}")
    assert texts[2].endswith("You have reached the goal. The episode has ended. The reward of this turn is 1.")
    assert texts[3].endswith("The episode has ended: a limit on steps or turns was reached.")
    columns = Turns(
        [turn.number for turn in turns],
        [turn.action for turn in turns],
        jax.tree.map(lambda leaf: np.stack([leaf] * len(turns)), scene),
        np.asarray([turn.reward for turn in turns], np.float32),
        np.asarray([turn.terminated for turn in turns]),
        np.asarray([turn.truncated for turn in turns]),
    )
    assert interface.respond_all(columns, params) == texts


def test_the_words_of_many_scenes_are_those_of_each(get_game: Callable[[str], Game]) -> None:
    _, params, interface, scene = get_game("mystery_path_grid")
    scenes = jax.tree.map(lambda leaf: np.stack([leaf] * 75), scene)
    positions = np.stack([6 + 12 * (np.arange(75) % 7), 6 + 12 * (np.arange(75) // 7 % 7)], axis=1).astype(np.int32)
    scenes = dataclasses.replace(scenes, agent_position_px=positions)
    said = interface.open_all(scenes, params)
    for row in (0, 63, 64, 71, 72, 74):
        assert said[row] == interface.describe(jax.tree.map(lambda leaf, row=row: leaf[row], scenes), params)


def test_words_are_values(get_game: Callable[[str], Game]) -> None:
    interface = get_game("mystery_path_grid").interface
    again = text.make("mystery_path_grid", levels="fresh")[2]
    assert interface == again
    assert hash(interface) == hash(again)
    assert interface != text.make("mystery_path_grid", levels="fresh", actions_per_turn=2)[2]
