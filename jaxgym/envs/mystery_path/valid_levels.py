"""Checks of level buffers of both Mystery Path games; see `jaxgym.envs.common.valid_levels`."""

from typing import Any

import numpy as np

from jaxgym.envs.common.valid_levels import Validity, within
from jaxgym.envs.mystery_path.endless_segments import NUM_ROWS
from jaxgym.envs.mystery_path.path_search import SIZE


def valid_levels(_: Any, buffer: Any, params: Any) -> Validity:
    """Return whether each level leads from an allowed side to the opposite side; bool (n,) by field."""
    last = SIZE - 1
    is_near, is_far = buffer.start_tile == 0, buffer.start_tile == last
    is_near, is_far = is_near & (buffer.goal_tile == last), is_far & (buffer.goal_tile == 0)
    sides = np.stack([is_near[:, 0], is_far[:, 0], is_near[:, 1], is_far[:, 1]], axis=1)
    chosen = sides[:, np.unique(params.cardinal_origin_choice.values)].any(axis=1)
    return {"start_tile": chosen & within(buffer.start_tile, 0, last), "goal_tile": within(buffer.goal_tile, 0, last)}


def endless_valid_levels(_env: Any, buffer: Any, _params: Any) -> Validity:
    """Return whether each level starts in a valid row; bool (n,) by field."""
    return {"start_row": within(buffer.start_row, 0, NUM_ROWS - 1)}
