"""Rules of BossFight. The boss is at (10, 10) in a world of 20 × 20; one step of many states is made at once."""

import dataclasses
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxgym
from jaxgym import levels, text
from jaxgym.envs.boss_fight import exact, original
from jaxgym.envs.boss_fight.collisions import WIN_REWARD
from jaxgym.envs.boss_fight.game import DRAG, FIRE, INERTIA, PUSH, STAY
from jaxgym.envs.boss_fight.level import Mode
from jaxgym.envs.boss_fight.text import MOVES
from jaxgym.envs.boss_fight.things import BulletKind
from jaxgym.human.keys import ship_action
from jaxgym.wrappers import SpotlightPerturbation

LEFT, RIGHT = 1, 7
TIME = 7
"""Number of the step, in which no mode of attack fires."""

METEOR = (4.0, 4.0)


def made(**options: Any) -> tuple[Any, Any]:
    return jaxgym.make("BossFight-v0", observation="symbolic", distribution_mode="easy", **options)


def start(env: Any, params: Any) -> Any:
    """Return the first state of a level with two rounds of two hits, the ship at x 10, and one meteor."""
    made = original.level(0, "easy", max_given_steps=1)
    meteors = np.asarray([METEOR, (0, 0), (0, 0)], np.float32)
    given = dataclasses.replace(
        made,
        num_rounds=np.int32(2),
        round_health=np.int32(2),
        attack_modes=np.full(5, int(Mode.FAN), np.int32),
        start_x=np.float32(10),
        meteors=meteors,
        num_meteors=np.int32(1),
    )
    return dataclasses.replace(env.initial_state(jax.tree.map(jnp.asarray, given), params), time=jnp.int32(TIME))


def with_bullets(state: Any, *bullets: tuple[BulletKind, float, float, float, float], open_boss: bool = True) -> Any:
    """Return the state with bullets (kind, x, y, vx, vy), the oldest first."""
    stored = state.bullets
    for slot, (kind, *numbers) in enumerate(bullets):
        fields = dict(zip(("x", "y", "vx", "vy"), numbers, strict=True))
        stored = dataclasses.replace(
            stored,
            kind=stored.kind.at[slot].set(int(kind)),
            **{name: getattr(stored, name).at[slot].set(value) for name, value in fields.items()},
        )
    stored = dataclasses.replace(stored, next_slot=jnp.int32(len(bullets)))
    boss = dataclasses.replace(state.boss, has_shield=jnp.bool_(not open_boss))
    return dataclasses.replace(state, bullets=stored, boss=boss)


def with_health(state: Any, health: int) -> Any:
    return dataclasses.replace(state, boss=dataclasses.replace(state.boss, health=jnp.int32(health)))


@pytest.fixture(scope="module")
def after() -> dict[str, Any]:
    """Make one step of each state; return states and results by name, on the host."""
    env, params = made()
    first = start(env, params)
    shot, lower = (BulletKind.SHOT, 10.0, 6.5, 0.0, 1.0), (BulletKind.SHOT, 10.0, 6.2, 0.0, 1.0)
    on_ship = BulletKind.BULLET, 10.0, 1.5, 0.0, -0.5
    cases = {
        "hit": (with_bullets(first, shot), STAY),
        "round": (with_health(with_bullets(first, shot), 3), STAY),
        "win": (with_health(with_bullets(first, shot), 1), STAY),
        "closed": (with_bullets(first, shot, open_boss=False), STAY),
        "two": (with_health(with_bullets(first, lower, shot), 3), STAY),
        "both": (with_bullets(first, lower, shot), STAY),
        "dead": (with_bullets(first, on_ship), STAY),
        "dead in victory": (with_health(with_bullets(first, shot, on_ship), 1), STAY),
        "meteor": (
            with_bullets(first, (BulletKind.BULLET, *METEOR, 0.1, 0.0), (BulletKind.REFLECTED, *METEOR, 0.1, 0.0)),
            STAY,
        ),
        "gone": (
            with_bullets(first, (BulletKind.BULLET, -0.4, 9.0, -0.2, 0.0), (BulletKind.BULLET, -0.4, 9.0, -0.05, 0.0)),
            STAY,
        ),
        "fire": (first, FIRE),
        "fire soon": (dataclasses.replace(first, last_fire=jnp.int32(TIME - 2)), FIRE),
        "edge": (dataclasses.replace(first, place=jnp.asarray([19.2, 1.0]), velocity=jnp.asarray([0.6, 0.0])), RIGHT),
        "fan": (dataclasses.replace(first, time=jnp.int32(8)), STAY),
        "unknown": (first, -1),
    }
    states = jax.tree.map(lambda *leaves: jnp.stack(leaves), *(state for state, _ in cases.values()))
    step = jax.jit(jax.vmap(partial(env.transition, params=params)))
    results = jax.device_get(step(states, jnp.asarray([action for _, action in cases.values()], jnp.int32)))
    return {name: jax.tree.map(lambda leaf, row=row: leaf[row], results) for row, name in enumerate(cases)}


def kinds(made: Any) -> list[int]:
    return made.state.bullets.kind[:2].tolist()


def test_a_shot_hits_the_open_boss_and_leaves_a_blast(after: dict[str, Any]) -> None:
    made = after["hit"]
    assert (made.reward, made.state.boss.health, made.state.boss.round) == (0, 3, 0)
    assert kinds(made)[0] == BulletKind.NONE
    assert made.state.blasts.is_there[0].sum() == 1
    assert (made.state.blasts.x[0, 0], made.state.blasts.y[0, 0]) == (10, 7.5)


def test_the_last_hit_of_a_round_closes_the_shield(after: dict[str, Any]) -> None:
    made = after["round"]
    boss = made.state.boss
    assert (made.reward, boss.health, boss.round, bool(boss.has_shield)) == (1, 2, 1, True)
    assert (boss.leg_timer, boss.hurt_until) == (39, TIME + 40)
    assert not made.terminated


def test_the_last_hit_wins(after: dict[str, Any]) -> None:
    made = after["win"]
    assert (made.reward, bool(made.terminated), made.metrics["success"], made.metrics["rounds_won"]) == (11, True, 1, 1)


def test_the_closed_shield_reflects_a_shot(after: dict[str, Any]) -> None:
    made = after["closed"]
    assert (made.reward, made.state.boss.health) == (0, 4)
    assert kinds(made)[0] == BulletKind.REFLECTED
    assert made.state.bullets.vy[0] < 0  # the random number of the step before is 0: down and left
    assert made.state.bullets.vx[0] == pytest.approx(made.state.bullets.vy[0], abs=1e-6)


def test_the_newest_shot_hits_first_and_the_shield_reflects_the_other(after: dict[str, Any]) -> None:
    made = after["two"]
    assert (made.reward, made.state.boss.health) == (1, 2)
    assert kinds(made) == [BulletKind.REFLECTED, BulletKind.NONE]
    assert (after["both"].reward, after["both"].state.boss.health) == (1, 2)


def test_a_touched_ship_ends_the_episode_and_other_rewards_count(after: dict[str, Any]) -> None:
    assert (bool(after["dead"].terminated), after["dead"].metrics["success"]) == (True, 0)
    made = after["dead in victory"]
    assert (made.reward, bool(made.terminated), made.metrics["success"]) == (11, True, 1)


def test_a_meteor_stops_bullets_but_no_reflected_shots(after: dict[str, Any]) -> None:
    assert kinds(after["meteor"]) == [BulletKind.NONE, BulletKind.REFLECTED]


def test_a_bullet_that_is_wholly_outside_of_the_world_is_gone(after: dict[str, Any]) -> None:
    assert kinds(after["gone"]) == [BulletKind.NONE, BulletKind.BULLET]


def test_the_ship_fires_every_third_step(after: dict[str, Any]) -> None:
    assert kinds(after["fire"])[0] == BulletKind.SHOT
    assert after["fire"].state.last_fire == TIME
    assert kinds(after["fire soon"])[0] == BulletKind.NONE


def test_the_edge_stops_the_ship(after: dict[str, Any]) -> None:
    state = after["edge"].state
    assert state.place[0] == np.float32(19.25)
    assert 0 <= state.velocity[0] < 0.6525  # all of 0.9 · (0.6 / 2 + 0.425) without the edge
    assert after["unknown"].state.place.tolist() == after["hit"].state.place.tolist()


def test_the_fan_has_five_bullets_every_eighth_step(after: dict[str, Any]) -> None:
    bullets = after["fan"].state.bullets
    assert bullets.kind[:6].tolist() == [BulletKind.BULLET] * 5 + [BulletKind.NONE]
    assert bullets.vx[:5] == pytest.approx([-0.3535534, -0.1913417, 0, 0.1913417, 0.3535534], abs=1e-6)
    assert after["hit"].state.bullets.kind[1:].sum() in (0, BulletKind.BULLET)  # the open boss fires at most one


@pytest.mark.parametrize(
    ("pressed", "name"),
    [
        ((), "wait"),
        (("up", "d"), "up-right"),
        (("left", "right"), "wait"),
        (("space",), "fire"),
        (("space", "s"), "down"),
    ],
)
def test_held_keys_move_the_ship_or_fire(pressed: tuple[str, ...], name: str) -> None:
    assert ship_action(pressed) == MOVES[name]


def test_every_action_has_a_reply_with_its_effect() -> None:
    env, params, interface = text.make("boss_fight", observation="symbolic")
    for action in range(env.action_space(params).n):
        parsed = interface.parse(interface.reply_of(action))
        assert isinstance(parsed, text.ParsedAction)
        assert parsed.actions == (action if action <= FIRE else STAY,)


def test_numbers_round_as_in_c() -> None:
    generator = np.random.default_rng(0)
    speeds = (generator.uniform(-0.7, 0.7, 4096) * 2.0 ** generator.integers(-148, 1, 4096)).astype(np.float32)
    push = np.where(generator.random(4096) < 0.5, 0, PUSH).astype(np.float32)
    expected = (DRAG * (INERTIA * speeds + push).astype(np.float64)).astype(np.float32)
    found = jax.jit(partial(exact.slowed, inertia=INERTIA, drag=DRAG))(speeds, push)
    assert np.array_equal(np.asarray(found).view(np.int32), expected.view(np.int32))
    angles = generator.uniform(0, 13, 4096).astype(np.float32)
    found = jax.jit(partial(exact.velocity, speed=0.75))(angles)
    wide = angles.astype(np.float64)
    assert np.array_equal(found, np.stack([0.75 * np.cos(wide), 0.75 * np.sin(wide)]).astype(np.float32))

    def sums(values: jax.Array) -> jax.Array:
        return exact.kept(exact.times(values, 14.0) + 3) + 6

    expected = (angles * np.float32(14) + np.float32(3)) + np.float32(6)
    assert np.array_equal(jax.jit(sums)(angles), expected)


@pytest.mark.slow
def test_sampled_levels_are_distributed_like_those_of_the_original() -> None:
    env, params = made()
    sampled = jax.device_get(levels.make_level_buffer(env, params, levels.train_seeds(2000)))
    assert all(flags.all() for flags in jaxgym.spec_of("BossFight-v0").valid_levels(env, sampled, params).values())
    drawn = original.levels(range(2000), "easy", max_given_steps=1)
    for name in ("num_rounds", "round_health", "closed_legs", "num_meteors", "boss_theme", "ship_theme", "background"):
        counts = [np.bincount(getattr(each, name), minlength=13) for each in (sampled, drawn)]
        assert np.abs(counts[0] - counts[1]).max() < 160, name  # five deviations of a difference of counts of 1000
    bins = np.linspace(0, 20, 9)
    for values in (lambda each: each.start_x, lambda each: each.meteors[:, 0, 0], lambda each: each.meteors[:, 0, 1]):
        counts = [np.histogram(values(each), bins)[0] for each in (sampled, drawn)]
        assert np.abs(counts[0] - counts[1]).max() < 160
    near = np.abs(sampled.meteors[:, 0] - np.stack([sampled.start_x, np.full(2000, 0.57)], axis=1))
    assert not (near < [1.35, 0.9]).all(axis=1).any()


def test_words_are_those_of_the_level_and_then_follow_from_its_seed() -> None:
    env, params = made(max_given_steps=3)
    given = jax.tree.map(jnp.asarray, original.level(5, "easy", max_given_steps=3))
    words = jax.jit(jax.vmap(env.words, (None, 0)))
    times = jnp.arange(1, 7, dtype=jnp.int32)
    listed = np.asarray(words(given, times))
    assert np.array_equal(listed[:3], given.words)
    assert len(set(listed.reshape(-1).tolist())) == listed.size
    state = dataclasses.replace(env.initial_state(given, params), time=jnp.int32(1))
    reseeded = np.asarray(words(env.reseed(state, jax.random.key(1)).level, times))
    assert np.array_equal(reseeded[:1], listed[:1])
    assert not (reseeded[1:] == listed[1:]).any()


@pytest.mark.slow
def test_spotlights_over_the_frames_wait_outside_of_them_at_first() -> None:
    env, params = jaxgym.make("BossFight-v0")
    for fades, is_dark in ((6, False), (0, True)):
        covered, outer = SpotlightPerturbation.of(env, params, initial_spawns=4, light_dim_off_duration=fades)
        made = levels.level_from_seed(covered, 3, outer)
        plain, _ = env.reset_to_level(jax.random.key(0), made.inner, params)
        seen, _ = covered.reset_to_level(jax.random.key(0), made, outer)
        assert np.array_equal(seen, np.zeros_like(plain) if is_dark else plain)


NUMBER = r"(-?[\d.]+)"
BOX = re.compile(rf"(You|Boss|Meteor): x {NUMBER}, y {NUMBER}, {NUMBER} wide, {NUMBER} high")
BULLET = re.compile(rf"Bullet: x {NUMBER}, y {NUMBER}, velocity {NUMBER} in x, {NUMBER} in y")
STEPS_AHEAD = 12


def choice(said: str, speed: np.ndarray, *, may_fire: bool) -> str:
    """Return the name of an action: away from what comes, else below the boss, to fire."""
    boxes = [(name, np.asarray(numbers, float)) for name, *numbers in BOX.findall(said)]
    (ship,), (boss,) = ([box for name, box in boxes if name == wanted] for wanted in ("You", "Boss"))
    others = [(box[:2], np.zeros(2), box[2:] / 2) for name, box in boxes if name != "You"]
    others += [(np.asarray(b[:2], float), np.asarray(b[2:], float), np.full(2, 0.5)) for b in BULLET.findall(said)]
    places, velocities, halves = (np.stack(part) for part in zip(*others, strict=True))
    scores, safe_steps = dict[str, float](), dict[str, int]()
    for name, push in {"wait": (0, 0), "left": (-1, 0), "right": (1, 0), "up": (0, 1), "down": (0, -1)}.items():
        for hold in (2, 6):
            place, now, safe = ship[:2].copy(), speed.copy(), STEPS_AHEAD
            for step in range(STEPS_AHEAD):
                now = 0.9 * (now / 2 + 0.425 * np.asarray(push) * (step < hold))
                place = np.clip(place + now, ship[2:] / 2, 20 - ship[2:] / 2)
                apart = np.abs(places + velocities * (step + 1) - place)
                if (apart < halves + ship[2:] / 2 + 0.15).all(axis=1).any():
                    safe = step
                    break
            score = 100 * safe - abs(place[0] - boss[0]) - place[1] / 2
            if score > scores.get(name, -np.inf):
                scores[name], safe_steps[name] = score, safe
    best = max(scores, key=scores.__getitem__)
    is_aimed = abs(ship[0] - boss[0]) < 2.5 and safe_steps["wait"] >= safe_steps[best]
    return "fire" if is_aimed and may_fire and "Shield: open" in said else best


@pytest.mark.slow
def test_a_player_that_reads_only_the_texts_wins() -> None:
    env, params, interface = text.make("boss_fight", observation="symbolic", distribution_mode="easy")
    step, scene = jax.jit(env.step_env), jax.jit(env.scene)
    rewards = []
    for seed in (3, 4):  # four rounds of five hits, and one round of one hit
        _, state = env.reset_to_level(jax.random.key(0), levels.level_from_seed(env, seed, params), params)
        is_over, time, last_fire, total, before = False, 0, -3, 0.0, None
        while not is_over and time < 400:
            said = interface.describe(jax.device_get(scene(state, params)), params)
            place = np.asarray(BOX.search(said).groups()[1:3], float)
            speed = np.zeros(2) if before is None else place - before
            name = choice(said, speed, may_fire=time - last_fire >= 3)
            last_fire, before = time if name == "fire" else last_fire, place
            reply = interface.parse(f"<action>{name}</action>")
            assert isinstance(reply, text.ParsedAction)
            _, state, reward, is_over, _ = step(jax.random.key(0), state, jnp.int32(reply.actions[0]), params)
            total, time = total + float(reward), time + 1
        rewards.append(total)
    assert min(rewards) >= 1
    assert max(rewards) >= WIN_REWARD
