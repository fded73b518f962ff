"""Text interfaces of Searing Spotlights and Endless Searing Spotlights."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxgym.envs.memory_gym.agent import first_headings
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.memory_gym.text import (
    FrameTextInterface,
    action_set_of,
    actions_option,
    free_speed,
    heading_names,
    number,
    one_of,
)
from jaxgym.envs.searing_spotlights.scene import BAR_PX, HEALTH_BAR_PX, SQUARE_PX, Scene
from jaxgym.envs.searing_spotlights.visible import LIGHT_UNITS, SQUARES, Visible
from jaxgym.spec import TextSpec

_HIGHEST_DIGIT = 9
_ALONG = (("stay", "left", "right"), ("stay", "up", "down"))
_HUES = {(False, False): "", (True, False): "\nBlue is in sight.", (False, True): "\nRed is in sight."}
_REWARDS = ("not positive", "positive")


def build(env: Any, values: Mapping[str, Any]) -> "SearingSpotlightsTextInterface":
    """Make the text interface of Searing Spotlights, or of the endless game."""
    return SearingSpotlightsTextInterface(env.env_id, env, action_set_of(env, values))


@dataclasses.dataclass(frozen=True)
class SearingSpotlightsTextInterface(FrameTextInterface[Scene]):
    """Text interface of both games; it reveals less than the frame, and nothing that the frame does not show."""

    @property
    def _is_endless(self) -> bool:
        return self.env.render_options.exit_scale is None

    def rules(self, params: Any) -> str:
        """Return the rules and the legend."""
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
            f"Light: one digit for each of {SQUARES} x {SQUARES} squares of the floor, {SQUARE_PX} px a side, row by "
            f"row from the top: 0 is dark, {_HIGHEST_DIGIT} is bright. The uppermost {BAR_PX} px are a bar with your "
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

    def describe_visible(self, seen: Visible) -> list[str]:
        """Return the texts of wholly visible objects, the brightness of the floor, and the bar."""
        agents = zip(_things("You", seen.has_agent, seen.agent_px), seen.agent_heading.tolist(), strict=True)
        parts = [[f"{agent}{self._facing[heading]}" if agent else "You: not seen" for agent, heading in agents]]
        parts += [
            _things("\nCoin", is_listed, places_px)
            for is_listed, places_px in zip(seen.has_coin.T, seen.coins_px.swapaxes(0, 1), strict=True)
        ]
        if seen.has_exit is not None:
            exits = zip(_things("\nExit", seen.has_exit, seen.exit_px), seen.is_open.tolist(), strict=True)
            parts.append([f"{door} ({'open' if is_open else 'closed'})" if door else "" for door, is_open in exits])
        hues = zip(seen.has_blue.tolist(), seen.has_red.tolist(), strict=True)
        bars = zip(seen.lost_health_px.tolist(), *seen.action.T.tolist(), seen.reward.tolist(), strict=True)
        parts.append(_lights(seen.light))
        parts.append([_HUES.get(hue, "\nBlue and red are in sight.") for hue in hues])
        parts.append([_bar(*bar) for bar in bars])
        return ["".join(part) for part in zip(*parts, strict=True)]

    @functools.cached_property
    def _facing(self) -> list[str]:
        return heading_names(first_headings(self.env.render_options.agent_scale))


def _light_rules(params: Any) -> list[str]:
    """Return the rules of darkness and spotlights."""
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


def _things(name: str, is_listed: Any, places_px: Any) -> list[str]:
    """Return the position of an object in B frames as text; empty if it is not listed."""
    places = zip(is_listed.tolist(), places_px.tolist(), strict=True)
    return [f"{name}: x {x}, y {y}" if flag else "" for flag, (x, y) in places]


def _lights(light: Any) -> list[str]:
    digits = np.rint(light.astype(np.float32) * LIGHT_UNITS * np.float32(_HIGHEST_DIGIT)).astype(np.uint8) + np.uint8(
        ord("0")
    )
    rows = np.full((len(light), SQUARES, 2 * SQUARES), ord(" "), np.uint8)
    rows[:, :, 0] = ord("\n")
    rows[:, :, 1::2] = digits.reshape(-1, SQUARES, SQUARES)
    return [f"\nLight:{row.tobytes().decode('ascii')}" for row in rows]


@functools.cache
def _bar(lost: int, along_x: int, along_y: int, reward: int) -> str:
    parts = [f"\nHealth bar: {HEALTH_BAR_PX - lost} of {HEALTH_BAR_PX} px are green"]
    if along_x >= 0 and along_y >= 0:
        parts.append(f"action {_ALONG[0][along_x]}, {_ALONG[1][along_y]}")
    if reward >= 0:
        parts.append(f"reward {_REWARDS[reward]}")
    return "; ".join(parts)


TEXT = TextSpec(build, actions_option(8))
