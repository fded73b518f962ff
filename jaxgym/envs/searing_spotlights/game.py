"""Searing Spotlights: collect all coins and leave through the exit, in the dark, and avoid the spotlights.

The light dims within a few steps. From then on only spotlights show parts of the scene, and each step in a spotlight
costs health. The agent has to remember the positions of coins and exit, and its own movements.

Source: Pleines et al., Memory Gym (ICLR 2023; JMLR 26(6), 2025), package memory-gym 1.0.2. Rules and frames are
reproduced exactly, including these peculiarities:

- When a spotlight is removed, the next one in the list pauses for a step: it is not drawn and does no damage. The same
holds for the coin after a collected one.
- The interval between spotlights never shrinks: `spawn_interval_decay` has no effect; `reward_max_steps` is never paid.
- The bar shows the action and the reward of the step before. In the first frame, the agent looks up, whatever its
heading.
- Dying and reaching the exit in the same step pays both rewards, and is no success.
- Spotlights of speed 0 stay outside of the screen.
- The bar covers the top 4 rows of the screen.

Differences: the time limit truncates; in the original it terminates. `use_exit=False`, which crashes the original, ends
the game with the last coin. Without coins (`num_coins=[0]`) the exit is open from the first step and `coins_collected`
is 0; if there is also no exit, the first step ends the episode. Leftovers of earlier episodes (a repainted floor,
spotlights in the first frame) do not exist. If the coins block all pixels, all pixels are free again for the next coin.
Frames are row first; the original's are column first.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Transition, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.searing_spotlights import base as spotlight_game
from jaxgym.envs.searing_spotlights import free_cells, spotlights
from jaxgym.envs.searing_spotlights import scene as seen
from jaxgym.errors import OptionError
from jaxgym.options import Choices, Flag, Integer, IntegerList, Real, Static, static, traced

_MOST_COINS = 32
_MOST_SPAWNS = 1_000_000
_LONGEST_INTERVAL = 1e6


@struct.dataclass
class Level(spotlight_game.SpotlightLevel):
    """Sampled parts of an episode.

    Attributes:
        num_coins: Number of coins, int32 ().
        coins_px: Centers of the coins, int32 (max_coins, 2).
        exit_px: Center of the exit, int32 (2,).
    """

    num_coins: jax.Array
    coins_px: jax.Array
    exit_px: jax.Array


@struct.dataclass(kw_only=True)
class State(spotlight_game.SpotlightState):
    """Episode state.

    Attributes:
        has_coin: Remaining coins, bool (max_coins,).
        exit_open: Whether the exit is open, bool ().
    """

    has_coin: jax.Array
    exit_open: jax.Array = starts_at(False)


@struct.dataclass
class Params(spotlight_game.SpotlightParams):
    """The traced options."""

    num_spawns: jax.Array = traced(
        Integer(30, "number of spotlights that appear after reset", low=0, high=_MOST_SPAWNS)
    )
    initial_spawn_interval: jax.Array = traced(
        Real(
            30.0,
            "this plus spawn_interval_threshold is the number of steps between new spotlights",
            low=0.0,
            high=_LONGEST_INTERVAL,
        )
    )
    spawn_interval_threshold: jax.Array = traced(
        Real(10.0, "see initial_spawn_interval", low=0.0, high=_LONGEST_INTERVAL)
    )
    spawn_interval_decay: jax.Array = traced(Real(0.95, "no effect, as in the original"))
    num_coins: Choices = traced(IntegerList([1], "number of coins", high=_MOST_COINS))
    use_exit: jax.Array = traced(Flag(True, "end the episode at the exit; if False, at the last coin"))
    exit_visible: jax.Array = traced(Flag(False, "keep the exit visible in the dark"))
    reward_exit: jax.Array = traced(Real(1.0, "reward of the exit"))
    reward_max_steps: jax.Array = traced(Real(0.0, "no effect, as in the original"))


@dataclasses.dataclass(unsafe_hash=True)
class SearingSpotlights(spotlight_game.SpotlightGame[Level, State, Params]):
    """Searing Spotlights.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` a float32 vector (see
        `jaxgym.envs.searing_spotlights.visible.symbols`).
    Action:
        Horizontal (0 stay, 1 left, 2 right) and vertical (0 stay, 1 up, 2 down), or with `flat_actions` one number
        3 · horizontal + vertical.
    Start:
        Anywhere, or in the center; any heading.
    Reward:
        `reward_coin` for each coin, `reward_exit` for the exit, and on every step the reward inside or outside of
        spotlights; `reward_death` when health is used up.
    End:
        Terminated when health is used up, or when the agent reaches the exit, which opens when no coin is left.
        Truncated after `max_steps` (256), or when more spotlights are alive than `max_spotlights`.
    Info:
        `reward` and `length` so far, `success` (0 or 1), `agent_health` (remaining share), `coins_collected`
        (collected share).
    Versions:
        v0: as memory-gym 1.0.2.
    """

    metric: ClassVar[str] = "coins_collected"

    exit_scale: float = static(Real(0.5, "size of the exit", low=0.05, high=1.0))
    max_coins: int = static(
        Static(
            None,
            "capacity for coins; it must suffice for all params of this env",
            low=1,
            high=_MOST_COINS,
            none="max(num_coins)",
        )
    )

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the capacities and the tables of health.

        Raises:
            OptionError: If coins or spotlights do not fit, or radii or speeds have no range.
        """
        counts, max_coins = values["num_coins"], values["max_coins"]
        most = max(counts)
        if max_coins is None:
            max_coins = max(most, 1)
        if most > max_coins:
            raise OptionError(
                f"{env_id}: num_coins: expected counts up to max_coins={max_coins}, got {counts}. Set max_coins={most}."
            )
        initial, spawns = values["initial_spawns"], values["num_spawns"]
        interval = int(np.float32(values["initial_spawn_interval"]) + np.float32(values["spawn_interval_threshold"]))
        needed = spotlights.most_alive(initial, initial + spawns, interval, float(np.float32(values["spot_min_speed"])))
        capacity = spotlight_game.capacity_of(env_id, values, needed)
        return {**super().derive(env_id, values), "max_coins": max_coins, "max_spotlights": capacity}

    @property
    def render_options(self) -> seen.RenderOptions:
        """The values that fix sprites."""
        return seen.RenderOptions(self.agent_scale, self.coin_scale, self.exit_scale)

    def sample_level(self, key: jax.Array, params: Params) -> Level:
        """Sample the agent, the spotlights, the coins and the exit, in this order."""
        num_tracks, cell = self.max_given_spotlights, free_cells.DRAW_WORDS
        sizes = (4, cell, cell * self.max_coins, cell, spotlights.TRACK_WORDS * num_tracks)
        bits = jax.random.bits(key, (sum(sizes),), jnp.uint32)
        head, start_bits, coin_bits, exit_bits, track_bits = jnp.split(bits, np.cumsum(sizes[:-1]))
        count = params.num_coins.pick(head[1])
        start, blocked = spotlight_game.sample_start(start_bits, params)
        coins = []
        for index, words in enumerate(coin_bits.reshape(self.max_coins, cell)):
            pixel, coin = free_cells.draw(blocked, words)
            coins.append(spotlight_game.clamp_place(coin))
            is_coin = index < count
            blocked = jnp.where(is_coin, free_cells.block(blocked, pixel, spotlight_game.NEAR_BLOCK_PX), blocked)
        return Level(
            heading=(head[0] % jnp.uint32(arena.NUM_HEADINGS)).astype(jnp.int32),
            start_px=start,
            tracks=spotlights.sample_tracks(track_bits.reshape(num_tracks, -1), params),
            num_tracks=jnp.int32(num_tracks),
            seed=head[2:],
            num_coins=count,
            coins_px=jnp.stack(coins),
            exit_px=spotlight_game.clamp_place(free_cells.draw(blocked, exit_bits)[1]),
        )

    def initial_state(self, level: Level, params: Params) -> State:
        """Place the agent at its start, with the light on unless it turns off at once."""
        return State(**self.initial_fields(level, params), has_coin=jnp.arange(self.max_coins) < level.num_coins)

    def normalized_return(self, info: Mapping[str, jax.Array], state: State, params: Params) -> jax.Array:
        """Return the success, since coins may be left and rewards depend on options."""
        return info["success"].astype(jnp.float32)

    def transition(self, state: State, action: jax.Array, params: Params) -> Transition:
        """Move the agent, advance spotlights, collect coins, then check exit and health."""
        interval = jnp.trunc(params.initial_spawn_interval + params.spawn_interval_threshold)
        has_spawns = state.num_spawned < params.initial_spawns + params.num_spawns
        is_due = has_spawns & (state.spawn_timer + 1 >= interval.astype(jnp.int32))
        after = self.advance(state, action, params, is_due)
        reward, is_dead = self.light_reward(after, params)
        is_near = self.is_in_reach(after.level.coins_px, after, seen.coin_radius_px(self.coin_scale))
        collected = spotlights.walk_and_remove(after.has_coin, is_near)
        has_coin = after.has_coin & ~collected
        no_coins = ~jnp.any(has_coin)
        exit_open = no_coins & params.use_exit
        is_out = exit_open & self.is_in_reach(after.level.exit_px[None], after, 10 * self.exit_scale)[0]
        reward += jnp.sum(collected).astype(jnp.float32) * params.reward_coin
        reward += jnp.where(is_out, params.reward_exit, 0.0)
        is_over = no_coins & (is_out | ~jnp.asarray(params.use_exit))
        success = is_over & ~is_dead & (is_out | (after.level.num_coins > 0))
        count = after.level.num_coins
        metrics = {
            "success": success.astype(jnp.int32),
            "agent_health": self.health_share(after, params),
            "coins_collected": (count - jnp.sum(has_coin)).astype(jnp.float32)
            / jnp.maximum(count, 1).astype(jnp.float32),
        }
        after = dataclasses.replace(
            after, has_coin=has_coin, exit_open=exit_open, last_positive=(reward > 0).astype(jnp.int32)
        )
        return Transition(after, jnp.asarray(reward, dtype=jnp.float32), is_dead | is_over, metrics)

    def hidden(self, state: State, params: Params) -> facts.Facts:
        """Return the places of the agent, the remaining coins and the exit, and whether the exit is open."""
        coins = jnp.where(state.has_coin[:, None], state.level.coins_px, -1)
        return {
            **spotlight_game.place("agent", state.position_px),
            **spotlight_game.place("coin", coins),
            **spotlight_game.place("exit", jnp.where(params.use_exit, state.level.exit_px, -1)),
            "open_exit": facts.flags(state.exit_open),
        }

    def scene(self, state: State, params: Params) -> seen.Scene:
        """Return the scene."""
        exit_kind = jnp.where(state.exit_open, jnp.int32(seen.EXIT_OPEN), seen.EXIT_CLOSED)
        return seen.Scene(
            **self.scene_fields(state, params),
            coins_px=state.level.coins_px,
            has_coin=state.has_coin,
            coins_visible=jnp.asarray(params.coins_visible),
            exit_px=state.level.exit_px,
            exit_kind=jnp.where(params.use_exit, exit_kind, seen.NO_EXIT),
            exit_visible=jnp.asarray(params.exit_visible),
        )
