"""Checks of level buffers of both Mystery Path games; see `jaxgym.envs.memory_gym.fits`."""

from typing import Any

import numpy as np

from jaxgym.envs.memory_gym.fits import Fits, within
from jaxgym.envs.mystery_path.endless_segments import NUM_ROWS
from jaxgym.envs.mystery_path.path_search import SIZE


def fits(_: Any, bank: Any, params: Any) -> Fits:
    """Return whether each level leads from an allowed side to the opposite side; bool (n,) by field."""
    last = SIZE - 1
    is_near, is_far = bank.start_tile == 0, bank.start_tile == last
    is_near, is_far = is_near & (bank.goal_tile == last), is_far & (bank.goal_tile == 0)
    sides = np.stack([is_near[:, 0], is_far[:, 0], is_near[:, 1], is_far[:, 1]], axis=1)
    chosen = sides[:, np.unique(params.cardinal_origin_choice.values)].any(axis=1)
    return {"start_tile": chosen & within(bank.start_tile, 0, last), "goal_tile": within(bank.goal_tile, 0, last)}


def endless_fits(_env: Any, bank: Any, _params: Any) -> Fits:
    """Return whether each level starts in a valid row; bool (n,) by field."""
    return {"start_row": within(bank.start_row, 0, NUM_ROWS - 1)}
