"""Text interfaces of Mystery Path and Endless Mystery Path."""

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
    course_actions,
    free_speed,
    heading_names,
    number,
    tile_name,
)
from jaxgym.envs.mystery_path import endless_scene as endless
from jaxgym.envs.mystery_path.endless_visible import EndlessMysteryPathVisible
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.envs.mystery_path.scene import TILE_PX, Scene
from jaxgym.envs.mystery_path.visible import Visible
from jaxgym.spec import TextSpec

_CROSS = "Red cross: on you"
_FALL = "Your next action then does nothing but put you back to the start; further actions go on from there."


def build(env: Any, values: Mapping[str, Any]) -> "MysteryPathTextInterface":
    """Make the text interface of Mystery Path, free or by tiles."""
    return MysteryPathTextInterface(env.env_id, env, action_set_of(env, values))


def build_endless(env: Any, values: Mapping[str, Any]) -> "EndlessMysteryPathTextInterface":
    """Make the text interface of Endless Mystery Path."""
    return EndlessMysteryPathTextInterface(env.env_id, env, course_actions(int(values["actions_per_turn"])))


@dataclasses.dataclass(frozen=True)
class MysteryPathTextInterface(FrameTextInterface[Scene]):
    """Text interface of Mystery Path."""

    def rules(self, params: Any) -> str:
        """Return the rules and the legend."""
        cross = " You then see a red cross." if bool(params.visual_feedback) else ""
        lines = [
            f"An invisible path leads over a square of {SIZE} x {SIZE} tiles, from the side where you start to the "
            "opposite side. Find its other end, the goal. Neighboring tiles of it share a side.",
            f"On a tile that is not of the path you fall.{cross} {_FALL} The path stays the same; remember it.",
            f"The goal gives a reward of {number(params.reward_goal)} and ends the episode.",
        ]
        rewards = {
            "The first visit of each other tile of the path": params.reward_path_progress,
            "Each fall": params.reward_fall_off,
            "Each step": params.reward_step,
        }
        lines += [f"{what} gives a reward of {number(value)}." for what, value in rewards.items() if float(value)]
        if not self.env.grid:
            lines += [
                f"Positions are px of a screen of {SCREEN_PX} x {SCREEN_PX}, x to the right and y down; a tile has "
                f"{TILE_PX} px a side, and the tile under the middle of you counts.",
                free_speed(params),
            ]
        forward = " Forward moves you one tile ahead." if self.env.grid else ""
        lines.append(f"Rows count from 1 at the top, columns from 1 at the left.{forward}")
        return "\n".join(lines)

    def ending(self, reward: float) -> str:
        """Return the text for reaching the goal, the only way to terminate."""
        return f"You have reached the goal. {super().ending(reward)}"

    def describe_visible(self, seen: Visible) -> list[str]:
        """Return the texts of the agent's position and heading, its cross, and the ends of the path that are shown."""
        tiles = [tile_name(row, column) for column, row in seen.agent_tile.tolist()]
        if not self.env.grid:
            tiles = [f"x {x}, y {y} ({tile})" for (x, y), tile in zip(seen.agent_px.tolist(), tiles, strict=True)]
        said = [
            f"You: {tile}{self._facing[heading]}{f'{chr(10)}{_CROSS}' if cross else ''}"
            for tile, heading, cross in zip(tiles, seen.agent_heading.tolist(), seen.has_cross.tolist(), strict=True)
        ]
        shown = zip(*seen.origin_tile.T.tolist(), *seen.goal_tile.T.tolist(), strict=True)
        return [f"{text}{_ends(*tiles)}" for text, tiles in zip(said, shown, strict=True)]

    @functools.cached_property
    def _facing(self) -> list[str]:
        return heading_names(first_headings(self.env.agent_scale))


@functools.cache
def _ends(start_column: int, start_row: int, goal_column: int, goal_row: int) -> str:
    start = f"\nStart (blue): {tile_name(start_row, start_column)}" if start_row >= 0 else ""
    goal = f"\nGoal (green): {tile_name(goal_row, goal_column)}" if goal_row >= 0 else ""
    return f"{start}{goal}"


@dataclasses.dataclass(frozen=True)
class EndlessMysteryPathTextInterface(FrameTextInterface[endless.EndlessMysteryPathScene]):
    """Text interface of Endless Mystery Path."""

    def rules(self, params: Any) -> str:
        """Return the rules and the legend."""
        cross = " You then see a red cross." if bool(params.visual_feedback) else ""
        past = "Of the path you see only tiles that you just walked." if bool(params.show_past_path) else ""
        lines = [
            f"An invisible path leads to the right, without end, through {endless.NUM_ROWS} rows of tiles: "
            "from each of its tiles it goes on to the right, up or down.",
            f"On a tile that is not of the path you fall.{cross} {_FALL} The path stays the same; remember it. {past}",
            f"Each new tile of the path gives a reward of {number(params.reward_path_progress)}.",
        ]
        rewards = {"Each fall": params.reward_fall_off, "Each step": params.reward_step}
        lines += [f"{what} gives a reward of {number(value)}." for what, value in rewards.items() if float(value)]
        speed = int(float(params.agent_speed))
        lines += [
            "The episode ends when you fall to the left of the rightmost column that you have reached, when you fall "
            "onto a tile onto which you fell before, or when you have made "
            f"{int(params.stamina_level)} steps without reaching a tile of the path that you had not reached since "
            "the last fall.",
            f"Positions are px of a screen of {SCREEN_PX} x {SCREEN_PX} that goes along with you, x to the right and y "
            f"down. A tile has {TILE_PX} px a side, and the tile under the middle of you counts; you start at its "
            f"left. One action moves you {speed} px. Rows count from 1 at the top; path tiles are listed by the x of "
            "their left edge.",
        ]
        return "\n".join(line.strip() for line in lines)

    def describe_visible(self, seen: EndlessMysteryPathVisible) -> list[str]:
        """Return the texts of the agent's position and heading, its cross, and the visible path, ice and stamina."""
        agents = zip(
            *(seen.has_agent.tolist(), seen.agent_px.tolist(), seen.agent_row.tolist(), seen.agent_heading.tolist()),
            strict=True,
        )
        who = [
            f"x {x}, y {y} ({f'row {row + 1}' if row >= 0 else 'on no row'}){self._facing[heading]}"
            if is_seen
            else "not seen"
            for is_seen, (x, y), row, heading in agents
        ]
        grounds = [f"\nIce: moved left by {moved} px" if moved >= 0 else "" for moved in seen.ice_px.tolist()]
        bars = [
            f"\nStamina bar: {red} of {SCREEN_PX} px are red" if is_shown else ""
            for is_shown, red in zip(seen.has_stamina.tolist(), seen.lost_stamina_px.tolist(), strict=True)
        ]
        paths, crosses = _paths(seen.tiles, seen.left_px), seen.has_cross.tolist()
        return [
            f"You: {you}{f'{chr(10)}{_CROSS}' if cross else ''}\n{path}{ground}{bar}"
            for you, cross, path, ground, bar in zip(who, crosses, paths, grounds, bars, strict=True)
        ]

    @functools.cached_property
    def _facing(self) -> list[str]:
        return heading_names(first_headings(self.env.agent_scale))


def _paths(tiles: Any, left_px: Any) -> list[str]:
    """Return the texts of path tiles, bool (B, 9, 7), by the left edges of their columns, int32 (B, 9)."""
    parts = [list[str]() for _ in tiles]
    for session, column in zip(*np.nonzero(tiles.any(axis=2)), strict=True):
        rows = ", ".join(str(row + 1) for row in np.flatnonzero(tiles[session, column]))
        parts[session].append(f"x {left_px[session, column]}: row {rows}")
    return [f"Path tiles in sight: {'; '.join(part) or 'none'}" for part in parts]


FREE_TEXT, GRID_TEXT = TextSpec(build, actions_option(8)), TextSpec(build, actions_option(1))
ENDLESS_TEXT = TextSpec(build_endless, actions_option(8))
