"""What a trajectory is worth: reward functions, and the sum of an episode's rewards, blended.

A reward function has the form of ms-swift's: it takes `completions`, the last replies, and every column of the rows as
a keyword, `messages` and `rollout_infos` among them, all of them lists; it returns a number for each.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jaxgym.errors import OptionError, nearest

GYM = "gym"
"""The column of the sum of an episode's rewards; it is the last one."""

RewardFunction = Callable[..., Sequence[float]]

_CONCISE, _WORDY = 400, 4000


def format_reward(completions: Sequence[str], rollout_infos: Sequence[Mapping[str, Any]], **_: Any) -> list[float]:
    """Return the part of the replies that had the form asked for, from 0 to 1; 0 where there was none."""
    del completions
    return [infos["num_exact"] / infos["num_turns"] if infos["num_turns"] else 0.0 for infos in rollout_infos]


def length_reward(completions: Sequence[str], messages: Sequence[Sequence[Mapping[str, Any]]], **_: Any) -> list[float]:
    """Return 1 for replies of 400 characters or fewer in the mean, down to 0 for 4000 or more, or without a reply."""
    del completions
    rewards = []
    for chat in messages:
        lengths = [len(message["content"]) for message in chat if message["role"] == "assistant"]
        mean = sum(lengths) / len(lengths) if lengths else _WORDY
        rewards.append(min(max((_WORDY - mean) / (_WORDY - _CONCISE), 0.0), 1.0))
    return rewards


BUILT_IN: Mapping[str, RewardFunction] = {"format": format_reward, "length": length_reward}
"""The reward functions by name."""


class Blend:
    """Reward functions in order and the gym column behind them, with a weight for each.

    Attributes:
        columns: Their names, the gym column's last.
        weights: Their weights.
    """

    def __init__(self, functions: Sequence[str | RewardFunction] = (), weights: Sequence[float] | None = None):
        """Take names of `BUILT_IN`, or functions, and weights; 1 for each column if None.

        Raises:
            OptionError: If a name is unknown, a column comes twice, there are not as many weights as columns, or one of
                them is not finite.
        """
        named: dict[str, RewardFunction] = {}
        for function in functions:
            if isinstance(function, str) and function not in BUILT_IN:
                known = ", ".join(BUILT_IN)
                raise OptionError(f"{function!r} is no reward{nearest(function, BUILT_IN)}; give one of {known}.")
            name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
            if name in named or name == GYM:
                raise OptionError(f"two columns of rewards are called {name!r}; give functions of other names.")
            named[name] = BUILT_IN[function] if isinstance(function, str) else function
        self._functions = named
        self.columns = (*named, GYM)
        self.weights = tuple(weights) if weights is not None else (1.0,) * len(self.columns)
        if len(self.weights) != len(self.columns):
            raise OptionError(
                f"reward_weights has {len(self.weights)} entries for {len(self.columns)} columns "
                f"({', '.join(self.columns)}); give one for each."
            )
        if not all(map(math.isfinite, self.weights)):
            raise OptionError(f"reward_weights are {list(self.weights)}; give finite numbers.")

    def of(
        self, chat: Sequence[Mapping[str, Any]], infos: Mapping[str, Any], row: Mapping[str, Any]
    ) -> tuple[float, dict[str, float]]:
        """Return the blended reward of a trajectory, and its columns.

        Raises:
            OptionError: If a function does not return one number.
        """
        said = [message["content"] for message in chat if message["role"] == "assistant"]
        columns = {name: [value] for name, value in row.items()} | {"messages": [chat], "rollout_infos": [infos]}
        rewards: dict[str, float] = {}
        for name, function in self._functions.items():
            given = list(function([said[-1] if said else ""], **columns))
            if len(given) != 1:
                raise OptionError(f"the reward {name} gave {len(given)} numbers for 1 trajectory; give one for each.")
            rewards[name] = float(given[0])
        rewards[GYM] = float(infos["total_reward"])
        return sum(weight * rewards[name] for name, weight in zip(self.columns, self.weights, strict=True)), rewards
