"""Adaptive difficulty: a controller of one integer option holds the success of groups of episodes near one half.

A group is a number of episodes on one level, as GRPO compares them. All episodes of a group have the same difficulty.
"""

import dataclasses
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any

from jaxgym import registry, text
from jaxgym.errors import OptionError
from jaxgym.options import check_names
from jaxgym.serve.sessions import SESSION_OPTIONS

LOW, HIGH = 0.3, 0.7
"""Success below which the difficulty falls, and above which it rises."""

_FEWEST, _MOST = 16, 32  # episodes of whole groups that a decision needs and uses
_MOST_GROUPS = 4096  # incomplete groups that are kept

OPTIONS = ("adapt", "adapt_group")
"""The session options of the controller."""


@dataclasses.dataclass(slots=True, eq=False)
class EpisodeGroup:
    """Episodes on one level with one difficulty.

    Attributes:
        value: The difficulty.
        started: Number of episodes that have started.
        results: Success of each episode that has ended.
    """

    value: int
    started: int = 0
    results: list[bool] = dataclasses.field(default_factory=list)


class Controller:
    """Controller of one integer option; it is thread-safe and knows nothing of the game.

    After each complete group, it compares the mean success of the last groups with the current value to `LOW` and
    `HIGH`, and moves the value by one step if the mean is outside.

    Attributes:
        option: Name of the option.
        value: The current value.
        success: Mean success of the groups in the last decision; None before the first.
        groups: Number of complete groups.
    """

    def __init__(self, option: str, easiest: int, hardest: int, step: int = 1, group: int = 8):
        """Make a controller that begins with the easiest value; it reaches the hardest in steps of `step`."""
        self.option, self.value = option, easiest
        self.success: float | None = None
        self.groups = 0
        sign = 1 if hardest >= easiest else -1
        self._values = range(easiest, hardest + sign, sign * step)
        self._size = group
        self._open: OrderedDict[int, EpisodeGroup] = OrderedDict()
        self._recent: deque[EpisodeGroup] = deque(maxlen=max(_MOST // group, 1))
        self._lock = threading.Lock()

    def start(self, seed: int) -> EpisodeGroup:
        """Return the group of another episode on a level."""
        with self._lock:
            found = self._open.get(seed)
            if found is None:
                found = self._open[seed] = EpisodeGroup(self.value)
                if len(self._open) > _MOST_GROUPS:
                    self._open.popitem(last=False)
            found.started += 1
            if found.started == self._size:
                del self._open[seed]
            return found

    def end(self, group: EpisodeGroup, is_solved: bool) -> None:
        """Add the result of an episode; after the last one of its group, decide about the value."""
        with self._lock:
            group.results.append(is_solved)
            if len(group.results) != self._size:
                return
            self.groups += 1
            if group.value != self.value:
                return
            self._recent.append(group)
            results = [result for each in self._recent for result in each.results]
            if len(results) < _FEWEST:
                return
            self.success = sum(results) / len(results)
            place = self._values.index(self.value) + (self.success > HIGH) - (self.success < LOW)
            value = self._values[min(max(place, 0), len(self._values) - 1)]
            if value != self.value:
                self.value = value
                self._recent.clear()

    def record(self) -> dict[str, Any]:
        """Return option, value, success and number of groups, for logs."""
        return {"option": self.option, "value": self.value, "success": self.success, "groups": self.groups}


def controller_of(env_id: str, options: Mapping[str, Any]) -> Controller:
    """Return a new controller for the options of sessions.

    Raises:
        OptionError: If the range is invalid, or the environment has no such option of integers.
    """
    for name in OPTIONS:
        kind = SESSION_OPTIONS[name]
        if not kind.accepts(options.get(name, kind.default)):
            raise OptionError(f"{env_id}: {name}: expected {kind.allowed}, got {options[name]!r}.")
    option, *numbers = re.split("[=:]", options["adapt"])
    easiest, hardest, step = (*map(int, numbers), 1)[:3]
    if option in options:
        raise OptionError(f"{env_id}: expected {option} in adapt only, got {option}={options[option]!r}. Leave it out.")
    for value in (easiest, hardest):
        concrete(env_id, option, value)
    return Controller(
        option, easiest, hardest, step, options.get("adapt_group", SESSION_OPTIONS["adapt_group"].default)
    )


def concrete(env_id: str, option: str, value: int) -> dict[str, Any]:
    """Return the option with a value, as a list if it takes one.

    Raises:
        OptionError: If the environment has no such option, or it takes no such integer.
    """
    own = text.text_spec_of(env_id)[1].options
    options = {**registry.load(env_id).all_options, **own}
    check_names(env_id, [option], options)
    kind = options[option]
    for given in (value, [value]):
        if kind.accepts(given):
            return {option: given}
    raise OptionError(f"{env_id}: {option}: expected {kind.allowed}, got {value}.")


def without(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options without those of the controller."""
    return {name: value for name, value in options.items() if name not in OPTIONS}
