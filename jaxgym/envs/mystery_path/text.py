"""Text interfaces of Mystery Path and Endless Mystery Path."""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from jaxgym.envs.common.text import FrameTextInterface, actions_option, rewards
from jaxgym.envs.memory_gym.agent import first_headings
from jaxgym.envs.memory_gym.arena import SCREEN_PX
from jaxgym.envs.memory_gym.text import (
    GRID_STEPS,
    NUMBERING,
    action_set_of,
    course_actions,
    free_speed,
    heading_names,
    screen,
    tile_name,
)
from jaxgym.envs.mystery_path import endless_scene as endless
from jaxgym.envs.mystery_path.endless_visible import EndlessMysteryPathVisible
from jaxgym.envs.mystery_path.path_search import SIZE
from jaxgym.envs.mystery_path.scene import TILE_PX, Scene
from jaxgym.envs.mystery_path.visible import Visible
from jaxgym.spec import TextSpec

_CROSS = "Red cross: on you"


def build(env: Any, values: Mapping[str, Any]) -> "MysteryPathTextInterface":
    """Make the text interface of Mystery Path, free or by tiles."""
    return MysteryPathTextInterface(env.env_id, env, action_set_of(env, values))


def build_endless(env: Any, values: Mapping[str, Any]) -> "EndlessMysteryPathTextInterface":
    """Make the text interface of Endless Mystery Path."""
    return EndlessMysteryPathTextInterface(env.env_id, env, course_actions(int(values["actions_per_turn"])))


@dataclasses.dataclass(frozen=True)
class MysteryPathTextInterface(FrameTextInterface[Scene]):
    """Text interface of Mystery Path."""

    text_version: ClassVar[int] = 2

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        lines = [
            f"Your task is to walk along an invisible path on a square of {SIZE} x {SIZE} tiles. The path leads from "
            "your start tile on one side to the goal tile on the opposite side. Consecutive tiles of the path share an "
            "edge. Sometimes other tiles of the path share an edge, too.",
            _fall(params),
            "",
            rewards(
                {
                    "for reaching the goal": params.reward_goal,
                    "for the first visit of each path tile between start and goal": params.reward_path_progress,
                    "for each fall": params.reward_fall_off,
                    "for each step": params.reward_step,
                }
            ),
            "The episode ends when you reach the goal.",
        ]
        return "\n".join(lines)

    def legend(self, params: Any) -> str:
        """Return the explanation of positions."""
        steps = [GRID_STEPS] if self.env.grid else [screen(TILE_PX), free_speed(params)]
        return "\n".join([f"Observation: {NUMBERING}", *steps])

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


def _fall(params: Any) -> str:
    """Return the rule of falling."""
    cross = " and see a red cross" if bool(params.visual_feedback) else ""
    return (
        f"If you step on a tile that is not part of the path, you fall{cross}. Your next action, whatever it is, only "
        "puts you back on the start tile. The path stays the same during the episode, so remember it."
    )


@functools.cache
def _ends(start_column: int, start_row: int, goal_column: int, goal_row: int) -> str:
    start = f"\nStart (blue): {tile_name(start_row, start_column)}" if start_row >= 0 else ""
    goal = f"\nGoal (green): {tile_name(goal_row, goal_column)}" if goal_row >= 0 else ""
    return f"{start}{goal}"


@dataclasses.dataclass(frozen=True)
class EndlessMysteryPathTextInterface(FrameTextInterface[endless.EndlessMysteryPathScene]):
    """Text interface of Endless Mystery Path."""

    text_version: ClassVar[int] = 2

    def rules(self, params: Any) -> str:
        """Return the goal, the rules, the rewards and the end of the episode."""
        past = (
            " You see only the tiles of the path that you have just walked on." if bool(params.show_past_path) else ""
        )
        lines = [
            "Your task is to follow an invisible path to the right, as far as possible. The path has no end. The world "
            f"has {endless.NUM_ROWS} rows of tiles. From each tile, the path continues to the right, up or down.",
            f"{_fall(params)}{past}",
            "",
            rewards(
                {
                    "for each path tile after the start that you reach for the first time": params.reward_path_progress,
                    "for each fall": params.reward_fall_off,
                    "for each step": params.reward_step,
                }
            ),
            "The episode ends in three cases: you fall in a column to the left of the rightmost column that you have "
            "reached; you fall a second time on the same tile; or you make "
            f"{int(params.stamina_level)} steps without reaching a new path tile. A path tile is new if you have not "
            "reached it since your last fall.",
        ]
        return "\n".join(lines)

    def legend(self, params: Any) -> str:
        """Return the explanation of positions."""
        lines = [
            "Observation: Rows are numbered from 1 at the top. Path tiles are listed by the x of their left edge and "
            "their row.",
            f"{screen(TILE_PX)} The screen moves along with you. You start at the left edge of your tile.",
        ]
        if bool(params.show_background):
            lines.append("The floor is drawn as ice, which moves left while you walk right.")
        if bool(params.show_stamina):
            lines.append(
                "Stamina bar: its red part grows with each step without a new path tile. The episode ends when all of "
                "it is red."
            )
        return "\n".join(
            [*lines, f"right, up and down move you {int(float(params.agent_speed))} px. wait does not move you."]
        )

    def describe_visible(self, seen: EndlessMysteryPathVisible) -> list[str]:
        """Return the texts of the agent's position and heading, its cross, and the visible path, ice and stamina."""
        agents = zip(
            *(seen.has_agent.tolist(), seen.agent_px.tolist(), seen.agent_row.tolist(), seen.agent_heading.tolist()),
            strict=True,
        )
        who = [
            f"x {x}, y {y} ({f'row {row + 1}' if row >= 0 else 'on no row'}){self._facing[heading]}"
            if is_seen
            else "not visible"
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
    return [f"Visible path tiles: {'; '.join(part) or 'none'}" for part in parts]


FREE_TEXT, GRID_TEXT = TextSpec(build, actions_option(8)), TextSpec(build, actions_option(1))
ENDLESS_TEXT = TextSpec(build_endless, actions_option(8))
