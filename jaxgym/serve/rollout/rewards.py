"""Rewards of trajectories: a weighted sum of reward functions and the return of the episode.

A reward function has the signature of ms-swift's: it takes `completions`, the last replies, and every column of the
rows as a keyword argument, including `messages` and `rollout_infos`. All arguments are lists; it returns a number for
each trajectory.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxgym.errors import OptionError, nearest

GYM = "gym"
"""Name of the column with the sum of an episode's rewards, the last column."""

RewardFunction = Callable[..., Sequence[float]]

_CONCISE, _WORDY = 400, 4000


def format_reward(completions: Sequence[str], rollout_infos: Sequence[Mapping[str, Any]], **_: Any) -> list[float]:
    """Return the share of replies in the form of the prompt, from 0 to 1; 0 without a reply."""
    del completions
    return [infos["num_exact"] / infos["num_turns"] if infos["num_turns"] else 0.0 for infos in rollout_infos]


def length_reward(completions: Sequence[str], messages: Sequence[Sequence[Mapping[str, Any]]], **_: Any) -> list[float]:
    """Return 1 for a mean reply length of at most 400 characters, falling linearly to 0 at 4000, or without a reply."""
    del completions
    rewards = []
    for chat in messages:
        lengths = [len(message["content"]) for message in chat if message["role"] == "assistant"]
        mean = sum(lengths) / len(lengths) if lengths else _WORDY
        rewards.append(min(max((_WORDY - mean) / (_WORDY - _CONCISE), 0.0), 1.0))
    return rewards


BUILT_IN: Mapping[str, RewardFunction] = {"format": format_reward, "length": length_reward}
"""Reward functions by name."""


class Blend:
    """Weighted sum of reward functions and the gym column, the last of `columns`."""

    def __init__(self, functions: Sequence[str | RewardFunction] = (), weights: Sequence[float] | None = None):
        """Make a weighted sum of functions or names of `BUILT_IN`; the weights are 1 if None.

        Raises:
            OptionError: If a name is unknown or used twice, or the weights are not one finite number for each column.
        """
        named: dict[str, RewardFunction] = {}
        for function in functions:
            if isinstance(function, str) and function not in BUILT_IN:
                known = ", ".join(BUILT_IN)
                raise OptionError(f"Unknown reward {function!r}{nearest(function, BUILT_IN)}. Use one of {known}.")
            name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
            if name in named or name == GYM:
                raise OptionError(f"expected reward functions with different names, got {name!r} twice.")
            named[name] = BUILT_IN[function] if isinstance(function, str) else function
        self._functions = named
        self.columns = (*named, GYM)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(self.columns)
        if len(self.weights) != len(self.columns):
            raise OptionError(
                f"reward_weights: expected {len(self.columns)} numbers ({', '.join(self.columns)}), "
                f"got {len(self.weights)}."
            )
        if not all(map(math.isfinite, self.weights)):
            raise OptionError(f"reward_weights: expected finite numbers, got {list(self.weights)}.")

    def of(
        self, chat: Sequence[Mapping[str, Any]], infos: Mapping[str, Any], row: Mapping[str, Any]
    ) -> tuple[float, dict[str, float]]:
        """Return the reward of a trajectory and its columns; raise `OptionError` unless each one is a number."""
        said = [message["content"] for message in chat if message["role"] == "assistant"]
        columns = {name: [value] for name, value in row.items()} | {"messages": [chat], "rollout_infos": [infos]}
        rewards: dict[str, float] = {}
        for name, function in self._functions.items():
            given = list(function([said[-1] if said else ""], **columns))
            if len(given) != 1:
                raise OptionError(f"{name}: expected one reward for one trajectory, got {len(given)}.")
            rewards[name] = float(given[0])
        rewards[GYM] = float(infos["total_reward"])
        return sum(weight * rewards[name] for name, weight in zip(self.columns, self.weights, strict=True)), rewards
