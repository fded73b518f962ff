"""Checks of `Spec.fits`: the levels of a bank that the options of a game can make, on the host, field by field.

It tells a bank of other options, or of a game with levels of the same form, by values that these options never give. A
bank may still differ in what no value shows, such as how often each occurs.
"""

from typing import Any

import numpy as np

from jaxgym.options import Choices

Fits = dict[str, np.ndarray]


def within(values: Any, low: int, high: int) -> np.ndarray:
    """Return whether all numbers of each level are in a closed range; from (n, …) to bool (n,)."""
    return ((values >= low) & (values <= high)).reshape(len(values), -1).all(axis=1)


def chosen(values: Any, choices: Choices) -> np.ndarray:
    """Return whether the number of each level is one of the choices; from (n,) to bool (n,)."""
    return np.isin(values, choices.values)
