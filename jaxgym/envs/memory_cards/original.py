"""Levels that the original makes from its seeds: NumPy's `Generator`."""

import copy
from collections.abc import Sequence

import jax
import numpy as np

from jaxgym.envs.common.draws import whole
from jaxgym.envs.memory_cards.game import Level, sorted_cards
from jaxgym.spec import Original


def level(generator: np.random.Generator, num_pairs: int, num_draws: int) -> Level:
    """Return the level of the next reset on the host, and move the generator to its first draw of a card to show.

    During an episode, the original draws on; see `skip`.
    """
    cards = sorted_cards(num_pairs)
    generator.shuffle(cards)
    later = copy.deepcopy(generator)
    return Level(whole(cards), whole(np.asarray([later.integers(2 * num_pairs) for _ in range(num_draws)])))


def skip(generator: np.random.Generator, num_pairs: int, num_drawn: int) -> None:
    """Move the generator past the draws of an episode, whose number is `State.num_drawn` at its end."""
    for _ in range(num_drawn):
        generator.integers(2 * num_pairs)


def levels(seeds: Sequence[int] | np.ndarray, num_pairs: int, num_draws: int) -> Level:
    """Return the levels of `reset(seed=...)`, as a level buffer on the host."""
    made = [level(np.random.default_rng(seed), num_pairs, num_draws) for seed in seeds]
    return jax.tree.map(lambda *leaves: np.stack(leaves), *made)


ORIGINAL = Original(
    lambda _env, options, seeds: levels(seeds, options["num_pairs"], options["num_draws"]), sequence=None, package=None
)
