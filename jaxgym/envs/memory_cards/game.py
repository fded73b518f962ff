"""Memory Cards: find the pair of the shown card among cards that lie face down.

2 N cards have the numbers 1 to N, each twice. In each step one random card is shown, and the agent names the card with
the same number. If it is right, both are removed, else the shown card is turned over again. The agent does
not see the number of the card that it names, so it learns only from the cards that were shown.

Source: MIKASA-Base (after Esslinger et al., 2022), with the same rules, rewards and observations.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from jaxgym import facts
from jaxgym.environment import Environment, EnvParams, EnvState, Transition, starts_at
from jaxgym.envs.common.valid_levels import within
from jaxgym.envs.memory_cards.scene import MOST_PAIRS, Scene, draw
from jaxgym.options import OBSERVATION, Integer, static
from jaxgym.rendering.canvas import enlarged
from jaxgym.spaces import Box, Discrete, frames_or_symbols

_MOST_DRAWS = 2**16
NOTHING = -1
"""Index of the shown card when all cards are removed."""


@struct.dataclass
class Level:
    """Sampled parts of an episode.

    Attributes:
        cards: Number of each card, from 1, int32 (2 N,).
        draws: Indices of random cards, int32 (`num_draws`,). The shown card is the next of them that is not removed;
            after the last one, the first one follows.
    """

    cards: jax.Array
    draws: jax.Array


@struct.dataclass
class State(EnvState):
    """Episode state, in addition to the fields of the base class.

    Attributes:
        is_removed: Whether each card is removed, bool (2 N,).
        shown: Index of the shown card, int32 (); `NOTHING` at the end.
        num_drawn: Number of used entries of `Level.draws`, int32 ().
    """

    is_removed: jax.Array
    shown: jax.Array
    num_drawn: jax.Array = starts_at(1)


@dataclasses.dataclass(unsafe_hash=True)
class MemoryCards(Environment[Level, State, EnvParams, Scene]):
    """Memory Cards.

    Observation:
        uint8 (84, 84, 3), row first; with `observation="symbolic"` float32 (2 N,): for each card 0 if it lies face
        down, its number if it is shown, N + 1 if it is removed.
    Action:
        Index of the card that is named, from 0 to 2 N - 1.
    Start:
        All cards lie face down, one of them is shown.
    Reward:
        0 for naming the other card of the pair, else -1: for a wrong card, the shown card or a removed card.
    End:
        Terminated when all cards are removed. There is no time limit.
    Info:
        `reward` and `length` so far, `success` (1 when all cards are removed), `pairs_found`.
    Versions:
        v0: as in MIKASA-Base of February 2025.
    """

    num_pairs: int = static(Integer(5, "number N of pairs", low=1, high=MOST_PAIRS))
    num_draws: int = static(
        Integer(256, "number of random cards in a level; they repeat after the last one", low=1, high=_MOST_DRAWS)
    )
    observation: str = static(OBSERVATION)

    def action_space(self, params: EnvParams | None = None) -> Discrete:
        """Return the space of the cards."""
        return Discrete(2 * self.num_pairs)

    def observation_space(self, params: EnvParams | None = None) -> Box:
        """Return the space of frames or of the vector in the class docstring."""
        return frames_or_symbols(self, params, high=float(self.num_pairs + 1))

    def sample_level(self, key: jax.Array, params: EnvParams) -> Level:
        """Shuffle the cards, and sample the cards to show."""
        key_cards, key_draws = jax.random.split(key)
        cards = jax.random.permutation(key_cards, jnp.asarray(sorted_cards(self.num_pairs)))
        return Level(cards=cards, draws=self._sample_draws(key_draws))

    def _sample_draws(self, key: jax.Array) -> jax.Array:
        return jax.random.randint(key, (self.num_draws,), 0, 2 * self.num_pairs, jnp.int32)

    def reseed(self, state: State, key: jax.Array) -> State:
        """Replace the cards to show in the steps to come."""
        return dataclasses.replace(state, level=dataclasses.replace(state.level, draws=self._sample_draws(key)))

    def initial_state(self, level: Level, params: EnvParams) -> State:
        """Show the first card."""
        return State(level=level, is_removed=jnp.zeros(2 * self.num_pairs, bool), shown=level.draws[0])

    def transition(self, state: State, action: jax.Array, params: EnvParams) -> Transition:
        """Remove a pair, or turn the shown card over; show another card."""
        indices = np.arange(2 * self.num_pairs, dtype=np.int32)
        is_named, is_shown = indices == action, indices == state.shown
        shown_number = jnp.where(is_shown, state.level.cards, 0).sum(dtype=jnp.int32)
        is_right = (is_named & ~is_shown & ~state.is_removed & (state.level.cards == shown_number)).any()
        is_removed = state.is_removed | (is_right & (is_named | is_shown))
        is_over = is_removed.all()
        shown, num_drawn = self._draw(state.level.draws, is_removed, state.num_drawn)
        state = dataclasses.replace(
            state,
            is_removed=is_removed,
            shown=jnp.where(is_over, NOTHING, shown).astype(jnp.int32),
            num_drawn=jnp.where(is_over, state.num_drawn, num_drawn).astype(jnp.int32),
        )
        metrics = {
            "success": is_over.astype(jnp.int32),
            "pairs_found": is_removed.sum(dtype=jnp.int32) // 2,
        }
        return Transition(state, jnp.where(is_right, 0.0, -1.0).astype(jnp.float32), is_over, metrics)

    def _draw(self, draws: jax.Array, is_removed: jax.Array, num_drawn: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the next random card that is not removed, and the number of used draws after it, int32 () each."""
        ahead = (np.arange(self.num_draws, dtype=np.int32) - num_drawn) % self.num_draws
        distance = jnp.where(is_removed[draws], self.num_draws, ahead)
        nearest = jnp.argmin(distance)
        # If none of the draws is left on the table, the first card of the table takes their place.
        is_found = distance[nearest] < self.num_draws
        used = jnp.where(is_found, distance[nearest] + 1, self.num_draws)
        return jnp.where(is_found, draws[nearest], jnp.argmin(is_removed)), num_drawn + used

    def scene(self, state: State, params: EnvParams) -> Scene:
        """Return what each card shows."""
        is_shown = np.arange(2 * self.num_pairs, dtype=np.int32) == state.shown
        faces = jnp.where(is_shown, state.level.cards, 0)
        return Scene(faces=jnp.where(state.is_removed, self.num_pairs + 1, faces).astype(jnp.int32))

    def hidden(self, state: State, params: EnvParams) -> facts.Facts:
        """Return the number of each card, and the index of the card to name."""
        cards, indices = state.level.cards, np.arange(2 * self.num_pairs, dtype=np.int32)
        is_pair = (cards == cards[state.shown]) & (indices != state.shown)
        partner = jnp.where(state.shown >= 0, jnp.argmax(is_pair), -1).astype(jnp.int32)
        return {
            "numbers": facts.Fact(cards, self.num_pairs + 1),
            "card_to_name": facts.Fact(partner, 2 * self.num_pairs, first=1),
        }

    def visible(self, scene: Scene) -> Scene:
        """Return the scene, which hides nothing that it contains."""
        return scene

    def observe_scene(self, scene: Scene) -> jax.Array:
        """Return the frame or the symbols."""
        return scene.faces.astype(jnp.float32) if self.observation == "symbolic" else draw(scene.faces)


def sorted_cards(num_pairs: int) -> np.ndarray:
    """Return the numbers of the cards before they are shuffled, int32 (2 N,)."""
    return np.repeat(np.arange(1, num_pairs + 1, dtype=np.int32), 2)


def expert_action(env: MemoryCards, state: State, _: EnvParams) -> jax.Array:
    """Return the other card of the pair, int32 ()."""
    indices = np.arange(2 * env.num_pairs, dtype=np.int32)
    number = state.level.cards[state.shown]
    return jnp.argmax((state.level.cards == number) & (indices != state.shown)).astype(jnp.int32)


def view(env: MemoryCards, state: State, _: EnvParams) -> jax.Array:
    """Return the frame with all numbers, enlarged four times, uint8 (336, 336, 3)."""
    faces = jnp.where(state.is_removed, env.num_pairs + 1, state.level.cards)
    return enlarged(draw(faces.astype(jnp.int32), shown=state.shown))


def valid_levels(env: MemoryCards, buffer: Any, _: EnvParams) -> dict[str, np.ndarray]:
    """Return which levels of a buffer this environment can make, for each field; bool (n,)."""
    return {
        "cards": (np.sort(buffer.cards, axis=1) == sorted_cards(env.num_pairs)).all(axis=1),
        "draws": within(buffer.draws, 0, 2 * env.num_pairs - 1),
    }
