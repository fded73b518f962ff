"""Replay of BossFight."""

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jaxgym
from jaxgym.envs.boss_fight import original
from jaxgym.envs.boss_fight.game import BossFight
from jaxgym.envs.boss_fight.things import BulletKind
from tests.parity.classics.recordings import Episode, Played, equal, equal_rewards, original_level, replay

KINDS = {BulletKind.SHOT: 1, BulletKind.BULLET: 4, BulletKind.REFLECTED: 6}
"""Numbers of the kinds in the recordings."""

TRAIL, BLAST = 5, 54
FADE, SPIN = np.float32(0.7), np.float32(np.pi) / np.float32(8)
FIRST_BLASTS = 54
GENERATOR_SIZE = 624


def powers(factor: np.float32, count: int) -> np.ndarray:
    """Return 1, factor, factor², …, each product rounded to float32."""
    return np.cumprod(np.asarray([1, *[factor] * (count - 1)], np.float32), dtype=np.float32)


def sums(part: np.float32, count: int) -> np.ndarray:
    """Return 0, part, part + part, …, each sum rounded to float32."""
    return np.cumsum(np.asarray([0, *[part] * (count - 1)], np.float32), dtype=np.float32)


def segments(episode: Episode) -> Iterator[tuple[int, slice]]:
    """Return level seed and steps of each level of an episode, in which one level can follow another.

    After the last step, a level that has just begun has no steps.
    """
    has_ended = episode["first"] | episode["complete"]
    bounds = [0, *(np.flatnonzero(has_ended) + 1).tolist(), len(has_ended)]
    seeds = [int(episode["seeds"][0, 0]), *episode["seeds"][has_ended, 1].tolist()]
    for number, (seed, (start, end)) in enumerate(zip(seeds, itertools.pairwise(bounds), strict=True)):
        assert number == 0 or start == end or seed == episode["seeds"][start, 0]
        if start < end or (start == len(has_ended) and number > 0):
            yield seed, slice(start, end)


def check(episode: Episode) -> None:
    """Compare the levels and the steps of an episode."""
    options = episode.meta["options"]
    mode, restrict = episode.meta["distribution_mode"], bool(options.get("restrict_themes", False))
    env, params = jaxgym.make(
        "BossFight-v0",
        observation="symbolic",
        distribution_mode=mode,
        restrict_themes=restrict,
        max_given_steps=original.LONGEST,
    )
    assert isinstance(env, BossFight)
    for number, (seed, steps) in enumerate(segments(episode)):
        level = original_level("BossFight-v0", seed, distribution_mode=mode, restrict_themes=restrict)
        if number == 0:
            equal(seed, episode.meta.get("level_seed", seed), "level seed")
            check_level(episode, level)
        states: Any = jax.tree.map(lambda leaf: np.asarray(leaf)[None], env.initial_state(level, params))
        if steps.start < steps.stop:
            played = replay(env, params, level, episode["action"][steps])
            states = played.states
            check_results(episode, played, steps)
        check_states(episode, states, steps, env)
        check_generator(episode, seed, level, steps)


def check_level(episode: Episode, level: Any) -> None:
    """Compare the level."""
    found = [
        level.num_rounds,
        level.round_health,
        level.closed_legs,
        level.background,
        level.ship_theme,
        level.boss_theme,
        level.shot_theme,
        level.bullet_theme,
    ]
    equal(found, episode["params"], "parameters of the level")
    modes = np.where(np.arange(len(level.attack_modes)) < level.num_rounds, level.attack_modes, -1)
    equal(modes, episode["attack_modes"], "attack modes")
    equal(level.background_offset, episode["bg_pct_x"], "offset of the background")
    equal(level.num_meteors, episode["n_barriers"], "number of meteors")
    equal(level.meteors, episode["barriers"][:, :2], "meteors")
    equal(level.meteor_themes, episode["barriers"][:, 4], "themes of meteors")


def check_results(episode: Episode, played: Played, steps: slice) -> None:
    """Compare rewards, victories and ends."""
    has_ended = episode["first"][steps] | episode["complete"][steps]
    equal_rewards(played.rewards, episode["reward"][steps])
    equal(played.info["success"], episode["complete"][steps], "victory")
    equal(played.terminated | played.truncated, has_ended, "end")


def check_states(episode: Episode, states: Any, steps: slice, env: BossFight) -> None:
    """Compare all states of a level, but not the last one of a level that ended: the next level was recorded there."""
    last = episode["first"][steps][-1:] | episode["complete"][steps][-1:]
    num_states = steps.stop - steps.start + 1 - int(last.any())
    rows = slice(steps.start, steps.start + num_states)
    states = jax.tree.map(lambda leaf: leaf[:num_states], states)
    boss, level = states.boss, states.level
    sizes = jax.device_get(jax.vmap(env.sizes)(level))
    equal(np.concatenate([states.place, states.velocity, sizes.ship], axis=1), episode["agent"][rows], "agent")
    found = np.concatenate([boss.place, boss.velocity, sizes.boss, boss.health[:, None].astype(np.float32)], axis=1)
    equal(found, episode["boss"][rows], "boss")
    found = np.concatenate([boss.place, sizes.shield], axis=1)
    equal(found, episode["shield"][rows], "shield")
    words = np.array(jax.vmap(env.words)(level, jnp.asarray(states.time)))
    words[0] = 0
    shares = (words[:, 1:] / 2**32).astype(np.float32)
    ints = [
        states.time,
        boss.swap_timer,
        boss.leg_timer,
        boss.round,
        level.attack_modes[np.arange(num_states), boss.round % level.num_rounds],
        boss.hurt_until,
        states.last_fire,
        boss.has_shield,
        words[:, 0] % 1_000_000,
    ]
    first = int(steps.start > 0)  # random numbers in the first row of a later level are those of the level before
    equal(np.stack(ints[:-1], axis=1), episode["ints"][rows][:, :-1], "counters")
    equal(ints[-1][first:], episode["ints"][rows][first:, -1], "integer of the step")
    equal(shares[first:], episode["rands"][rows][first:], "random numbers")
    equal(states.share[first:], episode["rands"][rows][first:, 0], "random number of reflections")
    check_bullets(episode, states, rows)
    check_trails(episode, states, rows)


def in_order(states: Any, row: int) -> np.ndarray:
    """Return the slots of the bullets of a state, the oldest first."""
    slots = (states.bullets.next_slot[row] + np.arange(states.bullets.kind.shape[1])) % states.bullets.kind.shape[1]
    return slots[states.bullets.kind[row, slots] != BulletKind.NONE]


def check_bullets(episode: Episode, states: Any, rows: slice) -> None:
    """Compare all bullets."""
    bullets, level = states.bullets, states.level
    counts = episode["n_dyn"]
    starts = np.cumsum(counts) - counts
    numbers = np.zeros(max(KINDS) + 1, np.int64)
    numbers[list(KINDS)] = list(KINDS.values())
    found_reals, found_ints = [], []
    for row in range(rows.stop - rows.start):
        slots = in_order(states, row)
        kinds = bullets.kind[row, slots]
        themes = np.where(kinds == BulletKind.BULLET, level.bullet_theme[row], level.shot_theme[row])
        found_reals.append(np.stack([getattr(bullets, name)[row, slots] for name in ("x", "y", "vx", "vy")], axis=1))
        found_ints.append(np.stack([numbers[kinds], bullets.age[row, slots], themes], axis=1))
    equal([len(each) for each in found_ints], counts[rows], "number of bullets")
    span = slice(starts[rows.start], starts[rows.stop - 1] + counts[rows.stop - 1])
    equal(np.concatenate(found_ints), episode["dyn_i"][span], "kinds, ages and themes of bullets")
    equal(np.concatenate(found_reals), episode["dyn_f"][span], "places and velocities of bullets")


def check_trails(episode: Episode, states: Any, rows: slice) -> None:
    """Compare all trails and blasts of the states in which they were recorded, and their number in all states."""
    trails, blasts = states.trails, states.blasts
    num_others = 1 + 2 + states.level.num_meteors  # the ship, the boss and its shield
    num_trails, num_blasts = trails.is_there.sum(axis=(1, 2)), blasts.is_there.sum(axis=(1, 2))
    num_bullets = (states.bullets.kind != BulletKind.NONE).sum(axis=1)
    counts = np.stack([num_others + num_bullets + num_trails + num_blasts, num_trails, num_blasts], axis=1)
    equal(counts, episode["n_all"][rows], "numbers of things")
    place = 0
    for time, count in zip(episode["rgb_t"].tolist(), episode["full_n"].tolist(), strict=True):
        span = slice(place, place + count)
        place += count
        if rows.start <= time < rows.stop:
            reals, ints = trails_and_blasts(states, time - rows.start)
            equal(ints, episode["full_i"][span], "kinds and ages of trails and blasts")
            equal(reals, episode["full_f"][span], "trails and blasts")


def trails_and_blasts(states: Any, row: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of all trails and blasts in the order of their appearance.

    Of those of one step, blasts come first. The turns of trails and the opacity of both follow from their ages.
    """
    trails, blasts, level = states.trails, states.blasts, states.level
    fading, turns = powers(FADE, trails.x.shape[1]), sums(SPIN, 100)
    half, reals, ints = np.float32(0.5), [], []
    for age in reversed(range(trails.x.shape[1])):
        for index in range(blasts.x.shape[2] if age < blasts.x.shape[1] else 0):
            if blasts.is_there[row, age, index]:
                radius = blasts.radius[row, age, index]
                numbers = [getattr(blasts, name)[row, age, index] for name in ("x", "y", "vx", "vy")]
                reals.append([*numbers, radius, radius, np.float32(0), np.float32(1)])
                ints.append([BLAST, FIRST_BLASTS + age, age, 0])
        size = trails.x.shape[2]
        newest_first = (states.bullets.next_slot[row - age] - 1 - np.arange(size)) % size if row >= age else []
        for slot in newest_first:
            if trails.is_there[row, age, slot]:
                turn = turns[states.bullets.age[row - age, slot] + age]
                numbers = [getattr(trails, name)[row, age, slot] for name in ("x", "y", "vx", "vy")]
                reals.append([*numbers, half, half, turn, fading[age]])
                ints.append([TRAIL, KINDS[BulletKind.BULLET], age, level.bullet_theme[row]])
    return np.asarray(reals, np.float32).reshape(-1, 8), np.asarray(ints, np.int64).reshape(-1, 4)


def check_generator(episode: Episode, seed: int, level: Any, steps: slice) -> None:
    """Compare the place and the state of the generator at the end of the blocks of random words."""
    draws = original.Words(seed)
    words = level.words.reshape(-1)
    has_next = episode["first"][steps][-1:] | episode["complete"][steps][-1:]
    expected = episode["rng"][steps.start : steps.stop + 1 - int(has_next.any())]
    weights = np.asarray([pow(31, GENERATOR_SIZE - 1 - index, 2**32) for index in range(GENERATOR_SIZE)], np.uint64)
    drawn: list[int] = []
    while not np.array_equal(drawn[-16:], words[:16]):
        drawn.append(int(draws.words(1)[0]))
    draws = original.Words(seed)
    draws.words(len(drawn) - 16)
    for row in expected:
        _, key, place, _, _ = draws.generator.get_state()
        state = int((key.astype(np.uint64) * weights % 2**32).sum() % 2**32)
        equal([place, state], row, "generator")
        equal(draws.words(original.WORDS_PER_STEP), words[: original.WORDS_PER_STEP], "random words")
        words = words[original.WORDS_PER_STEP :]
