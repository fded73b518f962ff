"""The Memory Gym games in words: they say what a frame shows, and no more."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from jaxgym import text
from jaxgym.envs.memory import searing_spotlights_scene as spotlights
from jaxgym.envs.memory.commands import COMMANDS, NO_COMMAND
from jaxgym.errors import OptionError
from jaxgym.text.words import Move, Refusal, Turn, Turns

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


class Seen(NamedTuple):
    """Frames of random play, uint8 (N, …), their scenes with leading axis N, and the words of these."""

    frames: list[bytes]
    scenes: Any
    words: text.Words[Any]
    params: Any
    texts: list[str]


def played(nick: str, options: dict[str, Any]) -> Seen:
    env, params, words = text.make(nick, **options)

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
    return Seen(frames, scenes, words, params, words.open_all(scenes, params))


@pytest.mark.parametrize(("nick", "options"), SEEN.items())
def test_equal_frames_have_equal_words_and_different_ones_different(nick: str, options: dict[str, Any]) -> None:
    seen = played(nick, options)
    pairs = set(zip(seen.frames, seen.texts, strict=True))
    assert len(pairs) == len(set(seen.frames)) == len(set(seen.texts))
    assert 5 < len(pairs) < len(seen.frames)
    row = jax.tree.map(lambda leaf: leaf[7], seen.scenes)
    assert seen.words.describe(row, seen.params) == seen.texts[7]


class Game(NamedTuple):
    """An environment in words, and a scene of its start."""

    env: Any
    params: Any
    words: text.Words[Any]
    scene: Any


@pytest.fixture(scope="module")
def get_game() -> Callable[[str], Game]:
    games = dict[str, Game]()

    def get(nick: str) -> Game:
        if nick not in games:
            env, params, words = text.make(nick, **NICKS[nick])

            def start(key: jax.Array) -> Any:
                return env.scene(env.initial_state(env.sample_level(key, params), params), params)

            scene = jax.eval_shape(start, jax.random.key(0))
            scene = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), scene)
            games[nick] = Game(env, params, words, scene)
        return games[nick]

    return get


@pytest.mark.parametrize("nick", NICKS)
def test_every_id_has_words_whose_instructions_show_the_form_of_a_reply(
    nick: str, get_game: Callable[[str], Game]
) -> None:
    _, params, words, _ = get_game(nick)
    assert text.text_envs()[nick] == words.env_id
    said = words.instructions(params)
    examples = re.findall(r"<action>.*?</action>", said)
    assert examples
    for example in examples:
        move = words.parse(example)
        assert isinstance(move, Move)
        assert move.is_exact
    assert str(int(params.max_steps_in_episode)) in said or int(params.max_steps_in_episode) <= 0
    assert words.parse(f"<action>{words.fallback().text}</action>") == words.fallback()


def test_the_number_of_moves_in_a_turn_is_an_option() -> None:
    words = text.make("mortar_mayhem_grid", moves_per_turn=3)[2]
    assert isinstance(words.parse("<action>forward 3</action>"), Move)
    assert isinstance(words.parse("<action>forward 4</action>"), Refusal)
    with pytest.raises(OptionError, match="moves_per_turn"):
        text.make("mortar_mayhem_grid", moves_per_turn=0)


def test_mortar_mayhem_says_one_command_at_a_time(get_game: Callable[[str], Game]) -> None:
    _, params, words, scene = get_game("mortar_mayhem_grid")
    scene = dataclasses.replace(
        scene, arena_size=np.int32(5), agent_position_px=np.int32([28, 42]), safe_tile=np.int32([-1, -1])
    )
    for index, name in enumerate(COMMANDS):
        said = words.describe(dataclasses.replace(scene, command=np.int32(index)), params)
        assert said == f"Command shown: {name}\nYou: row 3, column 2, facing up\nTiles (5 x 5): none is red"
    scene = dataclasses.replace(scene, command=np.int32(NO_COMMAND), safe_tile=np.int32([4, 0]))
    assert words.describe(scene, params) == (
        "Command shown: none\nYou: row 3, column 2, facing up\nTiles (5 x 5): all but row 1, column 5 are red"
    )


def test_what_a_large_agent_hides_is_not_said(get_game: Callable[[str], Game]) -> None:
    _, params, words = text.make("mortar_mayhem", agent_scale=1.0)
    scene = dataclasses.replace(
        get_game("mortar_mayhem_grid").scene,
        arena_size=np.int32(5),
        agent_position_px=np.int32([42, 42]),
        safe_tile=np.int32([2, 2]),
        command=np.int32(NO_COMMAND),
    )
    assert "all that can be seen are red" in words.describe(scene, params)


@pytest.mark.parametrize("nick", ["searing_spotlights", "endless_searing_spotlights"])
def test_what_lies_in_the_dark_is_not_said(nick: str, get_game: Callable[[str], Game]) -> None:
    env, params, words, scene = get_game(nick)
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
    said = words.describe(scene, params)
    assert "You: x 20, y 20, facing up" in said
    assert "Coin: x 60, y 60" in said
    assert ("Exit: x 20, y 60 (closed)" in said) == has_exit
    assert "Health bar: 40 of 42 px are green; action stay, down; reward positive" in said

    dark = dataclasses.replace(scene, alpha=np.int32(255))
    elsewhere = dataclasses.replace(dark, coins_px=dark.coins_px - 25, exit_px=np.int32([70, 30]))
    draw = jax.jit(env.observe_scene)
    assert (np.asarray(draw(dark)) == np.asarray(draw(elsewhere))).all()
    said = words.describe(dark, params)
    assert said == words.describe(elsewhere, params)
    assert not any(name in said for name in ("Coin", "Exit", "You: x", "Blue"))
    assert "\n0 0 0 0 0 0 0" * 7 in said

    def lit(radius: int) -> str:
        spot = {"spots_px": np.full_like(dark.spots_px, 60), "is_lit": np.arange(len(dark.is_lit)) == 0}
        radii = np.full_like(dark.spots_radius_px, radius)
        return words.describe(dataclasses.replace(dark, spots_radius_px=radii, **spot), params)

    assert "Coin" not in lit(2)
    assert "\n0 0 0 0 0 0 0" * 7 not in lit(9)
    assert "Coin: x 60, y 60" in lit(9)


def test_spotlights_words_follow_from_the_frame() -> None:
    options = {"light_dim_off_duration": 2, "levels": 2, "agent_health": 2.0, "num_coins": [2], "spot_damage": 0.2}
    seen = played("searing_spotlights", options)
    pairs = set(zip(seen.frames, seen.texts, strict=True))
    assert len(pairs) == len(set(seen.frames))
    assert len(set(seen.texts)) > len(pairs) / 2


def test_a_response_says_what_was_understood_and_how_it_ended(get_game: Callable[[str], Game]) -> None:
    _, params, words, scene = get_game("mystery_path_grid")
    scene = dataclasses.replace(scene, agent_position_px=np.int32([18, 42]))
    seen = words.describe(scene, params)
    move = words.parse("<action>turn left</action>")
    turns = [
        Turn(1, move, scene, 0.0, False, False),
        Turn(2, words.parse("jump"), scene, 0.0, False, False),
        Turn(3, move, scene, 1.0, True, True),
        Turn(4, move, scene, 0.0, False, True),
    ]
    texts = [words.respond(turn, params) for turn in turns]
    assert texts[0] == f"You chose: turn left.\n{seen}"
    assert texts[1].startswith('"jump" is no action')
    assert texts[1].endswith(f"\n{seen}")
    assert texts[2].endswith("You have reached the goal. The episode has ended. The reward of this turn is 1.")
    assert texts[3].endswith("A limit has cut the episode off.")
    columns = Turns(
        [turn.number for turn in turns],
        [turn.move for turn in turns],
        jax.tree.map(lambda leaf: np.stack([leaf] * len(turns)), scene),
        np.asarray([turn.reward for turn in turns], np.float32),
        np.asarray([turn.terminated for turn in turns]),
        np.asarray([turn.truncated for turn in turns]),
    )
    assert words.respond_all(columns, params) == texts


def test_the_words_of_many_scenes_are_those_of_each(get_game: Callable[[str], Game]) -> None:
    _, params, words, scene = get_game("mystery_path_grid")
    scenes = jax.tree.map(lambda leaf: np.stack([leaf] * 75), scene)
    positions = np.stack([6 + 12 * (np.arange(75) % 7), 6 + 12 * (np.arange(75) // 7 % 7)], axis=1).astype(np.int32)
    scenes = dataclasses.replace(scenes, agent_position_px=positions)
    said = words.open_all(scenes, params)
    for row in (0, 63, 64, 71, 72, 74):
        assert said[row] == words.describe(jax.tree.map(lambda leaf, row=row: leaf[row], scenes), params)


def test_words_are_values(get_game: Callable[[str], Game]) -> None:
    words = get_game("mystery_path_grid").words
    again = text.make("mystery_path_grid", levels="fresh")[2]
    assert words == again
    assert hash(words) == hash(again)
    assert words != text.make("mystery_path_grid", levels="fresh", moves_per_turn=2)[2]
