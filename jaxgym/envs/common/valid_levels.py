"""Checks for `Spec.valid_levels`: whether the options of a game can give the levels of a buffer; on the host, by field.

The checks find level buffers with other options, or of another game, by values that these options never give.
Differences in other respects, such as the frequency of levels, are not found.
"""

from typing import Any

import numpy as np

from jaxgym.options import Choices

Validity = dict[str, np.ndarray]


def within(values: Any, low: int, high: int) -> np.ndarray:
    """Return whether all numbers of each level are in a closed range; (n, …) to bool (n,)."""
    return ((values >= low) & (values <= high)).reshape(len(values), -1).all(axis=1)


def chosen(values: Any, choices: Choices) -> np.ndarray:
    """Return whether the number of each level is one of the choices; (n,) to bool (n,)."""
    return np.isin(values, choices.values)
