"""Searing Spotlights and its endless sibling in words."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.memory_gym.agent import heading_looks
from jaxgym.envs.memory_gym.arena import NUM_HEADINGS, SCREEN_PX, Along
from jaxgym.envs.memory_gym.text import (
    FrameWords,
    choice_of,
    columns,
    free_speed,
    heading_names,
    is_set,
    moves_of,
    moves_option,
    number,
    one_of,
    px_of,
)
from jaxgym.envs.searing_spotlights.scene import BAR_PX, HEALTH_BAR_PX, SQUARE_PX, Scene
from jaxgym.spec import TextSpec

_SQUARES = SCREEN_PX // SQUARE_PX
_BRIGHTEST = 9
_FARTHEST_PX = 88
"""What the coordinates of the symbolic observation are a share of."""

_ALONG = (("stay", "left", "right"), ("stay", "up", "down"))
_HUES = {(False, False): "", (True, False): "\nBlue is in sight.", (False, True): "\nRed is in sight."}
_REWARDS = ("not positive", "positive")


def build(env: Any, values: Mapping[str, Any]) -> "SearingSpotlightsWords":
    """Makes the words of Searing Spotlights, or of the endless game."""
    return SearingSpotlightsWords(env.env_id, env, moves_of(env, values))


@dataclasses.dataclass(frozen=True)
class SearingSpotlightsWords(FrameWords[Scene]):
    """The words of both games; they tell less than the frame, but nothing that it does not show."""

    @property
    def _is_endless(self) -> bool:
        return self.env.look.exit_scale is None

    def rules(self, params: Any) -> str:
        """Returns the rules and the legend."""
        return "\n".join([*self._aims(params), *_light_rules(params), *self._legend(params)])

    def _aims(self, params: Any) -> list[str]:
        if self._is_endless:
            return [
                "Collect a coin; then the next one appears elsewhere, and so on. You collect it by touching it. It is "
                f"in sight for the first {int(params.coin_show_duration)} steps; remember where it is.",
                f"A coin gives a reward of {number(params.reward_coin)}. The episode ends when you have not collected "
                f"one for {int(params.steps_per_coin)} steps.",
            ]
        aim = f"Collect all coins by touching them; their number is {one_of(params.num_coins)}."
        if not bool(params.use_exit):
            return [aim, f"A coin gives a reward of {number(params.reward_coin)}. The last one ends the episode."]
        return [
            f"{aim} Then the exit, a door, opens; touch it. Remember where they are.",
            f"A coin gives a reward of {number(params.reward_coin)}, the open exit one of "
            f"{number(params.reward_exit)}; it ends the episode.",
        ]

    def _legend(self, params: Any) -> list[str]:
        lines = [
            f"Positions are px of a screen of {SCREEN_PX} x {SCREEN_PX}, x to the right and y down.",
            free_speed(params),
            "Only what is seen whole and in full light is listed; in the dark you do not see yourself either.",
            f"Light: one digit for each of {_SQUARES} x {_SQUARES} squares of the floor, {SQUARE_PX} px a side, row by "
            f"row from the top: 0 is dark, {_BRIGHTEST} is bright. The uppermost {BAR_PX} px are a bar with your "
            "health.",
        ]
        if not bool(params.black_background) and not bool(params.hide_chessboard):
            red = " In a step in which a spotlight hits you blue turns red." if bool(params.visual_feedback) else ""
            lines.append(f"Lit floor is white and blue.{red}")
        if bool(params.show_last_action):
            lines.append("The bar also shows the action of the step before the last one.")
        if bool(params.show_last_positive_reward):
            lines.append("The bar also shows whether the reward of the step before the last one was positive.")
        return lines

    def say(self, numbers: np.ndarray) -> list[str]:
        """Returns what is seen whole, how bright the floor is, and what the bar shows."""
        num_exit = 0 if self._is_endless else 4
        num_squares, num_coins = _SQUARES**2, self._num_coins(numbers.shape[1])
        fields = (1, 1, 1, NUM_HEADINGS, *(1, 1, 1) * num_coins, *(1,) * num_exit, num_squares, 1, 1, 1, 3, 3, 2)
        has_agent, x, y, headings, *rest = columns(numbers, fields)
        light, blue, red, lost, along_x, along_y, rewards = rest[-7:]
        agents = _things("You", has_agent, x, y)
        facing = [self._facing[heading] if heading >= 0 else "" for heading in choice_of(headings)]
        seen = [f"{agent or 'You: not seen'}{face}" for agent, face in zip(agents, facing, strict=True)]
        things = [_things("\nCoin", *rest[3 * coin : 3 * coin + 3]) for coin in range(num_coins)]
        if num_exit:
            *place, is_open = rest[3 * num_coins : 3 * num_coins + num_exit]
            states = [" (open)" if flag else " (closed)" for flag in is_set(is_open)]
            exits = _things("\nExit", *place)
            things.append([f"{door}{state}" if door else "" for door, state in zip(exits, states, strict=True)])
        hues = [_HUES.get(pair, "\nBlue and red are in sight.") for pair in zip(is_set(blue), is_set(red), strict=True)]
        bars = zip(px_of(lost, HEALTH_BAR_PX), choice_of(along_x), choice_of(along_y), choice_of(rewards), strict=True)
        parts = [seen, *things, _lights(light), hues, [_bar(*bar) for bar in bars]]
        return ["".join(part) for part in zip(*parts, strict=True)]

    def _num_coins(self, width: int) -> int:
        without = 3 + NUM_HEADINGS + _SQUARES**2 + 2 + 1 + 2 * len(Along) + len(_REWARDS)
        return (width - without - (0 if self._is_endless else 4)) // 3

    @functools.cached_property
    def _facing(self) -> list[str]:
        return heading_names(heading_looks(self.env.look.agent_scale))


def _light_rules(params: Any) -> list[str]:
    """Returns what darkness and spotlights do."""
    dims, stays = int(params.light_dim_off_duration), int(params.light_threshold)
    dark = "It is dark" if stays == np.iinfo(np.uint8).max else "It is dim"
    within = f"The light goes off within the first {dims} steps." if dims else f"{dark} from the start."
    lines = [
        f"{within} Spotlights wander over the floor and light it, but each step in which one shines on you costs "
        f"health. You begin with {number(params.agent_health)} and lose {number(params.spot_damage)} in such a step; "
        "without health the episode ends.",
    ]
    rewards = {
        "Each step in a spotlight": params.reward_inside_spotlight,
        "Each other step": params.reward_outside_spotlight,
        "Dying": params.reward_death,
    }
    return lines + [f"{what} gives a reward of {number(value)}." for what, value in rewards.items() if float(value)]


def _things(name: str, is_listed: np.ndarray, x: np.ndarray, y: np.ndarray) -> list[str]:
    """Returns where a thing is in B frames; nothing where it is not listed."""
    places = zip(is_set(is_listed), px_of(x, _FARTHEST_PX), px_of(y, _FARTHEST_PX), strict=True)
    return [f"{name}: x {at_x}, y {at_y}" if flag else "" for flag, at_x, at_y in places]


def _lights(light: np.ndarray) -> list[str]:
    digits = np.rint(light * np.float32(_BRIGHTEST)).astype(np.uint8) + np.uint8(ord("0"))
    rows = np.full((len(light), _SQUARES, 2 * _SQUARES), ord(" "), np.uint8)
    rows[:, :, 0] = ord("\n")
    rows[:, :, 1::2] = digits.reshape(-1, _SQUARES, _SQUARES)
    return [f"\nLight:{row.tobytes().decode('ascii')}" for row in rows]


@functools.cache
def _bar(lost: int, along_x: int, along_y: int, reward: int) -> str:
    parts = [f"\nHealth bar: {HEALTH_BAR_PX - lost} of {HEALTH_BAR_PX} px are green"]
    if along_x >= 0 and along_y >= 0:
        parts.append(f"action {_ALONG[0][along_x]}, {_ALONG[1][along_y]}")
    if reward >= 0:
        parts.append(f"reward {_REWARDS[reward]}")
    return "; ".join(parts)


TEXT = TextSpec(build, moves_option(8))
