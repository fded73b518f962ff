"""Text interfaces of Searing Spotlights and Endless Searing Spotlights."""

import dataclasses
import functools
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import counted, number, rewards
from jaxgym.envs.memory_gym import arena
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.memory_gym.text import FIGURE, IMAGE, MemoryGymTextInterface, free_speed, image_px
from jaxgym.envs.searing_spotlights.scene import BAR_PX, HEALTH_BAR_PX, SQUARE_PX, Scene, coin_radius_px
from jaxgym.envs.searing_spotlights.visible import LIGHT_UNITS, SQUARES, Visible

_HIGHEST_DIGIT = 9
_HORIZONTAL, _VERTICAL = ("", "left", "right"), ("", "up", "down")
_HUES = {(False, False): "", (True, False): "\nBlue is visible.", (False, True): "\nRed is visible."}
_REWARDS = ("not positive", "positive")


@dataclasses.dataclass(frozen=True)
class SearingSpotlightsTextInterface(MemoryGymTextInterface[Scene]):
    """Text interface of both games; it reveals less than the frame, and nothing that the frame does not show."""

    text_version: ClassVar[int] = 3

    @property
    def _is_endless(self) -> bool:
        return self.env.render_options.exit_scale is None

    def _has_exit(self, params: Any) -> bool:
        return not self._is_endless and bool(params.use_exit)

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        goal, end = self._goal(params)
        values = {"for each coin": params.reward_coin}
        if self._has_exit(params):
            values["for touching the open exit"] = params.reward_exit
        values |= {
            "for each step in which a spotlight touches you": params.reward_inside_spotlight,
            "for each other step": params.reward_outside_spotlight,
            "for losing all health": params.reward_death,
        }
        ends = f"The episode ends when you {end}, or when you have no health left."
        return "\n".join([goal, _light_rule(params), "", rewards(values), ends])

    def _goal(self, params: Any) -> tuple[str, str]:
        """Return the goal, and what ends the episode."""
        if self._is_endless:
            return (
                "Your task is to collect as many coins as possible. Touch a coin to collect it. Then the next coin "
                f"appears elsewhere. A new coin is visible for {int(params.coin_show_duration)} steps, even in the "
                "dark. Remember its position.",
                f"have not collected a coin for {int(params.steps_per_coin)} steps",
            )
        coins = counted(params.num_coins, "coin")
        if not bool(params.use_exit):
            return (
                f"Your task is to collect {coins}. Touch a coin to collect it. Remember the position of each coin.",
                "have collected all coins",
            )
        return (
            f"Your task is to collect {coins} and then leave through the exit. Touch a coin to collect it. The exit is "
            "a door. It opens when no coin is left. Touch the open exit to leave. Remember the position of each coin "
            "and of the exit.",
            "touch the open exit",
        )

    def legend(self, params: Any) -> str:
        """Return the explanation of positions, brightness, colors and the bar."""
        things = "A coin or the exit" if self._has_exit(params) else "A coin"
        lines = [
            f"Observation: Positions are in pixels (px) on a screen of {SCREEN_PX} x {SCREEN_PX} px: x to the right, y "
            f"down. The position of an object is its center. {things} is listed only if it is completely visible: not "
            "in the dark, and not covered by the health bar, the edge of the screen or another object. The same holds "
            'for your position. If you are not completely visible, the line is "You: not visible".',
            *self._sizes(params),
            f"Light: the brightness of the floor in {SQUARES} x {SQUARES} squares, row by row from the top. 0 is dark, "
            f"{_HIGHEST_DIGIT} is bright. Each square is {SQUARE_PX} px wide and {SQUARE_PX} px high. "
            "Spotlights are not listed. They make the squares that they cover brighter. In the dark, a number above 0 "
            "means a spotlight or a visible object.",
        ]
        if not bool(params.black_background) and not bool(params.hide_chessboard):
            is_red = " While a spotlight touches you, the blue squares are red." if bool(params.visual_feedback) else ""
            lines.append(
                f"Colors: The floor is a chessboard of white and blue squares.{is_red} A line says whether you see "
                "anything blue or red."
            )
        lines.append(
            f"Health bar: a bar covers the top {BAR_PX} px of the screen. Its green part is the health that you have "
            f"left: {HEALTH_BAR_PX} px stand for {number(params.agent_health)} health."
        )
        if bool(params.show_last_action):
            lines.append(
                'The bar also shows your "previous action", one step late: the action before your last action. For '
                "example, after right and then up, it shows right. At the start and after your first action, it shows "
                "wait."
            )
        if bool(params.show_last_positive_reward):
            lines.append(
                'The bar also shows the "previous reward", one step late: whether the reward of the action before '
                "your last action was positive. It is not shown at the start. After your first action, it is not "
                "positive."
            )
        return "\n".join(lines)

    def effects(self, params: Any) -> str:
        """Return the effects of actions."""
        return free_speed(params)

    def image_legend(self, params: Any) -> str:
        """Return the explanation of the floor, the objects and the bar."""
        parts = [f"{IMAGE} It shows the floor from above. {image_px()}", self._floor(params), FIGURE]
        parts.append("A coin is an orange disc.")
        if self._has_exit(params):
            parts.append("The exit is a door with a black edge: dark gray while it is closed, green when it is open.")
        parts.append(
            f"A bar covers the top {BAR_PX} px of the screen. Its left half is your health: green is the health that "
            f"you have left, red the health that you have lost; {HEALTH_BAR_PX} px stand for "
            f"{number(params.agent_health)} health."
        )
        if bool(params.show_last_action):
            parts.append(
                "The right half of the bar shows the action before your last action, in two parts. The first part is "
                "gray for no horizontal movement, purple for left and orange for right. The second part is gray for no "
                "vertical movement, purple for up and orange for down."
            )
        if bool(params.show_last_positive_reward):
            parts.append(
                "A box in the right half of the bar is yellow if the reward of the action before your last action was "
                "positive, else dark gray."
            )
        return "\n".join([" ".join(parts), *self._sizes(params)])

    def _floor(self, params: Any) -> str:
        """Return the colors of the floor and of spotlights in an image."""
        if bool(params.black_background):
            return "The floor is black. Spotlights have white outlines."
        colors = "white" if bool(params.hide_chessboard) else "a chessboard of white and blue squares"
        touched = ""
        if bool(params.visual_feedback) and not bool(params.hide_chessboard):
            touched = " While a spotlight touches you, the blue squares are red."
        return f"The floor is {colors}.{touched} Spotlights are discs in which the floor is bright."

    def _sizes(self, params: Any) -> list[str]:
        """Return the explanation of the agent's size, its range, and contact with objects."""
        radius, exit_scale = arena.agent_radius(self.env.agent_scale), self.env.render_options.exit_scale
        end, coin = SCREEN_PX - radius, coin_radius_px(self.env.coin_scale) + radius
        door = (
            f", and the exit if they are at most {number(10 * exit_scale + radius)} px"
            if self._has_exit(params)
            else ""
        )
        return [
            f"You are a circle with a radius of {radius} px. Walls stop your center at x {radius} and x {end}, and at "
            f"y {BAR_PX + radius} and y {end}. If you start beyond a wall, your first action moves you inside.",
            f"You touch a coin if your center and its center are at most {coin} px apart{door}. A spotlight touches "
            "you if it overlaps your circle.",
        ]

    def describe_visible(self, seen: Visible) -> list[str]:
        """Return the texts of wholly visible objects, the brightness of the floor, and the bar."""
        agents = zip(_things("You", seen.has_agent, seen.agent_px), seen.agent_heading.tolist(), strict=True)
        parts = [[f"{agent}{self.facing[heading]}" if agent else "You: not visible" for agent, heading in agents]]
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
        parts.append([_HUES.get(hue, "\nBlue and red are visible.") for hue in hues])
        parts.append([_bar(*bar) for bar in bars])
        return ["".join(part) for part in zip(*parts, strict=True)]


def _light_rule(params: Any) -> str:
    """Return the rule of darkness and spotlights."""
    fades, threshold = int(params.light_dim_off_duration), int(params.light_threshold)
    dark = "dark" if threshold == np.iinfo(np.uint8).max else "dim"
    light = f"The light fades during the first {fades} steps. Then the" if fades else "The"
    return (
        f"{light} floor is {dark}, except in spotlights, which move over it. Avoid them: you start with "
        f"{number(params.agent_health)} health and lose {number(params.spot_damage)} in each step in which a spotlight "
        "touches you."
    )


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
        names = filter(None, (_VERTICAL[along_y], _HORIZONTAL[along_x]))
        parts.append(f"previous action {'-'.join(names) or 'wait'}")
    if reward >= 0:
        parts.append(f"previous reward {_REWARDS[reward]}")
    return "; ".join(parts)


TEXT = SearingSpotlightsTextInterface.spec(8)
