"""BossFight: dodge the bullets of a boss, and shoot when its shield is down.

The boss flies in legs of 21 steps to random places. After some legs, its shield opens. Enough hits win a round; then
the shield closes, and the boss continues with another attack. Meteors stop bullets, and kill the ship.

Source: BossFight of Procgen (Cobbe et al., 2020), with the same rules and rewards and, for levels of the original, the
same random numbers. All positions and velocities are float32, rounded as in the original.

Differences: frames use our own drawings, the last frame shows the last state, the end after 4000 steps is a
truncation, and no more than four bullets leave a blast in one step.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, Transition
from jaxgym.envs.boss_fight import attacks, collisions, exact, level, things
from jaxgym.envs.boss_fight.level import WORLD, HalfSizes, Level
from jaxgym.envs.boss_fight.render import SIDE, draw
from jaxgym.envs.boss_fight.scene import Scene, scene_of, symbols_of
from jaxgym.envs.boss_fight.state import Boss, State
from jaxgym.envs.boss_fight.things import Blasts, BulletKind, Bullets, Trails
from jaxgym.envs.common.valid_levels import within
from jaxgym.options import OBSERVATION, Flag, OneOf, Static, static
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

NUM_MOVES, FIRE, NUM_ACTIONS, STAY = 9, 9, 15, 4
"""Actions 0 to 8 move the ship: 3 · (horizontal direction + 1) + vertical direction + 1."""

LEG_STEPS, OPEN_LEGS = 20, 500
STEPS_BETWEEN_SHOTS, STEPS_BETWEEN_BLASTS = 3, 3
_NUM_STRIDES = 4
_STRIDE = np.float32(1 / _NUM_STRIDES)
PUSH, INERTIA, DRAG = np.float32(0.5) * np.float32(0.85), np.float32(0.5), 0.9
_LONGEST = 10**5
_ATTACKS = tuple(mode.name.lower() for mode in level.Mode)


@dataclasses.dataclass(unsafe_hash=True)
class BossFight(Environment[Level, State, EnvParams, Scene]):
    """BossFight.

    Observation:
        uint8 (64, 64, 3), row first; with `observation="symbolic"` float32 (464,), see the documentation page.
    Action:
        0 to 8 accelerate: left and down, left, left and up, down, nothing, up, right and down, right, right and up; 9
        fires; 10 to 14 do nothing.
    Start:
        The ship is at the bottom, the boss in the middle behind its shield, and up to three meteors are in between.
    Reward:
        1 for each won round, and 10 more for the last one.
    End:
        Terminated when the ship touches a bullet, the boss or a meteor, or the boss is defeated. Truncated after
        `max_steps`, 4000.
    Info:
        `reward` and `length` so far, `success` (1 when the boss is defeated), `rounds_won`.
    Versions:
        v0: the rules of Procgen 0.10.7.
    """

    distribution_mode: str = static(
        OneOf("hard", "speed of bullets, and how long shields can stay closed", values=("easy", "hard"))
    )
    restrict_themes: bool = static(
        Flag(False, "use the first theme for all ships, bosses and meteors, so that sizes do not vary")
    )
    use_backgrounds: bool = static(Flag(True, "whether frames have a background with stars"))
    max_given_steps: int = static(
        Static(
            None,
            "steps for which a level can store the original's random numbers; set by `levels`",
            low=1,
            high=_LONGEST,
            none="1",
        )
    )
    observation: str = static(OBSERVATION)

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return `max_given_steps`."""
        return {"max_given_steps": values["max_given_steps"] or 1}

    def action_space(self, params: EnvParams | None = None) -> Discrete:
        """Return the space of the 15 actions."""
        return Discrete(NUM_ACTIONS)

    def observation_space(self, params: EnvParams | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        if self.observation != "symbolic":
            return Box(low=0, high=255, shape=(SIDE, SIDE, 3), dtype=jnp.uint8)
        return frames_or_symbols(self, params, low=-2.0, high=2.0)

    def sample_level(self, key: jax.Array, params: EnvParams) -> Level:
        """Sample a level with the distribution of the original."""
        return level.sample_level(
            key, self.distribution_mode, self.max_given_steps, restrict_themes=self.restrict_themes
        )

    def reseed(self, state: State, key: jax.Array) -> State:
        """Replace the random words of the steps to come."""
        seed = jax.random.bits(key, (2,), jnp.uint32)
        num_given = jnp.minimum(state.level.num_given, state.time)
        return dataclasses.replace(state, level=dataclasses.replace(state.level, seed=seed, num_given=num_given))

    def sizes(self, level: Level) -> HalfSizes:
        """Return the sizes of a level's things."""
        return HalfSizes.of(level, restrict_themes=self.restrict_themes)

    def initial_state(self, level: Level, params: EnvParams) -> State:
        """Place the ship and the boss."""
        boss = Boss(
            place=jnp.full(2, WORLD / 2, jnp.float32),
            velocity=jnp.zeros(2, jnp.float32),
            health=level.round_health * level.num_rounds,
            round=jnp.int32(0),
            leg_timer=jnp.int32(LEG_STEPS),
            swap_timer=level.closed_legs,
            hurt_until=jnp.int32(0),
            has_shield=jnp.bool_(True),
        )
        return State(
            level=level,
            place=jnp.stack([level.start_x, self.sizes(level).ship[1]]),
            velocity=jnp.zeros(2, jnp.float32),
            boss=boss,
            bullets=Bullets.none(),
            trails=Trails.none(),
            blasts=Blasts.none(),
        )

    def words(self, level: Level, time: jax.Array) -> jax.Array:
        """Return the random words of a step, from step 1, uint32 (5,); nothing depends on the first one."""
        given = level.words[jnp.clip(time - 1, 0, self.max_given_steps - 1)]
        key = jax.random.fold_in(jax.random.wrap_key_data(level.seed, impl="threefry2x32"), time)
        return jnp.where(time <= level.num_given, given, jax.random.bits(key, given.shape, jnp.uint32))

    def transition(self, state: State, action: jax.Array, params: EnvParams) -> Transition:
        """Move everything, resolve collisions, then let the boss and the ship act."""
        sizes = self.sizes(state.level)
        shares = exact.share(self.words(state.level, state.time))
        state = _fly(state, action, sizes)
        boss = state.boss
        shield_place = boss.place  # the shield follows the boss after the collisions
        state = dataclasses.replace(
            state,
            boss=dataclasses.replace(boss, place=boss.place + boss.velocity),
            bullets=dataclasses.replace(things.moved(state.bullets), age=state.bullets.age + 1),
            trails=things.aged(things.moved(state.trails)),
            blasts=things.aged(things.grown(things.moved(state.blasts))),
        )
        is_dead = collisions.is_touched(state, sizes)
        state, reward, is_won = collisions.collide(state, shield_place, sizes)
        state = _steer(state, shares)
        state = _attack(state, action, shares, sizes, self.distribution_mode)
        rounds_won = state.boss.round + is_won.astype(jnp.int32)
        metrics = {"success": is_won.astype(jnp.int32), "rounds_won": rounds_won}
        return Transition(dataclasses.replace(state, share=shares[1]), reward, is_dead | is_won, metrics)

    def normalized_return(self, info: Mapping[str, jax.Array], state: State, params: EnvParams) -> jax.Array:
        """Return the return divided by the best possible one of the level, float32 ()."""
        best = collisions.WIN_REWARD + collisions.ROUND_REWARD * state.level.num_rounds.astype(jnp.float32)
        return (info["episode_return"] / best).astype(jnp.float32)

    def scene(self, state: State, params: EnvParams) -> Scene:
        """Return everything that is seen."""
        return scene_of(self, state)

    def hidden(self, state: State, params: EnvParams) -> facts.Facts:
        """Return the attack, the hits and rounds left, and the legs and steps until the shield opens."""
        boss, most_legs = state.boss, level.LEAST_CLOSED_LEGS + level.MOST_CLOSED_LEGS[self.distribution_mode] - 1
        round_ = boss.round % state.level.num_rounds
        return {
            "attack": facts.Fact(state.level.attack_modes[round_], level.NUM_MODES, _ATTACKS),
            "hits_left": facts.Fact((boss.health - 1) % state.level.round_health + 1, level.MOST_HEALTH + 1),
            "rounds_left": facts.Fact(state.level.num_rounds - round_, level.MOST_ROUNDS + 1),
            "legs_until_open": facts.Fact(jnp.where(boss.has_shield, boss.swap_timer, -1), most_legs + 1),
            "steps_of_leg": facts.Fact(boss.leg_timer, LEG_STEPS + 1),
        }

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return symbols_of(scene) if self.observation == "symbolic" else draw(scene)


def _fly(state: State, action: jax.Array, sizes: HalfSizes) -> State:
    """Accelerate the ship and move it in four strides; the edge of the world stops it."""
    move = jnp.where((action >= 0) & (action < NUM_MOVES), action, STAY)
    push = jnp.stack([move // 3 - 1, move % 3 - 1]).astype(jnp.float32)
    velocity = exact.slowed(state.velocity, PUSH * push, INERTIA, DRAG)
    half, reach = sizes.ship, sizes.reach
    stride = velocity * _STRIDE
    place, num_free, is_stuck = state.place, jnp.zeros(2, jnp.float32), jnp.bool_(False)
    for _ in range(_NUM_STRIDES):
        to = place + stride
        is_blocked = (to - reach < 0) | (to + reach >= WORLD)
        edge = jnp.where(stride > 0, jnp.floor(to + half) - half, jnp.ceil(to - half) + half)
        place = jnp.where(is_stuck, place, jnp.where(is_blocked, edge, to))
        num_free = num_free + jnp.where(is_stuck | is_blocked, 0.0, 1.0).astype(jnp.float32)
        is_stuck = is_stuck | is_blocked.all()
    is_free = num_free == _NUM_STRIDES
    velocity = jnp.where(is_free, velocity, velocity * (num_free * _STRIDE))
    return dataclasses.replace(state, place=place, velocity=velocity)


def _steer(state: State, shares: jax.Array) -> State:
    """Let the boss start its next leg when the last one is over; after enough legs, toggle the shield."""
    boss, level = state.boss, state.level
    is_over = boss.leg_timer <= 0
    toggles = is_over & (boss.swap_timer <= 0)
    legs = jnp.where(boss.has_shield, OPEN_LEGS, level.closed_legs)
    swap_timer = jnp.where(toggles, legs, boss.swap_timer - is_over.astype(jnp.int32))
    velocity = attacks.leg_velocity(boss.place, shares[3:], LEG_STEPS)
    boss = dataclasses.replace(
        boss,
        velocity=jnp.where(is_over, velocity, boss.velocity),
        leg_timer=jnp.where(is_over, LEG_STEPS, boss.leg_timer - 1),
        swap_timer=swap_timer,
        has_shield=boss.has_shield ^ toggles,
    )
    return dataclasses.replace(state, boss=boss)


def _attack(state: State, action: jax.Array, shares: jax.Array, sizes: HalfSizes, mode: str) -> State:
    """Fire the shot of the ship and the bullets of the boss; each bullet of the boss leaves a trail."""
    boss, time = state.boss, state.time
    fires = (action == FIRE) & (time - state.last_fire >= STEPS_BETWEEN_SHOTS)
    shot = {"x": state.place[:1], "y": state.place[1:]}
    bullets = attacks.with_shot(state.bullets, shot, fires)
    is_hurt = time <= boss.hurt_until
    attack = state.level.attack_modes[boss.round % state.level.num_rounds]
    angles, count = attacks.bullets_of(attack, time, shares, is_open=~boss.has_shield)
    count = jnp.where(is_hurt, 0, count)
    bullets = attacks.with_bullets(bullets, boss.place, angles, count, mode)
    smokes = is_hurt & (time % STEPS_BETWEEN_BLASTS == 0)
    blasts = attacks.with_smoke(state.blasts, boss.place, sizes.boss, shares[3:], smokes)
    trails = things.with_new(
        state.trails,
        is_there=bullets.kind == BulletKind.BULLET,
        x=bullets.x,
        y=bullets.y,
        vx=bullets.vx * attacks.TRAIL_SPEED,
        vy=bullets.vy * attacks.TRAIL_SPEED,
    )
    last_fire = jnp.where(fires, time, state.last_fire)
    return dataclasses.replace(state, bullets=bullets, blasts=blasts, trails=trails, last_fire=last_fire)


def view(env: BossFight, state: State, params: EnvParams) -> jax.Array:
    """Return the frame with bars for health and shield of the boss, enlarged four times, uint8 (256, 256, 3)."""
    most = state.level.round_health * state.level.num_rounds
    return enlarged(draw(env.scene(state, params), state.boss, most))


def sizes_of(buffer: Any) -> dict[str, int]:
    """Return the options with which `make` accepts a level buffer."""
    return {"max_given_steps": buffer.words.shape[-2]} if isinstance(buffer, Level) else {}


def valid_levels(env: BossFight, buffer: Any, _: EnvParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    legs = level.LEAST_CLOSED_LEGS + level.MOST_CLOSED_LEGS[env.distribution_mode] - 1
    return {
        "num_rounds": within(buffer.num_rounds, 1, level.MOST_ROUNDS),
        "round_health": within(buffer.round_health, 1, level.MOST_HEALTH),
        "closed_legs": within(buffer.closed_legs, level.LEAST_CLOSED_LEGS, legs),
        "attack_modes": within(buffer.attack_modes, 0, level.NUM_MODES - 1),
        "start_x": within(buffer.start_x, 0, WORLD),
        "meteors": within(buffer.meteors, 0, WORLD),
        "meteor_themes": within(buffer.meteor_themes, 0, len(level.METEOR_HALF_HEIGHTS) - 1),
        "num_meteors": within(buffer.num_meteors, 0, level.MOST_METEORS),
        "boss_theme": within(buffer.boss_theme, 0, len(level.BOSS_HALF_HEIGHTS) - 1),
        "ship_theme": within(buffer.ship_theme, 0, len(level.SHIP_HALF_HEIGHTS) - 1),
        "shot_theme": within(buffer.shot_theme, 0, level.NUM_LASERS - 1),
        "bullet_theme": within(buffer.bullet_theme, 0, level.NUM_LASERS - 1),
        "background": within(buffer.background, 0, level.NUM_BACKGROUNDS - 1),
        "background_offset": within(buffer.background_offset, 0, 1),
        "num_given": within(buffer.num_given, 0, env.max_given_steps),
    }
