"""Endless Searing Spotlights: collect one coin after another in the dark, until health or a coin's time is used up.

Like `jaxgym.envs.searing_spotlights.game`, but a collected coin reappears elsewhere, and there is no exit. A coin is
visible for a few steps, and then in the dark.

Source: Pleines et al., Memory Gym to Endless Tasks (JMLR 26(6), 2025), package memory-gym 1.0.2. Rules and frames are
reproduced exactly, including these peculiarities:

- A spotlight pauses for a step when the one before it in the list is removed.
- A coin may appear under the agent, which then collects it in the next step; only the position of the previous coin is
blocked. After a coin, the time for the next one is one step shorter than for the first.
- The bar shows the action and the reward of the step before, and its right half is black if nothing is shown. In the
first frame, the agent looks up, whatever its heading.
- Spotlights of speed 0 stay outside of the screen.

Differences: `max_steps` truncates; in the original it terminates. A spotlight without a free slot (`max_spotlights`)
also truncates. `show_last_action=False`, which crashes the original, hides the action. Leftovers of earlier episodes (a
repainted floor, spotlights in the first frame) do not exist. Frames are row first; the original's are column first.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from jaxgym import facts
from jaxgym.environment import Transition, starts_at
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.searing_spotlights import base as spotlight_game
from jaxgym.envs.searing_spotlights import free_cells, spotlights
from jaxgym.envs.searing_spotlights import scene as seen
from jaxgym.options import Integer, Static, static, traced

MOST_SPOTLIGHTS = 64
"""The most slots for spotlights that `max_spotlights=None` makes."""


@struct.dataclass
class EndlessSearingSpotlightsLevel(spotlight_game.SpotlightLevel):
    """Sampled parts of an episode.

    Attributes:
        coins_px: Centers of the first coins, int32 (max_given_coins, 2); further coins are drawn from `seed`.
        num_coins: Number of listed coins in use, int32 ().
    """

    coins_px: jax.Array
    num_coins: jax.Array


@struct.dataclass(kw_only=True)
class EndlessSearingSpotlightsState(spotlight_game.SpotlightState):
    """Episode state.

    Attributes:
        coin_px: Center of the coin, int32 (2,).
        coin_time: Steps since it appeared, int32 (), including the step that collected the previous coin.
        num_collected: Number of collected coins, int32 ().
    """

    coin_px: jax.Array
    coin_time: jax.Array = starts_at(0)
    num_collected: jax.Array = starts_at(0)


@struct.dataclass
class EndlessSearingSpotlightsParams(spotlight_game.SpotlightParams):
    """The traced options."""

    steps_per_coin: jax.Array = traced(Integer(160, "steps that the agent has to collect a coin", low=1))
    spawn_interval: jax.Array = traced(Integer(50, "steps between new spotlights", low=0))
    coin_show_duration: jax.Array = traced(Integer(6, "frames for which a new coin is visible in the dark", low=0))


@dataclasses.dataclass(unsafe_hash=True)
class EndlessSearingSpotlights(
    spotlight_game.SpotlightGame[
        EndlessSearingSpotlightsLevel, EndlessSearingSpotlightsState, EndlessSearingSpotlightsParams
    ]
):
    """Endless Searing Spotlights.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` a float32 vector (see
        `jaxgym.envs.searing_spotlights.visible.symbols`).
    Action:
        Horizontal (0 stay, 1 left, 2 right) and vertical (0 stay, 1 up, 2 down), or with `flat_actions` one number
        3 · horizontal + vertical.
    Start:
        Anywhere, or in the center; any heading.
    Reward:
        `reward_coin` for each coin, and on every step the reward inside or outside of spotlights; `reward_death` when
        health is used up.
    End:
        Terminated when health is used up, or when a coin is not collected within `steps_per_coin`. Truncated after
        `max_steps`, if it is set, or when more spotlights are alive than `max_spotlights`.
    Info:
        `reward` and `length` so far, `agent_health` (remaining share), `coins_collected` (their number),
        `ground_truth` (agent x and y, coin x and y, each divided by 84).
    Versions:
        v0: as memory-gym 1.0.2.
    """

    metric: ClassVar[str] = "coins_collected"

    max_given_coins: int = static(
        Static(
            None,
            "number of coins that a level stores; the seed of the level determines the later ones",
            low=1,
            high=spotlight_game.MOST_LISTED,
            none="that of the level buffer, or 1 without one",
        )
    )

    @classmethod
    def derive(cls, env_id: str, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the capacities and the tables of health.

        Raises:
            OptionError: If the spotlights at reset do not fit, or radii or speeds have no range.
        """
        initial, speed = values["initial_spawns"], float(np.float32(values["spot_min_speed"]))
        needed = min(spotlights.most_alive(initial, None, values["spawn_interval"], speed), MOST_SPOTLIGHTS)
        return {
            **super().derive(env_id, values),
            "max_spotlights": spotlight_game.capacity_of(env_id, values, needed),
            "max_given_coins": values["max_given_coins"] or 1,
        }

    @property
    def render_options(self) -> seen.RenderOptions:
        """The values that fix sprites."""
        return seen.RenderOptions(self.agent_scale, self.coin_scale, None, blank=(0, 0, 0))

    def sample_level(self, key: jax.Array, params: EndlessSearingSpotlightsParams) -> EndlessSearingSpotlightsLevel:
        """Sample the agent, the spotlights and the first coins, in this order."""
        num_tracks, cell = self.max_given_spotlights, free_cells.DRAW_WORDS
        sizes = (3, cell, cell * self.max_given_coins, spotlights.TRACK_WORDS * num_tracks)
        bits = jax.random.bits(key, (sum(sizes),), jnp.uint32)
        head, start_bits, coin_bits, track_bits = jnp.split(bits, np.cumsum(sizes[:-1]))
        coins = []
        for words in coin_bits.reshape(self.max_given_coins, cell):
            coins.append(next_place(words, coins[-1] if coins else None))
        return EndlessSearingSpotlightsLevel(
            heading=(head[0] % jnp.uint32(arena.NUM_HEADINGS)).astype(jnp.int32),
            start_px=spotlight_game.sample_start(start_bits, params)[0],
            tracks=spotlights.sample_tracks(track_bits.reshape(num_tracks, -1), params),
            num_tracks=jnp.int32(num_tracks),
            seed=head[1:],
            coins_px=jnp.stack(coins),
            num_coins=jnp.int32(self.max_given_coins),
        )

    def initial_state(
        self, level: EndlessSearingSpotlightsLevel, params: EndlessSearingSpotlightsParams
    ) -> EndlessSearingSpotlightsState:
        """Place the agent at its start, with the first coin visible, and the light on unless it turns off at once."""
        return EndlessSearingSpotlightsState(**self.initial_fields(level, params), coin_px=level.coins_px[0])

    def transition(
        self, state: EndlessSearingSpotlightsState, action: jax.Array, params: EndlessSearingSpotlightsParams
    ) -> Transition:
        """Move the agent, advance spotlights, collect the coin, then check health and time."""
        is_due = state.spawn_timer + 1 >= params.spawn_interval
        after = self.advance(state, action, params, is_due)
        reward, is_dead = self.light_reward(after, params)
        is_taken = self.is_in_reach(after.coin_px[None], after, seen.coin_radius_px(self.coin_scale))[0]
        reward += jnp.where(is_taken, params.reward_coin, 0.0)
        num_collected = after.num_collected + is_taken.astype(jnp.int32)
        coin_px = jnp.where(is_taken, next_coin(after.level, num_collected, after.coin_px), after.coin_px)
        coin_time = jnp.where(is_taken, 0, after.coin_time) + 1
        after = dataclasses.replace(
            after,
            coin_px=coin_px,
            coin_time=coin_time,
            num_collected=num_collected,
            last_positive=(reward > 0).astype(jnp.int32),
        )
        metrics = {
            "agent_health": self.health_share(after, params),
            "coins_collected": num_collected,
            "ground_truth": self.ground_truth(after),
        }
        is_late = coin_time == params.steps_per_coin
        return Transition(after, jnp.asarray(reward, dtype=jnp.float32), is_dead | is_late, metrics)

    def reseed(self, state: EndlessSearingSpotlightsState, key: jax.Array) -> EndlessSearingSpotlightsState:
        """Replace the spotlights and coins to come, listed ones included."""
        state = super().reseed(state, key)
        num_coins = jnp.minimum(state.level.num_coins, state.num_collected + 1)
        return dataclasses.replace(state, level=dataclasses.replace(state.level, num_coins=num_coins))

    def ground_truth(self, state: EndlessSearingSpotlightsState) -> jax.Array:
        """Return the positions of agent and coin, divided by the screen size, float32 (4,)."""
        places = jnp.concatenate([state.position_px, state.coin_px]).astype(jnp.float32)
        return places / np.float32(arena.SCREEN_PX)

    def hidden(self, state: EndlessSearingSpotlightsState, params: EndlessSearingSpotlightsParams) -> facts.Facts:
        """Return the places of the agent and the coin."""
        return {**spotlight_game.place("agent", state.position_px), **spotlight_game.place("coin", state.coin_px)}

    def scene(self, state: EndlessSearingSpotlightsState, params: EndlessSearingSpotlightsParams) -> seen.Scene:
        """Return the scene."""
        return seen.Scene(
            **self.scene_fields(state, params),
            coins_px=state.coin_px[None],
            has_coin=jnp.ones(1, dtype=bool),
            coins_visible=params.coins_visible | (state.coin_time < params.coin_show_duration),
            exit_px=jnp.zeros(2, dtype=jnp.int32),
            exit_kind=jnp.int32(seen.NO_EXIT),
            exit_visible=jnp.bool_(False),
        )


def next_place(bits: jax.Array, before_px: jax.Array | None) -> jax.Array:
    """Return the position of a new coin, int32 (2,), away from the previous one; from uint32 (3,)."""
    blocked = free_cells.nothing()
    if before_px is not None:
        blocked = free_cells.block(blocked, before_px, spotlight_game.FAR_BLOCK_PX)
    return spotlight_game.clamp_place(free_cells.draw(blocked, bits)[1])


def next_coin(level: EndlessSearingSpotlightsLevel, index: jax.Array, before_px: jax.Array) -> jax.Array:
    """Return the position of a coin by its index, listed in the level or drawn from its seed."""
    last = jnp.minimum(index, level.num_coins - 1)
    listed = lax.dynamic_index_in_dim(level.coins_px, last, keepdims=False)
    # Coins use odd numbers, spotlights even ones.
    bits = jax.random.bits(spotlight_game.content_key(level, 2 * index + 1), (free_cells.DRAW_WORDS,), jnp.uint32)
    return jnp.where(index < level.num_coins, listed, next_place(bits, before_px))
