"""Rules of Memory Cards, with two pairs: the cards are 1 2 2 1."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.memory_cards.game import Level

CARDS = (1, 2, 2, 1)


def play(actions: list[int], draws: tuple[int, ...], observation: str = "symbolic") -> tuple[list[Any], ...]:
    """Return T + 1 observations, and rewards and ends of T steps."""
    env, params = jaxgym.make("MemoryCards-v0", num_pairs=2, num_draws=len(draws), observation=observation)
    level = Level(jnp.asarray(CARDS, jnp.int32), jnp.asarray(draws, jnp.int32))
    seen, state = env.reset_to_level(jax.random.key(0), level, params)
    step = jax.jit(env.step_env)
    observations, rewards, ends = [np.asarray(seen).tolist()], [], []
    for action in actions:
        seen, state, reward, terminated, _ = step(jax.random.key(0), state, jnp.int32(action), params)
        observations.append(np.asarray(seen).tolist())
        rewards.append(float(reward))
        ends.append(bool(terminated))
    return observations, rewards, ends


def test_a_pair_is_removed_and_all_else_costs_one() -> None:
    # Shown: card 0, then 1 three times; draws of removed cards are skipped.
    seen, rewards, ends = play([3, 1, 0, 7, 2], (0, 3, 1, 0, 1, 2, 1))
    assert seen == [[1, 0, 0, 0], [3, 2, 0, 3], [3, 2, 0, 3], [3, 0, 2, 3], [3, 2, 0, 3], [3, 3, 3, 3]]
    assert (rewards, ends) == ([0, -1, -1, -1, 0], [False] * 4 + [True])


def test_the_draws_repeat_and_a_card_of_the_table_takes_their_place() -> None:
    seen, _, _ = play([1, 1, 1], (3, 0))
    assert seen == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]]
    seen, rewards, _ = play([3, 2], (0, 3))
    assert seen == [[1, 0, 0, 0], [3, 2, 0, 3], [3, 3, 3, 3]]
    assert rewards == [0, 0]


def test_every_face_looks_different() -> None:
    env, params = jaxgym.make("MemoryCards-v0", num_pairs=32)
    draw = jax.jit(env.observe_scene)
    state = env.initial_state(env.sample_level(jax.random.key(0), params), params)
    scene = env.scene(state, params)
    frames = {
        np.asarray(draw(dataclasses.replace(scene, faces=scene.faces.at[5].set(face)))).tobytes() for face in range(34)
    }
    assert len(frames) == 34


def test_a_player_that_reads_only_the_texts_and_remembers_them_finds_all_pairs() -> None:
    env, params, interface = text.make("memory_cards", observation="symbolic")
    step = jax.jit(env.step_env)
    _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, 7, params), params)
    known, is_over, length, info = dict[int, int](), False, 0, {}
    while not is_over:
        said = interface.describe(jax.tree.map(np.asarray, env.scene(state, params)), params)
        words = said.splitlines()[-1].replace(".", "").split()
        place, number = int(words[4]), int(words[-1])
        known[place] = number
        faces = [word for line in said.splitlines()[:-1] for word in line.split(":")[1].split()]
        partners = [other for other, seen in known.items() if seen == number and other != place]
        unseen = [other for other, face in enumerate(faces, start=1) if face == "?" and other not in known]
        reply = interface.parse(f"<action>{(partners or unseen or [1])[0]}</action>")
        assert isinstance(reply, text.ParsedAction)
        _, state, reward, is_over, info = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
        assert reward == 0 or not partners
        length += 1
    assert (int(info["success"]), int(info["pairs_found"])) == (1, 5)
    assert length < 40
